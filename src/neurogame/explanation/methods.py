"""`explain`: what was asked is checked, a method is run, its findings become an `Explanation`."""

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Literal, NamedTuple

from transformers import PreTrainedModel

from neurogame import labels
from neurogame.classifier import Classifier
from neurogame.data.words import Level, cut_words
from neurogame.explanation import baselines, decision, gradients, inputs, intrinsic, presence, surrogates
from neurogame.explanation.mechanism import Mechanism, mechanism
from neurogame.explanation.reading import Attribution, Question, Reading, read
from neurogame.explanation.record import Explanation
from neurogame.records import plain
from neurogame.validation import check_choice, check_count

MethodName = Literal[
    "decision",
    "game",
    "presence",
    "input",
    "occlusion",
    "attention",
    "gradient",
    "integrated_gradients",
    "lime",
    "kernelshap",
    "partition",
    "random",
]
SPELLINGS = {  # as people write them
    "attention_weights": "attention",
    "gradient_x_input": "gradient",
    "input_x_gradient": "gradient",
    "kernel_shap": "kernelshap",
    "partition_shap": "partition",
    "shap_partition": "partition",
}
Read = Callable[[Classifier, str, str, Level], Reading]
_LARGEST_SEED = 2**32 - 1  # what NumPy takes


def always(_: PreTrainedModel) -> bool:
    """Any sequence classifier."""
    return True


class Method(NamedTuple):
    """One way to explain: for which models, how, what of, and with which packages."""

    applies: Callable[[PreTrainedModel], bool]
    attribute: Callable[[Reading, Question], Attribution]
    explains: Literal["logit", "norm", "weights", "nothing"] = "logit"  # only the logit belongs to a label
    samples: str | None = None  # what `samples` counts; None: the method takes none
    needs: tuple[str, ...] = ()

    @property
    def has_target(self) -> bool:
        """Whether it speaks of a label."""
        return self.explains == "logit"


METHODS: dict[str, Method] = {
    "decision": Method(decision.applies, decision.attribute, samples="coalitions per law"),
    "game": Method(intrinsic.applies, intrinsic.attribute, "norm"),
    "presence": Method(presence.applies, presence.attribute, samples="steps"),
    "input": Method(always, inputs.attribute, samples="forward passes"),
    "occlusion": Method(always, inputs.occlusion),
    "attention": Method(baselines.applies, baselines.attention, "weights"),
    "gradient": Method(gradients.applies, gradients.gradient),
    "integrated_gradients": Method(
        gradients.applies, gradients.integrated_gradients, samples="steps", needs=("captum",)
    ),
    "lime": Method(always, surrogates.lime, samples="forward passes", needs=("captum", "sklearn")),
    "kernelshap": Method(always, surrogates.kernelshap, samples="forward passes", needs=("captum", "sklearn")),
    "partition": Method(always, surrogates.partition, samples="forward passes", needs=("shap",)),
    "random": Method(always, baselines.random, "nothing"),
}


def methods_for(model: PreTrainedModel) -> list[str]:
    """Names of the methods that work for a model, with what is installed."""
    return [name for name, method in METHODS.items() if method.applies(model) and all(map(find_spec, method.needs))]


def best(model: PreTrainedModel) -> str:
    """The method that `explain` uses where none is named: of those that need nothing installed, the most faithful.

    A grounded game has no rival at its price. Without one, "presence" is the most faithful where it applies
    (docs/explanations.md), then "input", which any classifier allows.
    """
    if decision.is_grounded(model):
        return "decision"
    return "presence" if presence.applies(model) else "input"


def named(method: str) -> str:
    """A method's own name, from a usual spelling of it ("Gradient × input"); what is none is returned as it is."""
    words = str(method).casefold().replace("×", " x ").replace("-", " ").replace("_", " ").split()
    spelled = "_".join(words)
    spelled = SPELLINGS.get(spelled, spelled)
    return spelled if spelled in METHODS else method


def explain(
    nli: Classifier,
    premise: str,
    hypothesis: str,
    *,
    method: str | None = None,
    target: str | None = None,
    contrast: str | None = None,
    level: str = "word",
    samples: int | None = None,
    seed: int = 0,
    check: bool = True,
    error: float | None = None,
    temperature: float = 1.0,
    read: Read = read,
) -> Explanation:
    """What each word of a pair did; see `NLI.explain`. `read` may give another reading of the pair than the usual."""
    start = time.perf_counter()
    method = best(nli.model) if method is None else named(method)
    check_choice("method", method, MethodName)
    check_choice("level", level, Level)
    chosen = METHODS[method]
    _check_texts(premise, hypothesis)
    _check_method(nli, method)
    _check_work(method, samples, seed)
    _check_refining(nli, method, samples, error, check=check)
    labelled = _label(nli, "target", target), _label(nli, "contrast", contrast)
    question = Question(*labelled, samples, seed, check, error, temperature)
    if not chosen.has_target and (question.target or question.contrast):
        given = "target" if question.target else "contrast"
        label = question.target or question.contrast
        raise ValueError(f"{given} = {label!r}: method = {method!r} is the same for every label and takes none")
    reading = read(nli, premise, hypothesis, "token" if level == "token" else "word")
    if not reading.units.read:
        raise ValueError(f"no word of {premise!r:.40}, {hypothesis!r:.40} becomes a token of {nli.name}")
    if chosen.has_target:
        question = replace(question, target=question.target or reading.prediction.label)
        if question.target == question.contrast:
            others = ", ".join(repr(name) for name in nli.labels if name != question.target)
            implied = "" if target is not None else " (the predicted label, since none was given)"
            raise ValueError(f"contrast = {contrast!r} is the target itself{implied}; allowed: {others}")
    return _record(reading, chosen.attribute(reading, question), method, level, question, start)


