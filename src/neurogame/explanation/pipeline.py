"""`explain`: a question about a text is checked, a method answers it, the answer becomes an `Explanation`.

    Question ──check──▶ read(text) ──▶ METHODS[name].attribute(reading, question) ──▶ Explanation

Removed words and another temperature change the reading, never the model.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from neurogame import labels
from neurogame.classifier import Classifier
from neurogame.data.words import Level, Tokens, cut_words, tokenize_all
from neurogame.explanation.mechanism import Mechanism, mechanism
from neurogame.explanation.methods import METHODS, MethodName, best, grounded, methods_for, named
from neurogame.explanation.reading import Attribution, Draft, Question, Reading, forward, is_grounded, read_games
from neurogame.explanation.record import Explanation
from neurogame.explanation.temperature import FOLLOWING, heated
from neurogame.records import plain
from neurogame.validation import check_choice

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
    start = time.perf_counter()
    question = Question(**options) if question is None else replace(question, **options)
    _check_texts(premise, hypothesis)
    method = _method(nli, question)
    question = _labelled(nli, method, question)
    reading = forward(nli, _draft(nli, method, (premise,) if hypothesis is None else (premise, hypothesis), question))
    if not _is_own_temperature(reading, method, question):
        reading = heated(reading, question.temperature_factor)
    question = _targeted(reading, method, question)
    said = METHODS[method].attribute(reading, question)
    return _record(reading, said, method, question, time.perf_counter() - start)


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
    if len(pairs) > 1 and is_batched(nli, question):
        try:
            return _together(nli, pairs, question)
        except RECOVERABLE:  # of one of them: alone, each says for itself
            pass
    found: list[Explanation | Exception] = []
    for pair in pairs:
        try:
            found.append(explain(nli, pair[0], pair[1] if len(pair) > 1 else None, question))
        except RECOVERABLE as error:
            found.append(error)
    return found


def is_batched(nli: Classifier, question: Question) -> bool:
    """Whether pairs share passes: "decision" on a grounded game that is not refined. Others take many passes each."""
    method = named(question.method) if question.method is not None else best(nli.model)
    return method == "decision" and is_grounded(nli.model) and question.samples is None


def _together(nli: Classifier, pairs: Sequence[tuple[str, ...]], question: Question) -> list[Explanation | Exception]:
    """By one forward pass over all pairs, and one over all that is tried on the model."""
    start = time.perf_counter()
    method = _method(nli, question)
    question = _labelled(nli, method, question)
    found: dict[int, Explanation | Exception] = {}
    drafts: dict[int, Draft] = {}
    for i, draft in enumerate(_drafts(nli, method, pairs, question)):
        if isinstance(draft, Draft):
            drafts[i] = draft
        else:
            found[i] = draft
    readings = dict(zip(drafts, read_games(nli, list(drafts.values())), strict=True))
    questions: dict[int, Question] = {}
    for i, reading in readings.items():
        try:
            questions[i] = _targeted(reading, method, question)
        except RECOVERABLE as error:
            found[i] = error
    answers = grounded.together([readings[i] for i in questions], list(questions.values()))
    seconds = (time.perf_counter() - start) / len(pairs)
    for (i, asked), said in zip(questions.items(), answers, strict=True):
        found[i] = _record(readings[i], said, method, asked, seconds)
    return [found[i] for i in range(len(pairs))]


def _draft(nli: Classifier, method: str, texts: tuple[str, ...], question: Question) -> Draft:
    """The text as tokens and words, of which at least one is read."""
    (draft,) = _drafts(nli, method, [texts], question)
    if isinstance(draft, Exception):
        raise draft
    return draft


def _drafts(
    nli: Classifier, method: str, pairs: Sequence[tuple[str, ...]], question: Question
) -> list[Draft | Exception]:
    """The same of several texts, tokenized together; an error in place of one that has none."""
    found: dict[int, Draft | Exception] = {}
    texts: dict[int, tuple[str, ...]] = {}
    for i, pair in enumerate(pairs):
        premise, hypothesis = pair[0], pair[1] if len(pair) > 1 else None
        try:
            _check_texts(premise, hypothesis)
            _check_parts(nli, method, 1 if hypothesis is None else 2)
            texts[i] = (premise,) if hypothesis is None else (premise, hypothesis)
        except RECOVERABLE as error:
            found[i] = error
    for parts in sorted({len(text) for text in texts.values()}):
        some = {i: text for i, text in texts.items() if len(text) == parts}
        for i, read in zip(some, _tokens(nli, list(some.values())), strict=True):
            try:
                found[i] = read if isinstance(read, Exception) else _units(nli, read, question)
            except RECOVERABLE as error:
                found[i] = error
    return [found[i] for i in range(len(pairs))]


def _tokens(nli: Classifier, texts: Sequence[tuple[str, ...]]) -> list[Tokens | Exception]:
    """Texts of as many parts each, tokenized in one call; one by one, if one of them is the tokenizer's undoing."""
    try:
        return list(tokenize_all(nli.tokenizer, texts, nli.max_length))
    except RECOVERABLE as error:
        if len(texts) == 1:
            return [error]
        return [read for text in texts for read in _tokens(nli, [text])]


