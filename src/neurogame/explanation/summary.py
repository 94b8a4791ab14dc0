"""What is worth saying of an explanation: strongest words and pairs, the sentence, warnings. Nothing is drawn here.

All views (`terminal`, `page`, `figures`, and the page of `neurogame serve`) take their words and their order from here:
names and numbers as they are printed; words and pairs, strongest first; what is asked, and what the model says; the
reasons as a sentence; warnings, and how the numbers came about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from neurogame._common.printing import cut
from neurogame.explanation.cautions import cautions
from neurogame.outputs import NOT, share_of

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

_WEAK = 0.5  # R² of a model's own game below which a reader is told
_MISSED = 1.0  # logits by which an explainer may miss the whole text
_NOISY = 0.25  # an error of this share of the largest score is worth a warning
_QUOTES = "\"'`´“”„‟‘’‚‛«»‹›「」『』()[]{}（）【】《》…*_"
_OPENING = "¡¿"
_CLOSING = ".,;:!?。，、；：！？؟،؛।"
_DOTTED = re.compile(r"(?:[^\W\d_]\.){2,}")  # U.S., e.g.
_ANSWERS = 3  # premise–hypothesis pairs that are drawn as lines
_STRONG = 0.5  # of the strongest such pair: weaker ones are not drawn
_LOUD = 0.25  # of the largest score: a weaker word has no colour, and is not named as a reason
_LISTED = 8  # words of a rationale that a sentence names; of more it gives the number
_AUDIBLE = 0.05  # of the largest score: where no pair reaches it, the two texts do not answer each other
_FOLDED = 8  # words not read, from which on a run of them is only counted


def signed(value: float | None, digits: int = 2) -> str:
    """+0.42, −0.42, 0.00, – for none."""
    if value is None:
        return "–"
    text = f"{abs(value):.{digits}f}"
    return text if not float(text) else f"{'+' if value > 0 else '−'}{text}"


def digits(values: Sequence[float]) -> int:
    """Decimals that show three figures of the largest number, between 2 and 5."""
    largest = max(map(abs, values), default=0.0)
    return next((d for d in range(2, 5) if largest >= 10.0 ** (2 - d)), 5 if largest else 2)


def percent(share: float) -> str:
    """98 %."""
    return f"{100 * share:.0f} %"


def plural(count: int, noun: str) -> str:
    """1 word, 2 words."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def shares(ex: Explanation) -> list[float]:
    """Scores as shares of the largest."""
    largest = ex._largest or 1.0
    return [score / largest for score in ex.scores]


def score(ex: Explanation, i: int) -> str:
    """A word's score as it is printed."""
    return signed(ex.scores[i], digits([ex._largest]))


def plus_minus(ex: Explanation, i: int) -> str:
    """± the standard error of a word's score; empty where there is none, or the score is exact."""
    errors = ex.diagnostics.get("shapley_se")
    if errors is None or errors[i] is None or ex.diagnostics.get("exact"):
        return ""
    return f" ± {errors[i]:.{digits([ex._largest])}f}"


def bare(word: str) -> str:
    """A word without the punctuation around it; punctuation alone stays, and so do U.S., .5, −3 and 50%."""
    if _DOTTED.fullmatch(word.strip(_QUOTES)):
        return word.strip(_QUOTES)
    return word.lstrip(_QUOTES + _OPENING).rstrip(_QUOTES + _CLOSING) or word


def name(ex: Explanation, i: int) -> str:
    """What a word is called outside its text: without punctuation; a piece of a word is called what it is."""
    return bare(ex.words[i]) if ex.level == "word" else ex.words[i]


def side_name(ex: Explanation, i: int) -> str:
    """manᴾ is the premise's word, manᴴ the hypothesis's; of a single text the word alone."""
    return cut(name(ex, i), 24) + {"premise": "ᴾ", "hypothesis": "ᴴ"}.get(ex.sides[i], "")


def noun(ex: Explanation) -> str:
    """What was explained: a pair or a text."""
    return "text" if ex.text is not None else "pair"


def unit(ex: Explanation) -> str:
    """What has a score: a word, a sentence or a span; pieces of words are called words too."""
    return ex.level if ex.level in ("sentence", "span") else "word"


def _quoted(ex: Explanation, i: int) -> str:
    return f"“{cut(name(ex, i), 24)}”"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


class Pair(NamedTuple):
    """Two words and their interaction."""

    i: int
    j: int
    value: float


def unread(ex: Explanation) -> set[int]:
    """Words that have 0 because the model did not see them: cut off, or without a token."""
    return set(ex.diagnostics.get("unread", ()))


