"""`load` and `NLI`: a saved model with its tokenizer, and the verbs `predict` and `explain`.

Any sequence classifier that transformers can load will do, ours or not; labels come out by name, as
the model's own configuration has them. Nothing is downloaded if the name is a folder or looks like
one. A folder that would load but could only answer at random (no classifier, no vocabulary, weights
that are NaN) is refused. Files of pairs are the business of `prediction`.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError
from torch import nn
from tqdm.auto import tqdm
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

import neurogame.modeling  # noqa: F401  registers the models with the Auto classes
from neurogame import embedded, labels
from neurogame._types import Float, Tensor
from neurogame.data.batching import collate, encode, sorted_batches
from neurogame.data.pairs import Pair
from neurogame.embedded import EXPLAINER  # a folder of this name in a model's folder belongs to the model
from neurogame.grounding.explainer import Explainer
from neurogame.modeling.checking import SAFELY, UNLOADABLE, check_folder, check_labels, refuse_unused, short
from neurogame.modeling.checking import ModelError as ModelError  # part of this module, as it always was
from neurogame.modeling.loading import load_tokenizer
from neurogame.printing import printable
from neurogame.validation import check_choice, check_count
from neurogame.writing import filled

if TYPE_CHECKING:
    from neurogame.explanation import Explanation

_loading = threading.RLock()  # transformers' hook for bars is one for all threads
MAX_LENGTH = 128  # tokens of a pair, where neither the tokenizer nor the model says how many it takes
Backend = Literal["torch", "onnx"]
Progress = Callable[[int], object]  # told how many pairs have just been done
_NOWHERE = "is no folder here and could not be had from the hub"
_LONG = 512  # pairs from which on `predict` shows a progress bar by itself
_MANY = 32  # pairs from which on `explain` does
_OPENING: dict[str, Any] = {
    **SAFELY,
    "dtype": torch.float32,
    "output_loading_info": True,
    "ignore_mismatched_sizes": True,  # refused by `_check_complete`, with a line that names them
}


@dataclass(frozen=True)
class Prediction:
    """What a model says of one pair; probabilities and logits by label name, in the model's order."""

    label: str
    probabilities: dict[str, float]  # softmax of logits/temperature
    logits: dict[str, float]
    truncated: bool = False  # whether the pair was longer than the model reads

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