def _units(nli: Classifier, tokens: Tokens, question: Question) -> Draft:
    level: Level = question.level  # type: ignore[assignment]  # it was checked
    draft = Draft.of_tokens(nli.tokenizer, tokens, level, question.removed, question.spans)
    if not draft.units.read:
        shown = ", ".join(f"{text!r:.40}" for text in tokens.texts)
        raise ValueError(f"no word of {shown} becomes a token of {nli.name}")
    return draft


def _targeted(reading: Reading, method: str, question: Question) -> Question:
    """The question with the predicted label as target, where none was given."""
    if not METHODS[method].has_target or question.target is not None:
        return question
    question = replace(question, target=reading.outputs.target(reading.logits))
    _check_contrast(reading.nli, question, " (the predicted label, since none was given)")
    return question


def _is_own_temperature(reading: Reading, method: str, question: Question) -> bool:
    """Whether the weights are read as they are: no other γ, or that of a grounded game, which changes no logit."""
    return question.temperature_factor == 1 or (method == "decision" and is_grounded(reading.model))


def _record(reading: Reading, said: Attribution, method: str, question: Question, seconds: float) -> Explanation:
    """Numbers of read units as numbers of all units, tensors as plain values."""
    units, inside = reading.units, mechanism(reading) if said.alpha is None else Mechanism(said.alpha.unsqueeze(0))
    layer = {name: getattr(inside, name) for name in ("alpha", "field", "gate")}
    per_head = {**layer, **said.per_head} if said.alpha is None else said.per_head
    trajectory = reading.trajectory if said.alpha is None else None
    diagnostics = {
        "model": reading.nli.name,
        "explains": METHODS[method].explains,
        "players": len(units.read),
        **{name: units.listed(error) for name, error in said.errors.items()},
        **said.diagnostics,
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
        "seconds": seconds,
    }
    if question.changes:
        diagnostics |= {"removed": sorted(set(question.removed)), "temperature_factor": question.temperature_factor}
        diagnostics["unread"] = sorted({*diagnostics["unread"], *question.removed})
        if not _is_own_temperature(reading, method, question):
            diagnostics["gamma"] = [question.temperature_factor * gamma for gamma in diagnostics["gamma"]]
    if reading.outputs.kind != "softmax":
        diagnostics["output"] = reading.outputs.kind
    texts = reading.tokens.texts
    pair = len(texts) == 2
    return Explanation(
        premise=texts[0] if pair else None,
        hypothesis=texts[1] if pair else None,
        text=None if pair else texts[0],
        method=method,
        level=question.level,
        target=question.target,
        contrast=question.contrast,
        prediction=reading.prediction,
        words=units.names,
        sides=units.sides,
        scores=units.listed(said.scores),
        shapley=None if said.shapley is None else units.listed(said.shapley),
        banzhaf=None if said.banzhaf is None else units.listed(said.banzhaf),
        **{name: None if x is None else units.listed(x.mean(0)) for name, x in layer.items()},
        interactions=None if said.interactions is None else units.matrix(said.interactions),
        per_head={name: units.rows(x) for name, x in per_head.items() if x is not None},
        swing=tuple(units.read[i] for i in said.swing),
        diagnostics=plain(diagnostics),
        rationale=None if said.rationale is None else tuple(units.read[i] for i in said.rationale),
    )