def passages(ex: Explanation, side: str) -> list[range]:
    """The words of a text in order, in runs: of one word each, but long runs of words not read together."""
    runs: list[range] = []
    for silent, run in groupby((i for i, s in enumerate(ex.sides) if s == side), unread(ex).__contains__):
        words = list(run)
        folded = silent and len(words) > _FOLDED
        runs += [range(words[0], words[-1] + 1)] if folded else [range(i, i + 1) for i in words]
    return runs


def strongest_words(ex: Explanation, count: int | None = None) -> list[int]:
    """Words that were read, by the size of their score."""
    silent = unread(ex)
    order = sorted(range(len(ex.words)), key=lambda i: -abs(ex.scores[i]))
    return [i for i in order if i not in silent][:count]


def strongest_pairs(ex: Explanation) -> list[Pair]:
    """Pairs of words by the size of their interaction, without those below twice the error of a pair."""
    if ex.interactions is None:
        return []
    rows = sorted(strongest_words(ex))
    pairs = (Pair(i, j, ex.interactions[i][j]) for i in rows for j in rows if i < j)
    return sorted((pair for pair in pairs if abs(pair.value) > _pair_error(ex)), key=lambda pair: -abs(pair.value))


def synergies_and_antagonisms(ex: Explanation, count: int) -> tuple[list[Pair], list[Pair]]:
    """The strongest pairs with J_ij > 0, and those with J_ij < 0."""
    pairs = strongest_pairs(ex)
    return [pair for pair in pairs if pair.value > 0][:count], [pair for pair in pairs if pair.value < 0][:count]


def answers(ex: Explanation) -> list[tuple[int, int, float]]:
    """Words of the premise and of the hypothesis that answer each other: (i, j, J_ij), only the strong pairs."""
    strongest = ex.answers(_ANSWERS)
    if not strongest:
        return []
    least = max(_STRONG * abs(strongest[0][2]), _AUDIBLE * ex._largest, _pair_error(ex))
    return [pair for pair in strongest if abs(pair[2]) >= least]


def swings(ex: Explanation) -> list[tuple[int, str]]:
    """Words without which the decision is another, and which."""
    return list(zip(ex.swing, ex.diagnostics.get("swing_to", ()), strict=False))


def pair_title(ex: Explanation, pair: Pair, digits: int) -> str:
    """manᴾ × nobodyᴴ: −0.42."""
    return f"{side_name(ex, pair.i)} × {side_name(ex, pair.j)}: {signed(pair.value, digits)}"


def pair_list(ex: Explanation, pairs: Sequence[Pair], digits: int) -> str:
    """Several pairs in words, for screen readers."""
    return "; ".join(f"{side_name(ex, i)} and {side_name(ex, j)} {signed(value, digits)}" for i, j, value in pairs)


def _pair_error(ex: Explanation) -> float:
    """Twice the standard error of a typical pair."""
    return 2.0 * (ex.diagnostics.get("interactions_se") or 0.0)


def question(ex: Explanation, *, details: bool = True) -> str:
    """What the numbers answer; without details in words that need no explanation."""
    if ex.target is not None:
        against = "" if ex.contrast is None else f" over {ex.contrast}"
        adds = "speaks for" if not details else "adds to" if is_score(ex) else "adds to the logit of"
        return f"How much each {unit(ex)} {adds} {ex.target}{against}"
    if ex.diagnostics.get("explains") == "nothing":
        return f"Random numbers, which say nothing of the {noun(ex)}"
    if ex.diagnostics.get("explains") == "weights":
        return f"How much weight the model gives each {unit(ex)}, whatever the label"
    return f"How much each {unit(ex)} adds to the norm that attention looks at, whatever the label"


def poles(ex: Explanation) -> tuple[str, str]:
    """What a negative and a positive score mean."""
    if ex.target is None:
        weights = ex.diagnostics.get("explains") in ("weights", "nothing")
        return ("below zero", "above zero") if weights else ("takes away", "adds")
    if is_score(ex) and ex.contrast is None:
        return f"lowers {ex.target}", f"raises {ex.target}"
    if ex.target not in ex.prediction.logits:  # "not" a label: what speaks against that speaks for the label
        return f"for {ex.target.removeprefix(NOT)}", f"for {ex.target}"
    return (f"for {ex.contrast}" if ex.contrast is not None else f"against {ex.target}"), f"for {ex.target}"


def output(ex: Explanation) -> str:
    """What the logits mean: a kind of `neurogame.outputs`."""
    return str(ex.diagnostics.get("output", "softmax"))