class NLI:
    """A classifier of sentence pairs: `predict`, `explain`, `logits`, `save_pretrained`.

    Args:
        model: any sequence classifier of transformers.
        tokenizer: its tokenizer.
        name: how reports call it.
        label_names: names of the logits in order, where the model's configuration does not know them
            ("LABEL_0"); they become part of the configuration, and are saved with it.
        explainer: a grounded game that was fitted to this model; "decision" then plays it.

    Attributes:
        labels: names of the logits in order; those of NLI as `neurogame.labels` spells them.
        max_length: tokens of a pair, special ones included; what is longer is cut.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str = "model",
        label_names: Sequence[str] | None = None,
        explainer: Explainer | None = None,
    ) -> None:
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.labels = _names(model, label_names, name)
        if label_names is not None:
            model.config.id2label = dict(enumerate(self.labels))
            model.config.label2id = {label: i for i, label in enumerate(self.labels)}
        self.max_length = max_length(model, tokenizer)
        if explainer is not None:
            self.explainer = explainer

    @property
    def explainer(self) -> Explainer | None:
        """The grounded game that was fitted to this model, see `neurogame.ground`; the model carries it."""
        return getattr(self.model, "explainer", None)

    @explainer.setter
    def explainer(self, value: Explainer | None) -> None:
        if value is not None:
            value.check(self.model, self.name)
        self.model.explainer = value

    @property
    def temperature(self) -> float:
        """Probabilities are softmax(logits/temperature); fitted on dev after training, 1 if it was not.

        It can be set, and is saved with the model's configuration.
        """
        found = getattr(self.model.config, _temperature_field(self.model), None)
        return 1.0 if found is None else _checked_temperature(found, self.name)

    @temperature.setter
    def temperature(self, value: float) -> None:
        setattr(self.model.config, _temperature_field(self.model), _checked_temperature(value, self.name))

    @property
    def parameters(self) -> int:
        """How many numbers the model has learned or could have."""
        return sum(p.numel() for p in self.model.parameters())

    def logits(
        self, pairs: Sequence[tuple[str, str]], *, batch_size: int = 32, progress: Progress | None = None
    ) -> Float[Tensor, "pairs labels"]:
        """Raw logits in the order of `labels`, one row per pair; `progress` is told of each batch."""
        return self._run(_checked(pairs), batch_size, progress)[0]

    def _run(
        self, pairs: list[tuple[str, str]], batch_size: int, progress: Progress | None
    ) -> tuple[Tensor, list[int]]:
        """Logits, and the tokens of each pair."""
        check_count("batch_size", batch_size)
        found = torch.empty(len(pairs), len(self.labels))
        if not pairs:
            return found, []
        rows = encode([Pair(p, h) for p, h in pairs], self.tokenizer, max_length=self.max_length)
        pad = collate(self.tokenizer)
        self.model.eval()
        for batch in sorted_batches(rows.lengths, batch_size):
            inputs = {key: value.to(self.model.device) for key, value in pad([rows[i] for i in batch]).items()}
            with torch.inference_mode():
                answers = self.forward(inputs).logits.float().cpu()
            found[batch] = answers  # a plain tensor, which callers may change or differentiate through
            if progress is not None:
                progress(len(batch))
        bad = (~found.isfinite()).any(-1).nonzero().flatten().tolist()
        if bad:
            raise ModelError(
                f"the logits of {self.name} are NaN or infinite for {len(bad)} of {len(pairs)} pairs (first: pair "
                f"{bad[0]}); its training has probably diverged, or its numbers overflow"
            )
        return found, rows.lengths

    def forward(self, inputs: Mapping[str, Tensor], **options: Any) -> Any:
        """The model's own output for a batch of its inputs."""
        try:
            return self.model(**inputs, **options)
        except IndexError as error:
            raise ModelError(
                f"{self.name} has no embedding for a token of its tokenizer; does that belong to another model?"
            ) from error

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
            progress: told how many pairs have just been done, instead of the bar.
        """
        if isinstance(premise, str):
            if not isinstance(hypothesis, str):
                raise TypeError(f"hypothesis must be a sentence to go with the premise, got {hypothesis!r:.60}")
            return self._predictions([(premise, hypothesis)], 1, None)[0]
        if hypothesis is not None or not isinstance(premise, Iterable):
            raise TypeError(
                "predict takes two sentences, or one list of (premise, hypothesis) pairs (zip makes it of two lists)"
            )
        pairs = list(premise)
        if progress is not None:
            return self._predictions(pairs, batch_size, progress)
        shown = len(pairs) >= _LONG if show_progress is None else show_progress
        with tqdm(total=len(pairs), unit="pair", disable=not shown) as bar:
            return self._predictions(pairs, batch_size, bar.update)

    def _predictions(
        self, given: Sequence[tuple[str, str]], batch_size: int, progress: Progress | None
    ) -> list[Prediction]:
        pairs = _checked(given)
        logits, lengths = self._run(pairs, batch_size, progress)
        truncated = self._truncated(pairs, lengths)
        return [self.prediction(row, truncated=i in truncated) for i, row in enumerate(logits)]

    def prediction(self, logits: Float[Tensor, "labels"], *, truncated: bool = False) -> Prediction:
        """What the logits of one pair say."""
        return Prediction(
            self.labels[int(logits.argmax())],
            dict(zip(self.labels, (logits / self.temperature).softmax(-1).tolist(), strict=True)),
            dict(zip(self.labels, logits.tolist(), strict=True)),
            truncated,
        )

    def _truncated(self, pairs: list[tuple[str, str]], lengths: list[int]) -> set[int]:
        """Which pairs did not fit: those that fill `max_length` are encoded once more, in full."""
        full = [i for i, length in enumerate(lengths) if length >= self.max_length]
        if not full:
            return set()
        texts = [pairs[i][0] for i in full], [pairs[i][1] for i in full]
        whole = self.tokenizer(*texts, verbose=False)["input_ids"]  # verbose would warn that they are long
        return {i for i, ids in zip(full, whole, strict=True) if len(ids) > self.max_length}

    @overload
    def explain(self, premise: str, hypothesis: str, **options: Any) -> "Explanation": ...
    @overload
    def explain(self, premise: Iterable[tuple[str, str]], **options: Any) -> "list[Explanation]": ...
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
        show_progress: bool | None = None,
    ) -> "Explanation | list[Explanation]":
        """What each word of a pair did: `.show()`, `.to_html(path)`, `.to_dict()`; of a list of pairs, a list.

        `neurogame.explanation.methods_for(nli.model)` lists the methods that work for a model. In logits of the
        target: "decision" (what each word adds, on the head alone), "presence" (Shapley and Banzhaf of words that
        fade from the input), "input" (of words that are removed: Shapley, Banzhaf, interactions), "occlusion" (one
        word left out), "gradient" (times input), "integrated_gradients", "lime", "kernelshap", "partition". The same
        for every label: "game" (the values inside the layer), "attention" (the weights), "random".

        Args:
            premise: a sentence; one of the two may be empty.
            hypothesis: a sentence.
            method: one of the names above, or a usual spelling of one ("gradient × input"); None: the best that the
                model has (`neurogame.explanation.best`), which the record names.
            target: the label to explain; None: the predicted one.
            contrast: explain the logit of the target minus that of this label.
            level: "word", or "token" for word pieces.
            samples: how much work a method may do, None: its own default. For "decision" on a grounded game forward
                passes, by which its values are refined; else coalitions per law (beyond the words it enumerates); steps
                for "presence" and "integrated_gradients"; forward passes for "input", "lime", "kernelshap" and
                "partition". The others take none.
            seed: of what is drawn; the same seed gives the same numbers.
            check: whether the claims of a grounded game (swing words, rationale) are tried on the model, in one batch
                of some ten short passes; without it they are the game's word.
            error: a standard error at which refining stops before `samples` are used up.
            show_progress: a bar on stderr, for a list; None: when it is long.
        """
        from neurogame.explanation import best, explain, named

        asked: dict[str, Any] = {"method": best(self.model) if method is None else named(method), "target": target}
        asked |= {"contrast": contrast, "level": level, "samples": samples, "seed": seed, "check": check}
        if isinstance(premise, str) or hypothesis is not None:
            return explain(self, premise, hypothesis, **asked, error=error)  # type: ignore[arg-type]  # it says what is wrong
        pairs = _checked(premise)
        shown = len(pairs) >= _MANY if show_progress is None else show_progress
        with tqdm(total=len(pairs), unit="pair", disable=not shown) as bar:
            found = []
            for pair in pairs:
                found.append(explain(self, *pair, **asked, error=error))
                bar.update()
            return found

    def save_pretrained(self, folder: str | Path) -> None:
        """Model, tokenizer and configuration as transformers stores them; loads with `load` and the Auto classes."""
        if Path(folder).is_file():
            raise FileExistsError(f"{folder} is a file; a model is saved as a folder")
        with _no_bar(), filled(folder, last="config.json") as fresh:
            self.model.save_pretrained(fresh)
            self.tokenizer.save_pretrained(fresh)
            if self.explainer is not None:
                self.explainer.save_pretrained(Path(fresh) / EXPLAINER)


def load(
    model: str | Path | None = None,
    *,
    label_names: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    backend: Backend = "torch",
    explainer: str | Path | None = None,
) -> NLI:
    """The model that comes with the package, one from a folder, or one by its name on the hub.

    Weights as safetensors only: no pickle is ever read.

    Args:
        model: None for the embedded model, a folder that `save_pretrained` wrote, or a name on the hub. A name
            that looks like a path ("./x", "runs/x" where there is a folder `runs`, "a/b/c") is never looked for there.
        label_names: names of the logits in order, where the model does not know them; see `NLI`.
        device: "cpu", "cuda", "cuda:1", "mps" …; None: a GPU of CUDA if there is one, else the CPU.
        backend: "torch", or "onnx" for a folder that `neurogame export` wrote, run by onnxruntime on the CPU.
        explainer: a folder that `neurogame ground` wrote for this model; None: `explainer` in the model's folder, if
            there is one.
    """
    check_choice("backend", backend, Backend)
    if backend == "onnx":
        if explainer is not None:
            raise ModelError("an explainer reads hidden states, which an ONNX graph does not give: use backend='torch'")
        from neurogame.export import runtime

        return runtime.load(model, label_names=label_names, device=device)
    if model is None:
        model = embedded.folder()
    folder = Path(model).expanduser()
    local = _is_local(str(model), folder)
    where = str(folder) if local else str(model)
    if local:
        if (folder / "model.onnx").is_file() and not any(folder.glob("*.safetensors")):
            raise ModelError(f"{where} is an ONNX export: load it with backend='onnx' (--backend onnx)")
        config = check_folder(folder, AutoModelForSequenceClassification)
        if label_names is None:
            check_labels(config.get("id2label"), config.get("label2id"), where)
    else:
        _check_hub(where)
    try:
        with _no_bar():
            found, info = AutoModelForSequenceClassification.from_pretrained(where, **_OPENING)
    except UNLOADABLE as error:
        raise ModelError(f"{where} {'cannot be loaded' if local else _NOWHERE}: {short(error)}") from error
    _check_complete(where, found, info)
    tokenizer = load_tokenizer(where)
    resolved = folder.resolve()
    name = (resolved.parent.name if resolved.name == "model" else resolved.name) if local else where
    inside = folder / EXPLAINER if local and (folder / EXPLAINER).is_dir() else None
    place = explainer if explainer is not None else inside
    fitted = None if place is None else Explainer.from_pretrained(place)
    return NLI(_on(found, device), tokenizer, name=name, label_names=label_names, explainer=fitted)


def _check_hub(name: str) -> None:
    """Refuse a name that is not in the cache at once where the hub is out of reach; transformers tries for long.

    A folder here that is called nearly so is what was meant, perhaps.
    """
    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=10)
    except HfHubHTTPError:  # it answers: transformers says what
        return
    except Exception as error:  # httpx's have no class in common with others
        near = get_close_matches(name, [path.parent.name for path in Path().glob("*/config.json")], n=1)
        hint = f"; there is a folder {near[0]}" if near else ""
        raise ModelError(f"{name} {_NOWHERE}: {short(error)}{hint}") from error


@contextmanager
def _no_bar() -> Iterator[None]:
    """Without transformers' bars over a single file, which are over in a moment; others, and its settings, stay."""

    def bar(make: Any, arguments: Any, options: Any) -> Any:
        if options.get("desc") in ("Loading weights", "Writing model shards"):
            options = {**options, "disable": True}
        return make(*arguments, **options) if before is None else before(make, arguments, options)

    hook = getattr(transformers_logging, "set_tqdm_hook", None)
    if hook is None:  # transformers before it had the bar's hook
        yield
        return
    with _loading:
        before = hook(bar)
        try:
            yield
        finally:
            hook(before)


