"""`explain`: a question about a text is checked, a method answers it, the answer becomes an `Explanation`.

    Question ──check──▶ read(text) ──▶ METHODS[name].attribute(reading, question) ──▶ Explanation

Removed words and another temperature change the reading, never the model.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from neurogame import labels
from neurogame._common.records import plain
from neurogame._common.types import Tensor
from neurogame.classifier import Classifier, check_unicode
from neurogame.data.words import Level, cut_words, sides_of
from neurogame.explanation.methods import METHODS, best, grounded, methods_for, named
from neurogame.explanation.methods.layer import mechanism
from neurogame.explanation.reading import Attribution, Question, Reading, drafts, forward, is_grounded, read_games
from neurogame.explanation.record import Explanation
from neurogame.explanation.temperature import FOLLOWING, heated

RECOVERABLE = (ArithmeticError, LookupError, RuntimeError, ValueError)  # of one pair; the others go on
TOGETHER = 32  # pairs that share passes: enough for full batches, few to lose in a file that is interrupted


def explain(
    nli: Classifier, premise: str, hypothesis: str | None, question: Question | None = None, **options: Any
) -> Explanation:
    """What each word of a text did: of a pair of sentences, or of one text.

    Args:
        nli: the classifier.
        premise: a sentence; one of the two may be empty. Or the whole text.
        hypothesis: a sentence; None: there is one text.
        question: what is asked; None: the fields of a `Question` given as options.
        options: fields of `Question`, which replace those of `question`.

    Returns:
        One number per word, and what else the method knows. With `removed` or `temperature_factor` the diagnostics
        have both, and γ as it was used.

    Raises:
        ValueError: a method, label or option that does not suit the model; one line that names it and what is allowed.
        TypeError: an option that does not exist.

    Example:
        >>> explain(nli, "A man sleeps.", "Nobody is awake.", target="neutral").show()  # doctest: +SKIP
        >>> explain(nli, "A man sleeps.", "Nobody is awake.", Question(removed=[1])).scores  # doctest: +SKIP
    """
    question = Question(**options) if question is None else replace(question, **options)
    (result,) = _explain(nli, [(premise,) if hypothesis is None else (premise, hypothesis)], question)
    if isinstance(result, Exception):
        raise result
    return result


def explain_many(
    nli: Classifier, pairs: Sequence[tuple[str, ...]], question: Question | None = None, **options: Any
) -> list[Explanation | Exception]:
    """`explain` of each pair, in shared batches where `is_batched`; an error in place of a pair that has one.

    The records are those of `explain` up to rounding; `seconds` is a pair's share of the time.

    Args:
        nli: the classifier.
        pairs: (premise, hypothesis), or (text,); all are in memory at once, so hand over some `TOGETHER` at a time.
        question: what is asked of each; None: the fields of a `Question` given as options.
        options: fields of `Question`, which replace those of `question`.

    Returns:
        An explanation for each pair, in order, or what `explain` would raise for it.

    Raises:
        TypeError: an option that does not exist.

    Example:
        >>> explain_many(nli, [("It rains.", "It is dry."), ("", "")])  # doctest: +SKIP
        [Explanation(...), ValueError(...)]
    """
    try:
        question = Question(**options) if question is None else replace(question, **options)
    except ValueError as error:
        return [error for _ in pairs]
    alike = len({len(pair) for pair in pairs}) == 1
    if len(pairs) > 1 and alike and is_batched(nli, question):
        try:
            return _explain(nli, pairs, question)
        except RECOVERABLE:  # of one of them: alone, each says for itself
            pass
    results: list[Explanation | Exception] = []
    for pair in pairs:
        premise, hypothesis = pair if len(pair) == 2 else (pair[0], None)
        try:
            results.append(explain(nli, premise, hypothesis, question))
        except RECOVERABLE as error:
            results.append(error)
    return results


def is_batched(nli: Classifier, question: Question) -> bool:
    """Whether pairs share passes: "decision" on a grounded game that is not refined. Others take many passes each."""
    method = named(question.method) if question.method is not None else best(nli.model)
    return method == "decision" and is_grounded(nli.model) and question.samples is None


def _explain(nli: Classifier, texts: Sequence[tuple[str, ...]], question: Question) -> list[Explanation | Exception]:
    """Texts of as many parts each, by one forward pass over all of them and one over all that is tried on the model.

    What is wrong with the question or with a text is raised; an error stands in place of a text whose answer does not
    suit the question.
    """
    start = time.perf_counter()
    for text in texts:
        _check_texts(*text)
    method = _choose_method(nli, question)
    question = _spell_labels(nli, method, question)
    _check_parts(nli, method, len(texts[0]))
    level: Level = question.level  # type: ignore[assignment]  # it was checked
    encoded = drafts(nli, texts, level, question.removed, question.spans)
    for text, draft in zip(texts, encoded, strict=True):
        if not draft.units.read:
            raise ValueError(f"no word of {', '.join(f'{part!r:.40}' for part in text)} becomes a token of {nli.name}")
    readings = read_games(nli, encoded) if len(encoded) > 1 else [forward(nli, *encoded)]
    if not _is_own_temperature(nli, method, question):
        readings = [heated(reading, question.temperature_factor) for reading in readings]
    questions = [_add_target(reading, method, question) for reading in readings]
    asked = [(reading, own) for reading, own in zip(readings, questions, strict=True) if isinstance(own, Question)]
    together = len(asked) > 1
    answers = iter(grounded.attribute_all(asked) if together else [METHODS[method].attribute(*both) for both in asked])
    seconds = (time.perf_counter() - start) / len(texts)
    return [
        _record(reading, next(answers), method, own, seconds) if isinstance(own, Question) else own
        for reading, own in zip(readings, questions, strict=True)
    ]


def _add_target(reading: Reading, method: str, question: Question) -> Question | ValueError:
    """The question with the predicted label as target, where none was given; an error where that is the contrast."""
    if not METHODS[method].has_target or question.target is not None:
        return question
    question = replace(question, target=reading.outputs.target(reading.logits))
    try:
        _check_contrast(reading.nli, question, " (the predicted label, since none was given)")
    except ValueError as error:
        return error
    return question


def _is_own_temperature(nli: Classifier, method: str, question: Question) -> bool:
    """Whether the weights are read as they are: no other γ, or that of a grounded game, which changes no logit."""
    return question.temperature_factor == 1 or (method == "decision" and is_grounded(nli.model))


def _record(reading: Reading, answer: Attribution, method: str, question: Question, seconds: float) -> Explanation:
    """Numbers of the units that were read as numbers of all units, tensors as plain values."""
    units, texts = reading.units, reading.tokens.texts
    if answer.alpha is None:
        layer, settled = mechanism(reading)
        per_head, trajectory = {**layer, **answer.per_head}, reading.trajectory
    else:  # of the method's own game, instead of the pooling's
        layer, settled, per_head, trajectory = {"alpha": answer.alpha.unsqueeze(0)}, {}, {**answer.per_head}, None
    diagnostics = {
        "model": reading.nli.name,
        "explains": METHODS[method].explains,
        "players": len(units.read),
        **{name: units.vector(error) for name, error in answer.errors.items()},
        **answer.diagnostics,
        **settled,
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
        "seconds": seconds,
    }
    if question.changes:
        diagnostics |= {"removed": sorted(set(question.removed)), "temperature_factor": question.temperature_factor}
        diagnostics["unread"] = sorted({*diagnostics["unread"], *question.removed})
        if not _is_own_temperature(reading.nli, method, question):
            diagnostics["gamma"] = [question.temperature_factor * gamma for gamma in diagnostics["gamma"]]
    if reading.outputs.kind != "softmax":
        diagnostics["output"] = reading.outputs.kind

    def per_word(x: Tensor | None) -> tuple[float, ...] | None:
        return None if x is None else units.vector(x)

    fields: dict[str, Any] = {"premise": None, "hypothesis": None, **dict(zip(sides_of(texts), texts, strict=True))}
    for name in ("alpha", "field", "gate"):
        fields[name] = per_word(layer[name].mean(0)) if name in layer else None
    return Explanation(
        **fields,
        method=method,
        level=question.level,
        target=question.target,
        contrast=question.contrast,
        prediction=reading.prediction,
        words=units.names,
        sides=units.sides,
        scores=units.vector(answer.scores),
        shapley=per_word(answer.shapley),
        banzhaf=per_word(answer.banzhaf),
        interactions=None if answer.interactions is None else units.matrix(answer.interactions),
        per_head={name: units.rows(x) for name, x in per_head.items()},
        swing=tuple(units.read[i] for i in answer.swing),
        diagnostics=plain(diagnostics),
        rationale=None if answer.rationale is None else tuple(units.read[i] for i in answer.rationale),
    )


def _unknown(reading: Reading) -> list[str]:
    """Words that the tokenizer has no piece of: all the same to the model."""
    units, unknown = reading.units, reading.nli.tokenizer.unk_token_id
    if unknown is None:
        return []
    known = units.sum((reading.tokens.inputs["input_ids"][0] != unknown).float()).tolist()
    return [units.names[i] for i, pieces in zip(units.read, known, strict=True) if not pieces]


def _check_texts(premise: object, hypothesis: object = None) -> None:
    one = hypothesis is None and isinstance(premise, str)
    for name, text in (("text", premise),) if one else (("premise", premise), ("hypothesis", hypothesis)):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a string, got {text!r:.60}; explain takes one pair, two sentences")
        check_unicode(name, text)
    if one and not str(premise).strip():
        raise ValueError("text is empty: there is no word to explain")
    if not one and not f"{premise}{hypothesis}".strip():
        raise ValueError("premise and hypothesis are both empty: there is no word to explain")


def _check_parts(nli: Classifier, method: str, parts: int) -> None:
    """An explainer knows single texts or pairs, whichever it was fitted on."""
    fitted = None if nli.explainer is None or method != "decision" else nli.explainer.parts
    if fitted not in (None, parts):
        kinds = {1: "single texts", 2: "pairs (premise, hypothesis)"}
        got = {1: "one text", 2: "a pair"}[parts]
        raise ValueError(f"the explainer of {nli.name} was fitted on {kinds[fitted]}, got {got}; `ground` fits another")


def _choose_method(nli: Classifier, question: Question) -> str:
    """The method that is asked for; it must suit the model, the work and the temperature."""
    factor, samples, error = question.temperature_factor, question.samples, question.error
    if question.method is not None:
        method = named(question.method)
    else:  # the best that follows the temperature
        method = best(nli.model)
        method = "decision" if factor != 1 and method not in FOLLOWING else method
    if method not in tuple(METHODS):
        raise ValueError(f"method = {method!r} is unknown; allowed: {', '.join(map(repr, METHODS))}")
    if factor != 1 and method not in FOLLOWING:
        raise ValueError(
            f"temperature_factor = {factor!r:.20}: method = {method!r} asks the model as it is; methods "
            f"that follow the temperature: {', '.join(sorted(FOLLOWING))}"
        )
    if not METHODS[method].applies(nli.model):
        head = getattr(nli.model.config, "head", None)
        kind = type(nli.model).__name__ + (f" with head {head!r}" if isinstance(head, str) else "")
        closed = getattr(nli.model, "closed", "")  # why it gives nothing but logits
        allowed = ", ".join(map(repr, methods_for(nli.model)))
        raise ValueError(
            f"method = {method!r} does not work for {nli.name}, a {kind}{closed}; methods that do: {allowed}"
        )
    if samples is not None and METHODS[method].samples is None:
        takers = ", ".join(repr(name) for name, other in METHODS.items() if other.samples)
        raise ValueError(f"samples = {samples!r:.20}: method = {method!r} takes none; methods that do: {takers}")
    if error is not None and (method != "decision" or not is_grounded(nli.model)):
        raise ValueError(f"error = {error}: only method = 'decision' on a grounded game is refined until an error")
    if error is not None and samples is None:
        raise ValueError(f"error = {error}: needs samples = N, the forward passes that may be spent to reach it")
    return method


def _spell_labels(nli: Classifier, method: str, question: Question) -> Question:
    """The question with labels as the model spells them."""
    target, contrast = (_spell_label(nli, name, getattr(question, name)) for name in ("target", "contrast"))
    if not METHODS[method].has_target and (target or contrast):
        given = "target" if target else "contrast"
        raise ValueError(
            f"{given} = {(target or contrast)!r}: method = {method!r} is the same for every label and takes none"
        )
    question = replace(question, target=target, contrast=contrast)
    _check_contrast(nli, question)
    return question


def _spell_label(nli: Classifier, name: str, label: Any) -> str | None:
    """A label as the model spells it, from any usual spelling."""
    if label is None or label in (nli.outputs.targets if name == "target" else nli.labels):
        return label  # type: ignore[no-any-return]  # None or a string
    spelled = None
    if isinstance(label, str):
        with suppress(labels.UnknownLabelError):
            spelled = labels.canonical(label)
    if spelled not in nli.labels:
        raise ValueError(f"{name} = {label!r:.60} is not a label of {nli.name}; allowed: {', '.join(nli.labels)}")
    return spelled


def _check_contrast(nli: Classifier, question: Question, implied: str = "") -> None:
    """A contrast is another label than the target; `implied` says where the target comes from."""
    target, contrast = question.target, question.contrast
    if contrast is None or target is None:
        return
    if target == contrast:
        others = ", ".join(repr(name) for name in nli.labels if name != target) or "none, it has one label"
        raise ValueError(f"contrast = {contrast!r} is the target itself{implied}; allowed: {others}")
    if target not in nli.labels:
        raise ValueError(
            f"contrast = {contrast!r} cannot be compared with {target!r}{implied}; a target that is compared must be a "
            "label"
        )