def is_score(ex: Explanation) -> bool:
    """Whether the model gives a score, and decides nothing."""
    return output(ex) == "regression"


def answer(ex: Explanation) -> tuple[str, float | None]:
    """What the model says about what is explained, and its probability; of a score its name, without one.

    Of a multi-label model it is the decision about the target's label, since each label has its own.
    """
    prediction = ex.prediction
    if is_score(ex):
        return ex.target or prediction.label, None
    label = prediction.label
    if output(ex) == "multi_label":
        if ex.target is None:
            return label, None
        name = ex.target if ex.target in prediction.probabilities else ex.target.removeprefix(NOT)
        label = name if prediction.logits[name] > 0 else NOT + name
    return label, share_of(prediction.probabilities, label)


def bars(ex: Explanation) -> list[tuple[str, float, float, bool]]:
    """(label, share of the bar, number, whether the model says it) of each label; of a score as its share of 1."""
    prediction = ex.prediction
    if is_score(ex):
        largest = max(1.0, *map(abs, prediction.logits.values()))
        return [(name, abs(z) / largest, z, name == ex.target) for name, z in prediction.logits.items()]
    several = output(ex) == "multi_label"
    chosen = {name: z > 0 if several else name == prediction.label for name, z in prediction.logits.items()}
    return [(name, p, p, chosen[name]) for name, p in prediction.probabilities.items()]


def checks(ex: Explanation) -> list[dict[str, Any]]:
    """What was tried on the model itself: a word deleted, or all words but some, and what it then said.

    `kind` is "without" or "alone", `words` their indices, `label` and `probability` what the model says then, `kept`
    the probability that is left of its first answer. The rationale first, then by what is left of the answer.
    """
    rows = [
        {"kind": "without", "words": [int(i)], **_check(ex, p)}
        for i, p in (ex.diagnostics.get("without") or {}).items()
    ]
    alone = ex.diagnostics.get("rationale_alone")
    if alone and ex.rationale:
        rows.append({"kind": "alone", "words": list(ex.rationale), **_check(ex, alone)})
    return sorted(rows, key=lambda check: (check["kind"] == "without", check["kept"]))


def _check(ex: Explanation, probabilities: dict[str, float]) -> dict[str, Any]:
    """What the model said of a changed text, and what is left of its first answer."""
    first = answer(ex)[0]
    name = first.removeprefix(NOT)
    if is_score(ex):
        value = probabilities[name]
        return {"label": name, "probability": None, "kept": value, "said": f"{value:.2f}"}
    if output(ex) == "softmax":
        label = max(probabilities, key=probabilities.__getitem__)
        p, kept = probabilities[label], probabilities.get(first, 0.0)
    else:  # each label has a decision of its own
        label = name if probabilities[name] > 0.5 else NOT + name
        p, kept = share_of(probabilities, label), share_of(probabilities, first)
    return {"label": label, "probability": p, "kept": kept, "said": f"{label} {percent(p)}"}


def sentence(ex: Explanation) -> str:
    """The reasons in plain words, from checked facts where there are any.

    *Contradiction (98 %): "Nobody" against "sleeping". Without "Nobody" the model would say entailment (91 %).*
    """
    if is_score(ex):
        return _score_sentence(ex)
    about, (label, share) = _about(ex), answer(ex)
    head = _capital(label) + ("" if share is None else f" ({percent(share)})")
    joint = " " if about.startswith("rather") else "; "
    return f"{head}{joint + about if about else ''}: {_why(ex)}"


def reasons(ex: Explanation) -> str:
    """The same without the answer, for where that is shown already; empty where the method speaks of no label."""
    if ex.target is None:
        return ""
    if is_score(ex):
        return _score_sentence(ex)
    about = _about(ex)
    return _capital(f"{about}: {_why(ex)}" if about else _why(ex))


def _score_sentence(ex: Explanation) -> str:
    """What raises a score and what lowers it: there is no decision that a word could swing.

    *Score 0.82: “loved” and “it” raise it, “thin” lowers it.*
    """
    name = ex.target or ex.prediction.label
    head = f"{_capital(name)} {ex.prediction.logits[name]:.2f}"
    head += "" if ex.contrast is None else f" against {ex.contrast} {ex.prediction.logits[ex.contrast]:.2f}"
    clauses = []
    for verb, sign in (("raise", 1), ("lower", -1)):
        words = [_quoted(ex, i) for i in strongest_words(ex) if sign * ex.scores[i] > 0][:2]
        clauses += [f"{' and '.join(words)} {verb}{'s' if len(words) == 1 else ''} it"] if words else []
    return f"{head}: {', '.join(clauses) or f'no {unit(ex)} changes it'}."


