"""`explain`: what was asked is checked, a method is run, its findings become an `Explanation`."""

import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from transformers import PreTrainedModel

from neurogame import labels
from neurogame.explanation import decision, intrinsic
from neurogame.explanation.mechanism import mechanism
from neurogame.explanation.reading import Attribution, Reading, read
from neurogame.explanation.record import Explanation, plain
from neurogame.explanation.words import Level, cut_words
from neurogame.nli import NLI
from neurogame.validation import check_choice

MethodName = Literal["decision", "game"]


class Method(NamedTuple):
    """One way to explain: for which models, how, and whether it speaks of a label."""

    applies: Callable[[PreTrainedModel], bool]
    attribute: Callable[[Reading, str | None, str | None], Attribution]
    has_target: bool


METHODS: dict[str, Method] = {
    "decision": Method(decision.applies, decision.attribute, has_target=True),
    "game": Method(intrinsic.applies, intrinsic.attribute, has_target=False),
}


def methods_for(model: PreTrainedModel) -> list[str]:
    """Names of the methods that work for a model."""
    return [name for name, method in METHODS.items() if method.applies(model)]


def explain(
    nli: NLI,
    premise: str,
    hypothesis: str,
    *,
    method: str = "decision",
    target: str | None = None,
    contrast: str | None = None,
    level: str = "word",
) -> Explanation:
    """What each word of a pair did; see `NLI.explain`."""
    start = time.perf_counter()
    check_choice("method", method, MethodName)
    check_choice("level", level, Level)
    chosen = METHODS[method]
    _check_texts(premise, hypothesis)
    _check_method(nli, method)
    asked = {name: _label(nli, name, label) for name, label in (("target", target), ("contrast", contrast))}
    if not chosen.has_target and any(asked.values()):
        given = next(name for name, label in asked.items() if label)
        raise ValueError(f"{given} = {asked[given]!r}: method = {method!r} is the same for every label and takes none")
    reading = read(nli, premise, hypothesis, "token" if level == "token" else "word")
    if not reading.units.read:
        raise ValueError(f"no word of {premise!r:.40}, {hypothesis!r:.40} becomes a token of {nli.name}")
    if chosen.has_target:
        asked["target"] = asked["target"] or reading.prediction.label
        if asked["target"] == asked["contrast"]:
            others = ", ".join(repr(name) for name in nli.labels if name != asked["target"])
            implied = "" if target is not None else " (the predicted label, since none was given)"
            raise ValueError(f"contrast = {contrast!r} is the target itself{implied}; allowed: {others}")
    return _record(reading, chosen.attribute(reading, asked["target"], asked["contrast"]), method, level, asked, start)


def _record(
    reading: Reading, found: Attribution, method: str, level: str, asked: Mapping[str, str | None], start: float
) -> Explanation:
    """Numbers of read units as numbers of all units, tensors as plain values."""
    units, inside = reading.units, mechanism(reading)
    layer = {name: getattr(inside, name) for name in ("alpha", "field", "gate")}
    per_head = {**layer, **found.per_head}
    diagnostics = {
        "model": reading.nli.name,
        "players": len(units.read),
        **{name: units.listed(error) for name, error in found.errors.items()},
        **found.diagnostics,
        **inside.diagnostics,
        "tokens": len(units.unit_of),
        "max_length": reading.nli.max_length,
        "truncated": cut_words(reading.tokens),
        "silent": [units.names[i] for i in units.silent],
        "unread": sorted((*units.truncated, *units.silent)),
        "seconds": time.perf_counter() - start,
    }
    return Explanation(
        premise=reading.tokens.texts[0],
        hypothesis=reading.tokens.texts[1],
        method=method,
        level=level,
        target=asked["target"],
        contrast=asked["contrast"],
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
    )


def _check_texts(premise: object, hypothesis: object) -> None:
    for name, text in (("premise", premise), ("hypothesis", hypothesis)):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a string, got {text!r:.60}; explain takes one pair, two sentences")
    if not f"{premise}{hypothesis}".strip():
        raise ValueError("premise and hypothesis are both empty: there is no word to explain")


def _check_method(nli: NLI, method: str) -> None:
    working = methods_for(nli.model)
    if method not in working:
        head = getattr(nli.model.config, "head", None)
        kind = type(nli.model).__name__ + (f" with head {head!r}" if isinstance(head, str) else "")
        allowed = ", ".join(map(repr, working)) or "none; they need a NeuroGame model with a pooling over words"
        raise ValueError(f"method = {method!r} does not work for {nli.name}, a {kind}; methods that do: {allowed}")


def _label(nli: NLI, name: str, label: object) -> str | None:
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
