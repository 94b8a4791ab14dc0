"""`load` and `NLI`: a saved model behind the verbs `predict` and `explain`.

`classifier` holds model, tokenizer and labels, `opening` finds them, `explanation` does the explaining; this is the
door to all three. Files of pairs are read by `prediction`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import torch
from tqdm.auto import tqdm

from neurogame import opening
from neurogame._common.writing import atomic_folder
from neurogame.classifier import MAX_LENGTH, Classifier, Prediction, Progress, check_pairs, is_single, max_length
from neurogame.data.words import Spans
from neurogame.embedded import EXPLAINER  # a folder of this name in a model's folder belongs to the model
from neurogame.explanation import Explanation, Question, explain
from neurogame.export.folder import WEIGHTS, Manifest
from neurogame.export.runtime import OnnxModel, TokenWeights
from neurogame.grounding.explainer import Explainer, explain_list
from neurogame.grounding.exported import ExportedGame
from neurogame.grounding.texts import as_texts
from neurogame.modeling.checking import ModelError
from neurogame.modeling.loading import no_bar
from neurogame.opening import Backend

__all__ = ["MAX_LENGTH", "NLI", "Backend", "ModelError", "OnnxNLI", "Prediction", "Progress", "load", "max_length"]

_LONG = 512  # pairs from which on `predict` shows a progress bar
_MANY = 32  # pairs from which on `explain` does


class NLI(Classifier):
    """A classifier of sentence pairs with the verbs `predict`, `explain` and `save_pretrained`; see `Classifier`.

    nli = neurogame.load()
    nli.predict("A man sleeps.", "Nobody is awake.").label
    """

    @overload
    def predict(self, premise: str, hypothesis: str) -> Prediction: ...
    @overload
    def predict(
        self,
        premise: Iterable[tuple[str, str]],
        *,
        batch_size: int = ...,
        show_progress: bool | None = ...,
        progress: Progress | None = ...,
    ) -> list[Prediction]: ...
    def predict(
        self,
        premise: str | Iterable[tuple[str, str]],
        hypothesis: str | None = None,
        *,
        batch_size: int = 32,
        show_progress: bool | None = None,
        progress: Progress | None = None,
    ) -> Prediction | list[Prediction]:
        """The label of one pair, or those of a list of pairs, in its order.

        Args:
            premise: a sentence, or a list of (premise, hypothesis).
            hypothesis: a sentence, if `premise` is one.
            batch_size: pairs per forward pass; the answers do not depend on it.
            show_progress: a bar on stderr; None: when the list is long.
            progress: called with the number of pairs just done, instead of the bar.

        Raises:
            TypeError: neither two sentences nor a list of pairs of them.
            ModelError: logits that are NaN or infinite.

        Returns:
            A `Prediction`, or a list of them.

        Example:
            >>> nli.predict("A man sleeps.", "Nobody is awake.").label  # doctest: +SKIP
            >>> nli.predict([("A man sleeps.", "A man rests."), ("It rains.", "It is dry.")])  # doctest: +SKIP
        """
        if isinstance(premise, str):
            if not isinstance(hypothesis, str):
                raise TypeError(f"hypothesis must be a sentence to go with the premise, got {hypothesis!r:.60}")
            return self.predictions([(premise, hypothesis)], batch_size=1)[0]
        if hypothesis is not None or not isinstance(premise, Iterable):
            raise TypeError(
                "predict takes two sentences, or one list of (premise, hypothesis) pairs (zip makes it of two lists)"
            )
        pairs = list(premise)
        if progress is not None:
            return self.predictions(pairs, batch_size=batch_size, progress=progress)
        shown = len(pairs) >= _LONG if show_progress is None else show_progress
        with tqdm(total=len(pairs), unit="pair", disable=not shown) as bar:
            return self.predictions(pairs, batch_size=batch_size, progress=bar.update)

    @overload
    def explain(self, premise: str, hypothesis: str, **options: Any) -> Explanation: ...
    @overload
    def explain(self, premise: Iterable[tuple[str, str]], **options: Any) -> list[Explanation]: ...
    def explain(  # type: ignore[misc]  # the overloads leave the options to this signature
        self,
        premise: str | Iterable[tuple[str, str]],
        hypothesis: str | None = None,
        *,
        method: str | None = None,
        target: str | None = None,
        contrast: str | None = None,
        level: str = "word",
        samples: int | None = None,
        seed: int = 0,
        check: bool = True,
        error: float | None = None,
        spans: Spans | None = None,
        show_progress: bool | None = None,
    ) -> Explanation | list[Explanation]:
        """What each word of a pair did: `.show()`, `.to_html(path)`, `.to_dict()`; of a list of pairs, a list.

        `neurogame.explanation.methods_for(nli.model)` lists the methods that work for a model. In logits of the
        target: "decision" (what each word adds: by the grounded game where the model has one, else on the head
        alone), "presence" (Shapley and Banzhaf of words that fade from the input), "input" (of words that are
        removed: Shapley, Banzhaf, interactions), "occlusion" (one word left out), "gradient" (times input),
        "integrated_gradients", "lime", "kernelshap", "partition". The same for every label: "game" (the values
        inside the layer), "attention" (the weights), "random".

        Args:
            premise: a sentence; one of the two may be empty. Or a single text, where an explainer was fitted on such.
            hypothesis: a sentence; None for a single text.
            method: one of the names above, or a usual spelling of one ("gradient × input"); None: the best that the
                model has (`neurogame.explanation.best`), which the record names.
            target: the label to explain; None: the predicted one.
            contrast: explain the logit of the target minus that of this label.
            level: "word", "token" for word pieces, "sentence", or "span" for what `spans` names.
            samples: how much work a method may do, None: its own default. For "decision" on a grounded game forward
                passes, by which its values are refined; else coalitions per law (beyond the words it enumerates); steps
                for "presence" and "integrated_gradients"; forward passes for "input", "lime", "kernelshap" and
                "partition". The others take none.
            seed: of the draws; the same seed gives the same numbers.
            check: whether the claims of a grounded game (swing words, rationale) are verified on the model, in one
                batch of some ten short passes.
            error: a standard error at which refining stops before `samples` are used up.
            spans: for each part of the text a list of (start, end) in characters; words in no span always stay.
            show_progress: a bar on stderr, for a list; None: when it is long.

        Returns:
            An `Explanation`, or a list of them.

        Raises:
            ValueError: a method, label or option that does not suit the model; the line says what is allowed.

        Example:
            >>> nli.explain("A man sleeps.", "Nobody is awake.").show()  # doctest: +SKIP
            >>> nli.explain("A man sleeps.", "Nobody is awake.", method="input", target="neutral")  # doctest: +SKIP
        """
        question = Question(target, contrast, samples, seed, check, error, method, level, spans=spans)
        single = is_single(self)
        if isinstance(premise, str) and hypothesis is None and not single:
            raise ValueError("hypothesis must be a string, got None; explain takes one pair, two sentences")
        if isinstance(premise, str) or hypothesis is not None:
            return explain(self, premise, hypothesis, question)  # type: ignore[arg-type]  # it checks the type
        pairs: list[tuple[str, ...]] = as_texts(premise) if single else [*check_pairs(premise)]
        shown = len(pairs) >= _MANY if show_progress is None else show_progress
        with tqdm(total=len(pairs), unit="text" if single else "pair", disable=not shown) as bar:
            return explain_list(self, pairs, question, bar.update)

    def save_pretrained(self, folder: str | Path) -> None:
        """Model, tokenizer and configuration as transformers stores them; loads with `load` and the Auto classes.

        Args:
            folder: made where it does not exist.

        Raises:
            FileExistsError: it is a file.

        Example:
            >>> nli.save_pretrained("my-model")  # doctest: +SKIP
        """
        if Path(folder).is_file():
            raise FileExistsError(f"{folder} is a file; a model is saved as a folder")
        with no_bar(), atomic_folder(folder, last="config.json") as fresh:
            self.model.save_pretrained(fresh)
            self.tokenizer.save_pretrained(fresh)
            if self.explainer is not None:
                self.explainer.save_pretrained(Path(fresh) / EXPLAINER)


class OnnxNLI(NLI):
    """An exported model: `predict` and `logits` as `NLI` has them, `attention`, and `explain`.

    `explain` plays the grounded game where the graph has one (an explainer was exported with the model, or the game of
    its readout), and otherwise takes words away.

    Attributes:
        manifest: the content of config.json.
    """

    model: OnnxModel

    @property
    def manifest(self) -> Manifest:
        """The content of config.json."""
        return self.model.config

    def attention(self, premise: str, hypothesis: str) -> TokenWeights:
        """α of each token and head, and φ, β, J_ij where the graph was exported with them.

        Args:
            premise: a sentence.
            hypothesis: a sentence.

        Returns:
            The tokens, and a row of numbers per head.

        Raises:
            ValueError: the graph was exported with logits alone.
        """
        if not set(WEIGHTS) & set(self.manifest.outputs):
            kind = self.manifest.head or self.manifest.architecture
            alone = "logits and a game" if self.model.has_game else "logits alone"
            raise ValueError(f"{self.name} was exported with {alone}: {kind!r} has no weights of tokens")
        ((_, inputs),) = self.batches(self.encode(check_pairs([(premise, hypothesis)])), 1)
        answer = self.model.run(inputs)
        rest = {name: answer[name][0] if name in answer else None for name in WEIGHTS}
        return TokenWeights(tuple(self.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])), **rest)

    def save_pretrained(self, folder: str | Path) -> None:
        """An exported model is copied, not saved."""
        raise ModelError(f"{self.name} is an ONNX export, which cannot be saved to {folder}; copy its folder")


def load(
    model: str | Path | None = None,
    *,
    label_names: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    backend: Backend = "torch",
    explainer: str | Path | None = None,
) -> NLI:
    """Open the model that comes with the package, one from a folder, or one by its name on the hub.

    Weights as safetensors only: no pickle is ever read.

    Args:
        model: None for the embedded model, a folder that `save_pretrained` wrote, or a name on the hub. A name
            that looks like a path ("./x", "runs/x" where there is a folder `runs`, "a/b/c") is never looked for there.
        label_names: names of the logits in order, where the model does not know them; see `NLI`.
        device: "cpu", "cuda", "cuda:1", "mps" …; None: a GPU of CUDA if there is one, else the CPU.
        backend: "torch", or "onnx" for a folder that `neurogame export` wrote, run by onnxruntime on the CPU.
        explainer: a folder that `neurogame ground` wrote for this model; None: `explainer` in the model's folder, if
            there is one.

    Returns:
        An `NLI`; with backend="onnx" an `OnnxNLI`.

    Raises:
        ModelError: the model cannot be used; one line that names it and the cause.
        FileNotFoundError: there is no such folder, or no model in it.

    Example:
        >>> nli = neurogame.load()  # doctest: +SKIP
        >>> nli.predict("A man sleeps.", "Nobody is awake.").label  # doctest: +SKIP
    """
    if backend == "onnx":
        if explainer is not None:
            raise ModelError(
                "an explainer reads hidden states, which an ONNX graph does not give: use backend='torch', or export "
                "the model with its explainer"
            )
        exported = opening.open(model, label_names=label_names, device=device, backend=backend, kind=OnnxNLI)
        if exported.model.has_game:
            exported.explainer = ExportedGame.read(exported.model.folder)
        return exported
    nli = opening.open(model, label_names=label_names, device=device, backend=backend, kind=NLI)
    inside = nli.folder / EXPLAINER if nli.folder is not None and (nli.folder / EXPLAINER).is_dir() else None
    place = explainer if explainer is not None else inside
    if place is not None:
        nli.explainer = Explainer.from_pretrained(place)
    return nli