def _about(ex: Explanation) -> str:
    """What is explained, where that is not simply the answer."""
    other = "" if ex.contrast is None else f"rather than {ex.contrast}"
    if ex.target in (None, answer(ex)[0]):
        return other
    return f"what speaks for {ex.target} {other}".strip()


def _why(ex: Explanation) -> str:
    """“Nobody” against “sleeping”, “dogs” with “animals”, “waiting” in both texts; and what was tried on the model."""
    contradicts = (ex.target or answer(ex)[0]) == "contradiction"
    strong = [i for i in strongest_words(ex) if ex.scores[i] > 0 and ex.scores[i] >= _LOUD * ex._largest][:2]
    partner = _partner(ex, strong[0], contradicts=contradicts) if strong else None
    reason = " and ".join(_quoted(ex, i) for i in strong) or f"no {unit(ex)} speaks for it by itself"
    if partner is not None:
        word = _quoted(ex, strong[0])
        same = not contradicts and name(ex, strong[0]).casefold() == name(ex, partner).casefold()
        joint = "against" if contradicts else "with"
        reason = f"{word} in both texts" if same else f"{word} {joint} {_quoted(ex, partner)}"
    return f"{reason}. {_consequence(ex)}".strip()


def _partner(ex: Explanation, word: int, *, contradicts: bool) -> int | None:
    """The word of the other text that adds most to what `word` does, if that is a tenth of its share or more.

    For a contradiction its own share may be negative: "sleeping" speaks against one until "Nobody" is there to
    contradict it.
    """
    if ex.interactions is None:
        return None
    others = (j for j, side in enumerate(ex.sides) if side != ex.sides[word])
    J = {j: ex.interactions[word][j] for j in others if ex.scores[j] >= 0 or contradicts}
    best = max(J, key=J.__getitem__, default=None)
    return best if best is not None and J[best] >= 0.1 * ex.scores[word] else None


def _consequence(ex: Explanation) -> str:
    """What the model says without a swing word, or of the rationale alone; only if that was tried on the model."""
    facts = ex.diagnostics
    if not facts.get("checked"):
        return ""
    if ex.swing:
        without, becomes = facts.get("without") or {}, dict(swings(ex))
        tried = {i: without[str(i)] for i in ex.swing if str(i) in without}
        rivals = output(ex) == "softmax"  # labels decided one by one have none
        label = {i: max(p, key=p.__getitem__) if rivals else becomes[i] for i, p in tried.items()}
        share = {i: share_of(p, label[i]) for i, p in tried.items()}
        i = max(ex.swing, key=lambda i: share.get(i, 0.0))
        if ex.contrast is not None:
            return f"Without {_quoted(ex, i)} it would be {becomes.get(i, ex.contrast)}."
        return f"Without {_quoted(ex, i)} the model would say {label[i]} ({percent(share[i])})."
    if ex.rationale:
        kept, total = len(ex.rationale), len(ex.words) - len(unread(ex))
        both = {ex.sides[i] for i in ex.rationale} == set(ex.sides)  # one text alone is no reason that a reader accepts
        if kept <= total // 2 and both:
            words = "" if kept > _LISTED else ": " + " ".join(name(ex, i) for i in ex.rationale)
            return f"{plural(kept, unit(ex))} of {total} {'is' if kept == 1 else 'are'} enough for it{words}."
    return f"No single {unit(ex)} decides it."


def warnings(ex: Explanation) -> list[str]:
    """What a reader must know before trusting the numbers."""
    return [*cautions(ex.premise, ex.hypothesis), *_warnings(ex)]