def _unknown(reading: Reading) -> list[str]:
    """Words that the tokenizer has no piece of: all the same to the model."""
    unknown, units = reading.nli.tokenizer.unk_token_id, reading.units
    if unknown is None:
        return []
    strange = reading.tokens.inputs["input_ids"][0] == unknown
    if not bool(strange.any()):
        return []
    return [units.names[i] for i in units.read if bool(strange[units.unit_of == i].all())]


def _check_texts(premise: object, hypothesis: object) -> None:
    one = hypothesis is None and isinstance(premise, str)
    for name, text in (("text", premise),) if one else (("premise", premise), ("hypothesis", hypothesis)):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a string, got {text!r:.60}; explain takes one pair, two sentences")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} is not valid Unicode (half of a surrogate pair): {text!r:.80}") from None
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


def _check_method(nli: Classifier, method: str) -> None:
    """The method must suit the model; `need` checks its packages."""
    if not METHODS[method].applies(nli.model):
        working = methods_for(nli.model)
        head = getattr(nli.model.config, "head", None)
        kind = type(nli.model).__name__ + (f" with head {head!r}" if isinstance(head, str) else "")
        closed = getattr(nli.model, "closed", "")  # why it gives nothing but logits
        allowed = ", ".join(map(repr, working))
        raise ValueError(
            f"method = {method!r} does not work for {nli.name}, a {kind}{closed}; methods that do: {allowed}"
        )


def _method(nli: Classifier, question: Question) -> str:
    """The method that is asked for; it must suit the model, the work and the temperature."""
    factor, samples, error = question.temperature_factor, question.samples, question.error
    if question.method is not None:
        method = named(question.method)
    else:  # the best that follows the temperature
        method = best(nli.model)
        method = "decision" if factor != 1 and method not in FOLLOWING else method
    check_choice("method", method, MethodName)
    if factor != 1 and method not in FOLLOWING:
        raise ValueError(
            f"temperature_factor = {factor!r:.20}: method = {method!r} asks the model as it is; methods "
            f"that follow the temperature: {', '.join(sorted(FOLLOWING))}"
        )
    _check_method(nli, method)
    if samples is not None and METHODS[method].samples is None:
        takers = ", ".join(repr(name) for name, other in METHODS.items() if other.samples)
        raise ValueError(f"samples = {samples!r:.20}: method = {method!r} takes none; methods that do: {takers}")
    if error is not None and (method != "decision" or not is_grounded(nli.model)):
        raise ValueError(f"error = {error}: only method = 'decision' on a grounded game is refined until an error")
    if error is not None and samples is None:
        raise ValueError(f"error = {error}: needs samples = N, the forward passes that may be spent to reach it")
    return method


def _labelled(nli: Classifier, method: str, question: Question) -> Question:
    """The question with labels as the model spells them."""
    target, contrast = (_label(nli, name, getattr(question, name)) for name in ("target", "contrast"))
    if not METHODS[method].has_target and (target or contrast):
        given = "target" if target else "contrast"
        raise ValueError(
            f"{given} = {(target or contrast)!r}: method = {method!r} is the same for every label and takes none"
        )
    question = replace(question, target=target, contrast=contrast)
    _check_contrast(nli, question)
    return question


def _check_contrast(nli: Classifier, question: Question, implied: str = "") -> None:
    if question.contrast is not None and question.target == question.contrast:
        others = ", ".join(repr(name) for name in nli.labels if name != question.target) or "none, it has one label"
        raise ValueError(f"contrast = {question.contrast!r} is the target itself{implied}; allowed: {others}")
    if question.contrast is not None and question.target is not None and question.target not in nli.labels:
        raise ValueError(
            f"contrast = {question.contrast!r} cannot be compared with {question.target!r}{implied}; a target that is "
            "compared must be a label"
        )


def _label(nli: Classifier, name: str, label: object) -> str | None:
    """A label as the model spells it; a usual spelling of it will do."""
    if label is None or label in (nli.outputs.targets if name == "target" else nli.labels):
        return None if label is None else str(label)
    try:
        spelled = labels.canonical(label) if isinstance(label, str) else None
    except labels.UnknownLabelError:
        spelled = None
    if spelled is None or spelled not in nli.labels:
        raise ValueError(f"{name} = {label!r:.60} is not a label of {nli.name}; allowed: {', '.join(nli.labels)}")
    return spelled