def _record(
    reading: Reading, found: Attribution, method: str, level: str, question: Question, start: float
) -> Explanation:
    """Numbers of read units as numbers of all units, tensors as plain values."""
    units, inside = reading.units, mechanism(reading) if found.alpha is None else Mechanism(found.alpha.unsqueeze(0))
    layer = {name: getattr(inside, name) for name in ("alpha", "field", "gate")}
    per_head = {**layer, **found.per_head} if found.alpha is None else found.per_head
    trajectory = reading.trajectory if found.alpha is None else None
    diagnostics = {
        "model": reading.nli.name,
        "explains": METHODS[method].explains,
        "players": len(units.read),
        **{name: units.listed(error) for name, error in found.errors.items()},
        **found.diagnostics,
        **inside.diagnostics,
        "trajectory": None if trajectory is None else list(zip(*units.rows(trajectory), strict=True)),
        "tokens": len(units.unit_of),
        "max_length": reading.nli.max_length,
        "truncated": cut_words(reading.tokens),
        "silent": [units.names[i] for i in units.silent],
        "unknown": _unknown(reading),
        "unread": sorted((*units.truncated, *units.silent)),
        "asked_samples": question.samples,
        "seed": question.seed,
        "encoder_passes": reading.passes.encoder,
        "head_passes": reading.passes.head,
        "seconds": time.perf_counter() - start,
    }
    return Explanation(
        premise=reading.tokens.texts[0],
        hypothesis=reading.tokens.texts[1],
        method=method,
        level=level,
        target=question.target,
        contrast=question.contrast,
        prediction=reading.prediction,
        words=units.names,
        sides=units.sides,
        scores=units.listed(found.scores),
        shapley=None if found.shapley is None else units.listed(found.shapley),
        banzhaf=None if found.banzhaf is None else units.listed(found.banzhaf),
        **{name: None if x is None else units.listed(x.mean(0)) for name, x in layer.items()},
        interactions=None if found.interactions is None else units.matrix(found.interactions),
        per_head={name: units.rows(x) for name, x in per_head.items() if x is not None},
        swing=tuple(units.read[i] for i in found.swing),
        diagnostics=plain(diagnostics),
        rationale=None if found.rationale is None else tuple(units.read[i] for i in found.rationale),
    )


def _unknown(reading: Reading) -> list[str]:
    """Words that the tokenizer has no piece of: all the same to the model."""
    unknown, units = reading.nli.tokenizer.unk_token_id, reading.units
    if unknown is None:
        return []
    strange = reading.tokens.inputs["input_ids"][0] == unknown
    return [units.names[i] for i in units.read if bool(strange[units.unit_of == i].all())]


def _check_texts(premise: object, hypothesis: object) -> None:
    for name, text in (("premise", premise), ("hypothesis", hypothesis)):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a string, got {text!r:.60}; explain takes one pair, two sentences")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} is not valid Unicode (half of a surrogate pair): {text!r:.80}") from None
    if not f"{premise}{hypothesis}".strip():
        raise ValueError("premise and hypothesis are both empty: there is no word to explain")


def _check_method(nli: Classifier, method: str) -> None:
    """The method must suit the model; that its packages are there is for `need` to say."""
    if not METHODS[method].applies(nli.model):
        working = methods_for(nli.model)
        head = getattr(nli.model.config, "head", None)
        kind = type(nli.model).__name__ + (f" with head {head!r}" if isinstance(head, str) else "")
        closed = getattr(nli.model, "closed", "")  # why nothing but logits can be had of it
        allowed = ", ".join(map(repr, working))
        raise ValueError(
            f"method = {method!r} does not work for {nli.name}, a {kind}{closed}; methods that do: {allowed}"
        )


def _check_work(method: str, samples: object, seed: object) -> None:
    if samples is not None and METHODS[method].samples is None:
        takers = ", ".join(repr(name) for name, other in METHODS.items() if other.samples)
        raise ValueError(f"samples = {samples!r:.20}: method = {method!r} takes none; methods that do: {takers}")
    if samples is not None:
        check_count("samples", samples, least=2)
    check_count("seed", seed, least=0)
    if isinstance(seed, int) and seed > _LARGEST_SEED:
        raise ValueError(f"seed must be at most {_LARGEST_SEED}, got {seed}")


def _check_refining(nli: Classifier, method: str, samples: object, error: object, *, check: object) -> None:
    """`check` and `error` belong to a grounded game."""
    if not isinstance(check, bool):
        raise TypeError(f"check must be True or False, got {check!r:.20}")
    if error is None:
        return
    if isinstance(error, bool) or not isinstance(error, int | float) or not error > 0:
        raise ValueError(f"error must be a number > 0, a standard error in logits; got {error!r:.20}")
    if method != "decision" or not decision.is_grounded(nli.model):
        raise ValueError(f"error = {error}: only method = 'decision' on a grounded game is refined until an error")
    if samples is None:
        raise ValueError(f"error = {error}: samples must say how many forward passes may be spent to reach it")


def _label(nli: Classifier, name: str, label: object) -> str | None:
    """A label as the model spells it; a usual spelling of it will do."""
    if label is None or label in nli.labels:
        return None if label is None else str(label)
    try:
        spelled = labels.canonical(label) if isinstance(label, str) else None
    except labels.UnknownLabelError:
        spelled = None
    if spelled is None or spelled not in nli.labels:
        raise ValueError(f"{name} = {label!r:.60} is not a label of {nli.name}; allowed: {', '.join(nli.labels)}")
    return spelled
