"""Explainer: a grounded game that was fitted to a classifier, with all that is needed to save and load it.

    explainer = neurogame.ground(model, tokenizer, texts)      # minutes; the model stays as it is
    explainer("The plot is thin, but I loved it.")             # an Explanation, in one pass of the model
    explainer(premise, hypothesis)                             # the same, where it was fitted on pairs
    explainer.save_pretrained(folder)                          # explainer.json, explainer.safetensors

It reads hidden states and predicts logits, of any model. What the logits mean (one label of several, yes or no, several
labels at once, a score) is stored with the game. So are the number of parts of a text, what a player is and how players
are removed: fitting, checking and refining use the same. An explainer belongs to the weights that it was fitted to: a
digest of them is stored, and any other model is refused.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from neurogame import __version__
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import check_choice, check_count
from neurogame._common.writing import atomic_folder
from neurogame.classifier import MAX_LENGTH, Classifier
from neurogame.data.removal import Mode
from neurogame.data.words import Level
from neurogame.explanation import Explanation, Question, explain
from neurogame.explanation.interchange import to_shap
from neurogame.explanation.pipeline import TOGETHER, explain_many, is_batched
from neurogame.grounding.coalitions import Law
from neurogame.grounding.fitting import PATIENCE, GroundedGame, Progress, fit_games, fit_quality, observe
from neurogame.grounding.game import WordGame
from neurogame.grounding.passes import Passes, begun
from neurogame.grounding.texts import as_texts
from neurogame.modeling.checking import UNLOADABLE, ModelError, short
from neurogame.modeling.configuration import read_layers
from neurogame.outputs import Output
from neurogame.readout import GameTerms

CONFIG, WEIGHTS = "explainer.json", "explainer.safetensors"
_FIELDS = ("layers", "removal", "digest", "output", "parts", "level", "options", "record")  # of explainer.json
_DEFAULTS = {"output": "softmax", "parts": 2, "level": "word"}  # of files written before these fields existed
TEXTS = 24_000
COALITIONS = 2  # per text: more texts are worth more than more coalitions of one
STEPS = 3000
_HELD_OUT = 0.05  # of the texts, at most MOST_HELD_OUT
MOST_HELD_OUT = 400
_HELD_COALITIONS = 8  # per held-out text
_MOST_WATCHED = 256  # texts for early stopping, taken from those that would be fitted
_CHECKED = 100  # held-out texts whose claims are checked, to measure the usual error of a check
_ENOUGH = 20  # checked texts that `limit` needs
_SAMPLE = 64  # numbers of each weight in the digest


@dataclass(frozen=True, eq=False)
class Explainer:
    """A grounded game with its metadata.

    Attributes:
        game: games and readout.
        layers: whose hidden states it reads, 0 the embeddings.
        removal: how words were removed from the texts it was fitted on; checks use the same.
        digest: of the weights it belongs to.
        options: of `NormGames`.
        record: what it was fitted on, and `r2`: how well it predicts held-out coalitions of held-out texts.
        model, tokenizer: to be called with; None after loading, until `bound`.
        output: what the logits mean: "softmax", "sigmoid", "multi_label" or "regression"; see `neurogame.outputs`.
        parts: of a text: 1, or 2 for pairs.
        level: what a player was: "word", "token" or "sentence"; what explanations are about unless asked otherwise.
    """

    game: GroundedGame
    layers: tuple[int, ...]
    removal: Mode
    digest: str
    options: Mapping[str, Any]
    record: Mapping[str, Any]
    model: PreTrainedModel | None = field(default=None, repr=False)
    tokenizer: PreTrainedTokenizerBase | None = field(default=None, repr=False)
    output: Output = "softmax"
    parts: int = 2
    level: Level = "word"

    @property
    def r2(self) -> float:
        """On held-out coalitions of held-out texts."""
        return float(self.record["r2"])

    @property
    def limit(self) -> float | None:
        """95th percentile of the error in the checks of held-out texts; None where few were held out."""
        errors = self.record.get("check_error") or {}
        return float(errors["p95"]) if errors.get("texts", 0) >= _ENOUGH else None

    def __repr__(self) -> str:
        return f"Explainer(layers={self.layers}, removal={self.removal!r}, r2={self.r2:.3f})"

    @overload
    def __call__(self, text: str, hypothesis: str | None = ..., **options: Any) -> Explanation: ...
    @overload
    def __call__(self, text: Iterable[Any], **options: Any) -> list[Explanation]: ...
    def __call__(
        self, text: str | Iterable[Any], hypothesis: str | None = None, **options: Any
    ) -> Explanation | list[Explanation]:
        """What each word of a text did, or of a pair; of a list of texts or pairs, a list.

        Args:
            text: a text; or the premise of a pair; or a list of texts, or of pairs.
            hypothesis: the other sentence of a pair.
            options: what `NLI.explain` takes: target, contrast, level, samples …; and `spans`, see `Question`.

        Returns:
            One number per word.

        Raises:
            ValueError: it is not bound to its model yet, or was fitted on pairs and is given a single text, or the
                other way round.

        Example:
            >>> explainer("The plot is thin, but I loved it.").show()  # doctest: +SKIP
            >>> explainer("A man sleeps.", "Nobody is awake.").show()  # doctest: +SKIP
            >>> [why.sentence for why in explainer(["A fine film.", "A dull film."])]  # doctest: +SKIP
        """
        question = Question(**{"level": self.level, **options})
        if isinstance(text, str) or hypothesis is not None:
            return explain(self.classifier, text, hypothesis, question)  # type: ignore[arg-type]  # it checks the type
        return explain_list(self.classifier, as_texts(text), question)

    def to_shap(self, texts: Iterable[Any], **options: Any) -> Any:
        """Texts explained, as one `shap.Explanation`; see `Explanation.to_shap`.

        Args:
            texts: single texts, or pairs.
            options: as for calling it; `target` makes all rows speak of one label.

        Returns:
            A row per text.

        Example:
            >>> shap.plots.bar(explainer.to_shap(texts, target="good"))  # doctest: +SKIP
        """
        return to_shap(self(texts, **options))

    def to_shapiq(self, texts: Iterable[Any], **options: Any) -> list[Any]:
        """Texts explained, as a list of `shapiq.InteractionValues`; see `Explanation.to_shapiq`.

        Args:
            texts: single texts, or pairs.
            options: as for calling it.

        Returns:
            One per text.

        Example:
            >>> explainer.to_shapiq(["A fine film."])[0].plot_network()  # doctest: +SKIP
        """
        return [why.to_shapiq() for why in self(texts, **options)]

    @property
    def classifier(self) -> Classifier:
        """The model it is bound to, with this explainer; an error where there is none."""
        if self.model is None or self.tokenizer is None:
            raise ValueError("this explainer is not bound to its model: explainer.bound(model, tokenizer)")
        return Classifier(self.model, self.tokenizer, explainer=self)

    def bound(self, model: Any, tokenizer: PreTrainedTokenizerBase | None = None) -> "Explainer":
        """The same, with the model that it belongs to.

        Args:
            model: the classifier it was fitted to; what `ground` takes.
            tokenizer: its tokenizer; None where the model brings it.

        Returns:
            An explainer that can be called.

        Raises:
            ModelError: another model.

        Example:
            >>> explainer = Explainer.from_pretrained(folder).bound(model, tokenizer)  # doctest: +SKIP
        """
        classifier = _open(model, tokenizer)
        self.check(classifier.model)
        return replace(self, model=classifier.model, tokenizer=classifier.tokenizer)

    def check(self, model: PreTrainedModel, name: str = "this model") -> None:
        """Refuse any other model than the one it was fitted to."""
        own = digest(model)
        if own != self.digest:
            raise ModelError(
                f"this explainer was not fitted to {name}: the weights differ (digest {own[:12]}, not "
                f"{self.digest[:12]}); fit one with `neurogame ground`"
            )

    def terms(
        self,
        hidden: Sequence[Float[Tensor, "batch tokens dim"]],
        players: Bool[Tensor, "batch tokens"],
        real: Bool[Tensor, "batch tokens"] | None = None,
    ) -> GameTerms:
        """The games of texts from their hidden states, on the CPU.

        Args:
            hidden: of every layer.
            players: True at tokens that play.
            real: True at tokens that are no padding; None: all are.
        """
        states = torch.cat([hidden[layer] for layer in self.layers], -1).float().cpu()
        with torch.inference_mode():
            return self.game.games.terms(states, players.cpu(), real=None if real is None else real.cpu())

    def play(
        self,
        hidden: Sequence[Float[Tensor, "1 tokens dim"]] | GameTerms,
        members: Float[Tensor, "words tokens"],
        playing: Bool[Tensor, "tokens"] | None = None,
    ) -> WordGame:
        """The game of one text from its hidden states.

        Args:
            hidden: of every layer; or `terms` of them.
            members: 1 where a token belongs to a player.
            playing: tokens whose V counts, of a player or in the anchor; None: those of the players.
        """
        if not isinstance(hidden, GameTerms):
            players = members.bool().any(0) if playing is None else playing
            hidden = self.terms(hidden, players.unsqueeze(0))
        readout, about = self.game.readout, {"removal": self.removal, "r2": self.r2, "limit": self.limit}
        with torch.inference_mode():
            return WordGame.of(hidden, members, readout.weight, readout.base, source="explainer", **about)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write explainer.json and explainer.safetensors; the weights in float16, in which they were rounded.

        Args:
            folder: made where it does not exist.

        Example:
            >>> explainer.save_pretrained("explainer")  # doctest: +SKIP
        """
        weights = {name: x.half().contiguous() for name, x in self.game.state_dict().items()}
        fields = {name: getattr(self, name) for name in _FIELDS}
        with atomic_folder(folder, last=CONFIG) as fresh:
            save_file(weights, fresh / WEIGHTS, metadata={"format": "pt"})
            (fresh / CONFIG).write_text(json.dumps(fields, indent=1, default=dict) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "Explainer":
        """What `save_pretrained` wrote; `bound` makes it callable.

        Args:
            folder: with explainer.json and explainer.safetensors.

        Returns:
            An explainer without a model.

        Raises:
            FileNotFoundError: there is none.
            ModelError: it is damaged.

        Example:
            >>> Explainer.from_pretrained(folder).r2  # doctest: +SKIP
        """
        place = Path(folder).expanduser()
        if not (place / CONFIG).is_file():
            raise FileNotFoundError(f"{place} holds no explainer: {CONFIG} is missing; `neurogame ground` makes one")
        try:
            fields = {**_DEFAULTS, **json.loads((place / CONFIG).read_text(encoding="utf-8"))}
            fields = {name: fields[name] for name in _FIELDS} | {"layers": tuple(fields["layers"])}
            fields["options"] = options = {"mixing": 0, **fields["options"]}  # older files do not have `mixing`
            weights = {name: x.float() for name, x in load_file(place / WEIGHTS).items()}
            dim, labels = len(weights["games.mean"]), len(weights["readout.out.bias"])
            longest = max(max(weight.shape, default=1) for weight in weights.values())
            for name, value in options.items():  # before memory is allocated for them
                if isinstance(value, int) and value > longest:
                    raise ValueError(f"{name} = {value}, but the weights have room for {longest} at most")
            game = GroundedGame(dim, labels, **options)
            game.load_state_dict(weights)
            for name, kind in (("output", Output), ("level", Level), ("removal", Mode)):
                check_choice(name, fields[name], kind)
            if fields["parts"] not in (1, 2):
                raise ValueError(f"parts = {fields['parts']!r}; allowed: 1, or 2 for pairs")
            float(fields["record"]["r2"])
        except (KeyError, TypeError, *UNLOADABLE) as error:
            raise ModelError(f"{place} is no explainer that can be read: {short(error)}") from error
        return cls(game.eval(), **fields)


def explain_list(
    classifier: Classifier,
    texts: Sequence[tuple[str, ...]],
    question: Question,
    progress: Progress = lambda _: None,
) -> list[Explanation]:
    """Explain texts, in shared forward passes where the method allows it; the first error is raised."""
    explanations: list[Explanation] = []
    step = TOGETHER if is_batched(classifier, question) else 1
    for start in range(0, len(texts), step):
        for result in explain_many(classifier, texts[start : start + step], question):
            if isinstance(result, Exception):
                raise result
            explanations.append(result)
            progress(1)
    return explanations


def digest(model: PreTrainedModel) -> str:
    """SHA-256 over the names, shapes and a sample of every weight: another training changes all of them."""
    total = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        flat = weight.detach().reshape(-1)
        sample = flat[:: max(1, len(flat) // _SAMPLE)][:_SAMPLE].float().cpu().contiguous()
        total.update(f"{name}{list(weight.shape)}".encode())
        total.update(sample.numpy().tobytes())
    return total.hexdigest()


def _layers(model: PreTrainedModel, asked: Sequence[int] | None) -> tuple[int, ...]:
    """The layers asked for, or four of the encoder's; a ValueError for layers that the model does not have."""
    last = getattr(model.config, "num_hidden_layers", None)
    if not isinstance(last, int):
        raise ValueError(f"{type(model).__name__} has no layers of hidden states that a game could read")
    for layer in asked or ():
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer <= last:
            raise ValueError(f"layers has {layer!r:.20}; the encoder has 0 (the embeddings) to {last}")
    return read_layers(last, None if asked is None else list(asked))


def _open(model: Any, tokenizer: PreTrainedTokenizerBase | None) -> Classifier:
    """The classifier of a user's model: of transformers, a cross-encoder, or a `Classifier`."""
    if isinstance(model, Classifier):
        return model if tokenizer is None else Classifier(model.model, tokenizer, name=model.name)
    output: Output | None = None
    name = type(model).__name__
    if any(kind.__name__ == "CrossEncoder" for kind in type(model).__mro__):  # of sentence-transformers
        activation = type(getattr(model, "activation_fn", None)).__name__
        tokenizer = model.tokenizer if tokenizer is None else tokenizer
        model = model.model
        if model.config.num_labels == 1:
            output = "sigmoid" if activation == "Sigmoid" else "regression"
    if not isinstance(model, PreTrainedModel):
        raise TypeError(
            f"model must be a sequence classifier of transformers, a CrossEncoder or an NLI; got {name}: {model!r:.60}"
        )
    if tokenizer is None:
        raise TypeError(f"tokenizer must be given with a {name}, which does not bring one")
    return Classifier(model, tokenizer, name=name, output=output)


def _check_vocabulary(classifier: Classifier) -> None:
    """Refuse a tokenizer with more tokens than the model has embeddings."""
    rows = getattr(classifier.model.get_input_embeddings(), "num_embeddings", None)
    most = max(classifier.tokenizer.get_vocab().values(), default=0)
    if isinstance(rows, int) and most >= rows:
        raise ModelError(
            f"the tokenizer has tokens up to number {most}, {classifier.name} has embeddings for {rows} "
            f"(0 to {rows - 1}); does it belong to another model?"
        )


def ground(
    model: Any,
    tokenizer: PreTrainedTokenizerBase | None,
    texts: Iterable[Any],
    *,
    layers: Sequence[int] | None = None,
    removal: Mode = "delete",
    law: Law = "mixed",
    coalitions: int = COALITIONS,
    most: int = TEXTS,
    steps: int = STEPS,
    seed: int = 0,
    max_length: int | None = None,
    bf16: bool = False,
    level: Level = "word",
    patience: int | None = PATIENCE,
    keep: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Explainer:
    """Fit a grounded game to a trained classifier, which stays as it is; minutes on two cores.

    Args:
        model: any sequence classifier of transformers that returns hidden states: of two labels or more, one logit,
            many labels at once, or scores (`neurogame.outputs`); a `CrossEncoder` of sentence-transformers; an `NLI`.
        tokenizer: its fast tokenizer; None where the model brings it, as a cross-encoder and an `NLI` do.
        texts: like those to be explained: strings, or (premise, hypothesis) pairs, or objects with these attributes; no
            labels.
        layers: whose hidden states the game reads; None: four, from the embeddings to the last.
        removal: how words are removed: "delete", "mask" or "pad".
        law: of the coalitions, see `grounding.coalitions`.
        coalitions: per text, an even number; each costs a forward pass.
        most: texts that are used; the first so many.
        steps: of the optimiser, after the passes.
        seed: of coalitions, parameters and order.
        max_length: tokens of a text; None: what the model reads, but at most 128.
        bf16: autocast the passes over the texts that are fitted; half of the time where the processor has instructions
            for it. Held-out texts are read in full precision.
        level: what a player is: "word", "token" or "sentence".
        patience: early stopping: evaluations of R² on texts that are not fitted, some twenty in all, without a better
            one before the fit stops; the best game is kept. None: fit to the end.
        keep: a file beside which forward passes are saved, so that the same call resumes an interrupted one; deleted
            at the end. None: nothing is saved.
        progress: called with the number of forward passes, then of steps, just done.
        options: of `NormGames` (heads, head_dim, width, mixing, spins).

    Returns:
        An explainer that is bound to the model; `record` has its R² on texts held out.

    Raises:
        ValueError: too few texts, or layers that the encoder does not have.
        ModelError: no hidden states, logits that are NaN, or a tokenizer of another model.

    Example:
        >>> explainer = neurogame.ground(model, tokenizer, texts)  # doctest: +SKIP
        >>> explainer("The plot is thin, but I loved it.").sentence  # doctest: +SKIP
    """
    check_count("steps", steps)
    check_count("most", most, least=2)
    check_choice("removal", removal, Mode)
    if level == "span":
        raise ValueError(
            "level = 'span' is for explaining, spans differ from text to text; allowed: 'word', 'token', 'sentence'"
        )
    check_choice("level", level, Level)
    classifier = _open(model, tokenizer)
    model, tokenizer, output = classifier.model, classifier.tokenizer, classifier.outputs.kind
    _check_vocabulary(classifier)
    pairs = as_texts(islice(texts, most) if not isinstance(texts, str) else texts)
    if len(pairs) < 2:
        raise ValueError(f"{len(pairs)} texts are too few to fit a game on; some thousands are usual, 2 the least")
    chosen, own = _layers(model, layers), digest(model)
    held = max(1, min(MOST_HELD_OUT, int(_HELD_OUT * len(pairs))))
    length = min(classifier.max_length, MAX_LENGTH) if max_length is None else max_length
    common: dict[str, Any] = {"law": law, "removal": removal, "max_length": length, "level": level}
    fitting: dict[str, Any] = {"coalitions": coalitions, "seed": seed, "bf16": bf16}
    source = hashlib.sha256(b"".join(json.dumps(text).encode() for text in pairs)).hexdigest()
    job = {"version": __version__, "digest": own, "texts": source, "layers": list(chosen), **common, **fitting}
    saving: Any = nullcontext() if keep is None else Passes(keep, job, resume=begun(keep))
    with saving as passes:
        common |= {"output": output, "kept": passes, "progress": progress}
        observed = observe(model, tokenizer, pairs[held:], chosen, **fitting, **common)
        others = observe(model, tokenizer, pairs[:held], chosen, coalitions=_HELD_COALITIONS, seed=seed + 1, **common)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        game = GroundedGame(observed.states[0].shape[-1], observed.logits[0].shape[-1], **options)
    watching = max(1, min(_MOST_WATCHED, int(_HELD_OUT * len(observed)))) if patience is not None else 0
    fitted_on, watched = observed.split(watching) if 0 < watching < len(observed) else (observed, None)
    watch: dict[str, Any] = {"watched": watched, "patience": patience or 1, "progress": progress}
    best = fit_games(game, fitted_on, steps=steps, seed=seed, **watch)
    for x in (*game.parameters(), *game.buffers()):  # rounded as `save_pretrained` rounds them
        x.data = x.data.half().float()
    record: dict[str, Any] = {"texts": len(observed), "coalitions": coalitions, "law": law, "steps": steps}
    record |= {"best_step": best, "seed": seed, "bf16": bf16, "held_out": len(others), **fit_quality(game, others)}
    rest: dict[str, Any] = {"output": output, "parts": len(pairs[0]), "level": level}
    explainer = Explainer(game, chosen, removal, own, game.games.options, record, model, tokenizer, **rest)
    explainer = replace(explainer, record={**record, "check_error": _check_errors(explainer, pairs[:held])})
    if passes is not None:
        passes.discard()
    return explainer


def _check_errors(explainer: Explainer, texts: Sequence[tuple[str, ...]]) -> dict[str, float]:
    """Median and 95th percentile of the explainer's error in the checks of texts."""
    before = getattr(explainer.model, "explainer", None)
    classifier, errors = explainer.classifier, list[float]()
    for text in texts[:_CHECKED]:
        try:
            why = explain(classifier, text[0], text[1] if len(text) > 1 else None, level=explainer.level)
        except ValueError:  # no word in it
            continue
        errors.append(why.diagnostics["check_error"])
    classifier.explainer = before
    sample = torch.tensor(errors or [torch.nan]).double()
    return {"texts": len(errors), "median": float(sample.median()), "p95": float(sample.quantile(0.95))}