def _warnings(ex: Explanation) -> Iterator[str]:
    """Words that were not read, spins that did not settle, a game that misses the model, errors, special tokens."""
    facts, largest = ex.diagnostics, ex._largest
    truncated, silent, unknown = (facts.get(name) or [] for name in ("truncated", "silent", "unknown"))
    if truncated:
        length = f"it is longer than {facts.get('max_length')} tokens"
        yield f"{plural(len(truncated), 'word')} of the {noun(ex)} not read: {length}"
    if silent:
        yield f"{plural(len(silent), 'word')} without a token: the model does not see {_first_words(silent)}"
    if unknown:
        same = ", all the same to the model" if len(unknown) > 1 else ""
        yield f"{plural(len(unknown), 'word')} unknown to the tokenizer{same}: {_first_words(unknown)}"
    if facts.get("converged") is False:
        yield (
            f"the mean field did not converge in {facts['unconverged_heads']} of {facts['heads']} heads "
            f"(residual {facts['residual']:.1g}, ρ(J)/γ = {facts['spectral_radius']:.2f})"
        )
    if facts.get("on_path") is False:
        yield "the values of this head stand beside the path to the logits, not on it"
    if (warning := _game_warning(ex)) is not None:
        yield warning
    noise = max((e for e in facts.get("shapley_se") or () if e is not None), default=0.0)
    if noise > _NOISY * largest > 0:
        yield f"sampling errors reach {noise:.2g}, the largest score is {largest:.2g}"
    if "faded" in facts and facts["efficiency_gap"] > _NOISY * largest > 0:
        gap = f"{facts['efficiency_gap']:.2g}"
        yield f"the integral is off by {gap}, the largest score is {largest:.2g}: more steps (samples) make it better"
    if abs(facts.get("outside") or 0.0) > sum(map(abs, ex.scores)):
        of = "" if facts.get("total") is None else f" of {signed(facts['total'])}"
        held = f"special tokens hold {signed(facts['outside'])}{of}"
        yield f"{held}: by itself no {unit(ex)} of this {noun(ex)} decides much"


def _first_words(words: list[str]) -> str:
    return ", ".join(cut(word, 20) for word in words[:3]) + (" …" if len(words) > 3 else "")


def _game_warning(ex: Explanation) -> str | None:
    """How far the game of a decision may be off."""
    facts = ex.diagnostics
    grounded, r2, error = facts.get("grounded"), facts.get("r2"), facts.get("logit_error") or 0.0
    if facts.get("unlike"):
        return (
            f"this {noun(ex)} is unlike those that the explainer was fitted on: it misses the model by "
            f"{facts['check_error']:.2g} where words are taken out, on 95 % of held-out texts by less than "
            f"{facts['check_limit']:.2g}; refine it (samples)"
        )
    if facts.get("ungrounded"):
        return (
            "the game of this model was never grounded: its values say little of what the model does without words; "
            "train it with training.grounding, or refine (samples)"
        )
    if grounded == "readout" and r2 is not None and r2 < _WEAK:
        return (
            f"the game of this model explains less than half of what it says of incomplete texts "
            f"(R² {r2:.2f}): refine it (samples)"
        )
    if grounded == "explainer" and error > _MISSED:
        return f"the explainer misses the model's own logits by {error:.2g} here: refine it (samples)"
    if not grounded and error > 1e-3:
        return f"the game misses the model's own logit by {error:.2g}"
    return None


def footing(ex: Explanation, *, details: bool = True) -> list[str]:
    """How the numbers came about: a few short phrases; without details only how many words, whether tried, how long."""
    return [phrase for is_detail, phrase in _footing(ex) if details or not is_detail]


def _footing(ex: Explanation) -> Iterator[tuple[bool, str]]:
    """(whether it is a detail, phrase)."""
    facts, noun = ex.diagnostics, "piece" if ex.level == "token" else ex.level
    if "players" in facts:
        yield False, plural(facts["players"], noun)
    if facts.get("refined") and not facts.get("exact"):
        yield True, f"refined by {facts['passes']} passes"
    elif "samples" in facts:
        yield (
            True,
            f"all {facts['samples']} coalitions" if facts.get("exact") else f"{facts['samples']} coalitions per law",
        )
    if "steps" in facts:
        start = "" if facts.get("faded") is None else f" from {percent(facts['faded'])} of each {noun} to all of it"
        yield True, f"{plural(facts['steps'], 'step')}{start}"
    if facts.get("efficiency_gap") is not None:
        yield True, f"efficiency gap {facts['efficiency_gap']:.1g}"
    if facts.get("grounded"):
        passes = facts.get("check_passes") or 0
        yield False, f"checked by {passes} short passes" if passes else "not checked on the model"
    if facts.get("r2") is not None:
        yield True, f"{'explainer' if facts.get('grounded') == 'explainer' else 'game'} of R² {facts['r2']:.2f}"
    if facts.get("outside"):
        yield True, f"special tokens {signed(facts['outside'])}"
    if facts.get("converged"):
        steps = plural(facts["iterations"], "step")
        yield True, f"mean field in {steps}, ρ(J)/γ {facts['spectral_radius']:.2f}"
    if facts.get("seconds") is not None:
        yield False, f"{1000 * facts['seconds']:.0f} ms"