def max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The longest pair, in tokens, that both can take: what the tokenizer says, within the model's positions.

    Embeddings of positions that keep a row for padding (RoBERTa, MPNet: 514 rows for 512 tokens) begin
    to count behind it.
    """
    config = model.config
    rows = [getattr(part, "max_position_embeddings", None) for part in (config, getattr(config, "encoder", None))]
    positions = next((row for row in rows if isinstance(row, int) and row > 0), None)
    if positions is not None:
        for name, module in model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                positions -= 0 if module.padding_idx is None else module.padding_idx + 1
                break
    limit = int(tokenizer.model_max_length)
    known = [most for most in (limit if limit < 10**9 else None, positions) if most is not None]  # 1e30: not said
    return min(known, default=MAX_LENGTH)


def _is_local(name: str, folder: Path) -> bool:
    """Whether a model is a folder; one that should be and is not, or holds no model, is an error."""
    shown = printable(name)
    if not name.strip():
        raise FileNotFoundError("the name of a model is empty; give a folder, or a name on the hub")
    if folder.is_dir():
        if (folder / "config.json").is_file():
            return True
        inner = next((folder / part for part in ("model", "best") if (folder / part / "config.json").is_file()), None)
        hint = f"; did you mean {inner}?" if inner else ""
        raise FileNotFoundError(f"{shown} holds no model: config.json is missing{hint}")
    if folder.exists():
        raise NotADirectoryError(f"{shown} is a file; a model is a folder with config.json and model.safetensors")
    if name.startswith((".", "~", "/")) or name.endswith("/") or name.count("/") > 1 or "\\" in name:
        raise FileNotFoundError(f"no model folder at {shown}")
    if folder.parent != Path() and folder.parent.is_dir():
        there = sorted(entry.name for entry in folder.parent.iterdir() if entry.is_dir())
        has = f"has {', '.join(there[:10])}" if there else "is empty"
        raise FileNotFoundError(f"no model folder at {shown}; {printable(str(folder.parent))} {has}")
    return False


def _check_complete(where: str, model: PreTrainedModel, info: Mapping[str, Any]) -> None:
    """Refuse what transformers fills with random numbers, and what is not a number."""
    wrong = sorted(str(entry[0] if isinstance(entry, tuple | list) else entry) for entry in info["mismatched_keys"])
    if wrong:
        raise ModelError(
            f"{where}: config.json and model.safetensors do not fit: {len(wrong)} weights have another shape, "
            f"the first is {wrong[0]}"
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise ModelError(
            f"{where}: {len(missing)} weights of {type(model).__name__} are missing, the first is {missing[0]}; "
            "an encoder that was never trained to classify? `neurogame train` can start from it"
        )
    refuse_unused(where, info["unexpected_keys"])
    for name, weight in model.named_parameters():
        if not bool(weight.isfinite().all()):
            raise ModelError(f"{where}: {name} holds NaN or infinite numbers; its training has probably diverged")


def _on(model: PreTrainedModel, device: str | torch.device | None) -> PreTrainedModel:
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return model.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelError(f"device {str(device)!r} cannot be used here: {short(error)}") from error


def _temperature_field(model: PreTrainedModel) -> str:
    """Where the configuration keeps the temperature.

    To transformers, "temperature" is an option of text generation: it drops it when it reads the configuration
    of a model that does not declare it (BERT …) and refuses to save one that has it. Ours declare it.
    """
    declared = "temperature" in getattr(type(model.config), "__dataclass_fields__", {})
    return "temperature" if declared else "label_temperature"


def _checked_temperature(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ModelError(f"the temperature of {name} must be a number > 0, got {value!r}")
    return float(value)


def _names(model: PreTrainedModel, given: Sequence[str] | None, owner: str) -> tuple[str, ...]:
    """Names of the logits: as given, or the configuration's, spelled as we do where they are NLI labels."""
    if isinstance(given, str):
        raise TypeError(f"label_names must be a list of names, got the string {given!r:.60}")
    if given is None:
        check_labels(model.config.id2label, model.config.label2id, owner)
    id2label = model.config.id2label or {}
    names = [str(name) for name in (given if given is not None else (id2label[i] for i in sorted(id2label)))]
    if len(names) != model.config.num_labels:
        raise ModelError(f"{owner}: {len(names)} label names for {model.config.num_labels} logits: {', '.join(names)}")
    found = []
    for name in names:
        try:
            found.append(labels.canonical(name) or name)
        except labels.UnknownLabelError:
            found.append(name)
    if len(set(found)) < len(found):
        raise ModelError(f"{owner}: label names must differ, got {', '.join(names)}")
    return tuple(found)


def _checked(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of strings; a dictionary or a set has no first and second."""
    found: list[tuple[str, str]] = []
    for i, pair in enumerate(pairs):
        listed = isinstance(pair, Iterable) and not isinstance(pair, str | Mapping | Set)
        texts = tuple(pair) if listed else ()
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"pair {i} must be (premise, hypothesis), two strings; got {pair!r:.80}")
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError(f"pair {i} is not valid Unicode (half of a surrogate pair): {text!r:.80}") from None
        found.append((texts[0], texts[1]))
    return found
