"""What is worth saying of an explanation: strongest words and pairs, warnings, one sentence each. Nothing is drawn.

All drawings (`terminal`, `page` and its parts, `figures`) take their words and their order from here.
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


class Pair(NamedTuple):
    """Two words and their interaction."""

    i: int
    j: int
    value: float


def signed(value: float | None, digits: int = 2) -> str:
    """+0.42, −0.42, 0.00, – for none."""
    if value is None:
        return "–"
    text = f"{abs(value):.{digits}f}"
    return text if not float(text) else f"{'+' if value > 0 else '−'}{text}"


def digits(values: tuple[float, ...] | list[float]) -> int:
    """Decimals that show three figures of the largest number, between 2 and 5."""
    largest = max(map(abs, values), default=0.0)
    return next((d for d in range(2, 5) if largest >= 10.0 ** (2 - d)), 5 if largest else 2)


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


def ranked(ex: Explanation, count: int | None = None) -> list[int]:
    """Words by the size of their score, those that were not read left out."""
    silent = unread(ex)
    order = sorted(range(len(ex.words)), key=lambda i: -abs(ex.scores[i]))
    return [i for i in order if i not in silent][:count]


def interacting(ex: Explanation) -> list[Pair]:
    """Pairs of words by the size of their interaction, without what is below twice the error of a pair."""
    if ex.interactions is None:
        return []
    least = 2.0 * (ex.diagnostics.get("interactions_se") or 0.0)
    rows = sorted(ranked(ex))
    every = (Pair(i, j, ex.interactions[i][j]) for i in rows for j in rows if i < j)
    return sorted((pair for pair in every if abs(pair.value) > least), key=lambda pair: -abs(pair.value))


def pairs(ex: Explanation, count: int = 4) -> tuple[list[Pair], list[Pair]]:
    """Strongest synergies (J_ij > 0) and antagonisms (J_ij < 0)."""
    order = interacting(ex)
    return [pair for pair in order if pair.value > 0][:count], [pair for pair in order if pair.value < 0][:count]


def placed(ex: Explanation, i: int) -> str:
    """A word with its side: manᴾ is the premise's, manᴴ the hypothesis's; of a single text the word alone."""
    return cut(name(ex, i), 24) + {"premise": "ᴾ", "hypothesis": "ᴴ"}.get(ex.sides[i], "")


def named_pair(ex: Explanation, pair: Pair, digits: int) -> str:
    """manᴾ × nobodyᴴ: −0.42."""
    return f"{placed(ex, pair.i)} × {placed(ex, pair.j)}: {signed(pair.value, digits)}"


def listed_pairs(ex: Explanation, pairs: Sequence[Pair], digits: int) -> str:
    """The same of several, for those who do not see the picture."""
    return "; ".join(f"{placed(ex, p.i)} and {placed(ex, p.j)} {signed(p.value, digits)}" for p in pairs)


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


def noun(ex: Explanation) -> str:
    """What was explained: a pair or a text."""
    return "text" if ex.text is not None else "pair"


def unit(ex: Explanation) -> str:
    """What has a number: a word; pieces of one are called so too, where the difference does not matter."""
    return ex.level if ex.level in ("sentence", "span") else "word"


def is_score(ex: Explanation) -> bool:
    """Whether the model gives a score, and decides nothing."""
    return ex.diagnostics.get("output") == "regression"


def answer(ex: Explanation) -> tuple[str, float | None]:
    """What the model says about what is explained, and its probability; of a score its name, without one.

    Of a multi-label model it is the decision about the target's label, since each label has its own.
    """
    said, kind = ex.prediction, ex.diagnostics.get("output", "softmax")
    if kind == "regression":
        return ex.target or said.label, None
    if kind == "multi_label" and ex.target is not None:
        name = ex.target if ex.target in said.probabilities else ex.target.removeprefix(NOT)
        label = name if said.logits[name] > 0 else NOT + name
        return label, share_of(said.probabilities, label)
    if kind == "multi_label":
        return said.label, None
    return said.label, share_of(said.probabilities, said.label)


def bars(ex: Explanation) -> list[tuple[str, float, float, bool]]:
    """(label, share of the bar, number, whether the model says it) of each label; of a score as its share of 1."""
    said = ex.prediction
    if is_score(ex):
        largest = max(1.0, *map(abs, said.logits.values()))
        return [(name, abs(z) / largest, z, name == ex.target) for name, z in said.logits.items()]
    several = ex.diagnostics.get("output") == "multi_label"
    says = {name: z > 0 if several else name == said.label for name, z in said.logits.items()}
    return [(name, p, p, says[name]) for name, p in said.probabilities.items()]


def bare(word: str) -> str:
    """A word without the punctuation around it; punctuation alone stays, and so do U.S., .5, −3 and 50%."""
    if _DOTTED.fullmatch(word.strip(_QUOTES)):
        return word.strip(_QUOTES)
    return word.lstrip(_QUOTES + _OPENING).rstrip(_QUOTES + _CLOSING) or word


def name(ex: Explanation, i: int) -> str:
    """What a word is called outside its text: without punctuation; a piece of a word is called what it is."""
    return bare(ex.words[i]) if ex.level == "word" else ex.words[i]


def sentence(ex: Explanation) -> str:
    """The reasons in plain words, from checked facts where there are any.

    *Contradiction (98 %): "Nobody" against "sleeping". Without "Nobody" the model would say entailment (91 %).*
    """
    if is_score(ex):
        return _of_score(ex)
    about, (label, share) = _about(ex), answer(ex)
    head = _capital(label) + ("" if share is None else f" ({_percent(share)})")
    joint = " " if about.startswith("rather") else "; "
    return f"{head}{joint + about if about else ''}: {_why(ex)}"


def reasons(ex: Explanation) -> str:
    """The same without the answer, for where that is shown already; empty where the method speaks of no label."""
    if ex.target is None:
        return ""
    if is_score(ex):
        return _of_score(ex)
    about = _about(ex)
    return f"{_capital(about)}: {_why(ex)}" if about else _capital(_why(ex))


def _about(ex: Explanation) -> str:
    """What is explained, where that is not simply the answer."""
    other = "" if ex.contrast is None else f"rather than {ex.contrast}"
    if ex.target in (None, answer(ex)[0]):
        return other
    return f"what speaks for {ex.target} {other}".strip()


def _why(ex: Explanation) -> str:
    strong = [i for i in ranked(ex) if ex.scores[i] > 0 and ex.scores[i] >= _LOUD * ex._largest][:2]
    partner = None if not strong else _answered(ex, strong[0])
    if partner is not None:
        reason = _between(ex, strong[0], partner)
    elif strong:
        reason = " and ".join(_quoted(ex, i) for i in strong)
    else:
        reason = f"no {unit(ex)} speaks for it by itself"
    return f"{reason}. {_consequence(ex)}".strip()


def _between(ex: Explanation, word: int, partner: int) -> str:
    """Two words that answer each other: “Nobody” against “sleeping”, “dogs” with “animals”, “waiting” in both texts."""
    against = _explains_contradiction(ex)
    if not against and name(ex, word).casefold() == name(ex, partner).casefold():
        return f"{_quoted(ex, word)} in both texts"
    return f"{_quoted(ex, word)} {'against' if against else 'with'} {_quoted(ex, partner)}"


def _explains_contradiction(ex: Explanation) -> bool:
    return (ex.target or answer(ex)[0]) == "contradiction"


def _of_score(ex: Explanation) -> str:
    """What raises a score and what lowers it: there is no decision that a word could swing.

    *Score 0.82: “loved” and “it” raise it, “thin” lowers it.*
    """
    name = ex.target or ex.prediction.label
    head = f"{_capital(name)} {ex.prediction.logits[name]:.2f}"
    head += "" if ex.contrast is None else f" against {ex.contrast} {ex.prediction.logits[ex.contrast]:.2f}"
    said = []
    for verb, sign in (("raise", 1), ("lower", -1)):
        some = [i for i in ranked(ex) if sign * ex.scores[i] > 0][:2]
        if some:
            said.append(f"{' and '.join(_quoted(ex, i) for i in some)} {verb}{'s' if len(some) == 1 else ''} it")
    return f"{head}: {', '.join(said) or f'no {unit(ex)} changes it'}."


def _answered(ex: Explanation, word: int) -> int | None:
    """The word of the other text that adds most to what `word` does, if that is a tenth of its share or more.

    For a contradiction its own share may be negative: "sleeping" speaks against one until "Nobody" is there to
    contradict it.
    """
    if ex.interactions is None:
        return None
    others = (j for j, side in enumerate(ex.sides) if side != ex.sides[word])
    J = {j: ex.interactions[word][j] for j in others if ex.scores[j] >= 0 or _explains_contradiction(ex)}
    best = max(J, key=J.__getitem__, default=None)
    return best if best is not None and J[best] >= 0.1 * ex.scores[word] else None


def _consequence(ex: Explanation) -> str:
    """What would be otherwise, if that was tried."""
    without = ex.diagnostics.get("without") or {}
    if ex.swing and ex.diagnostics.get("checked"):
        becomes = dict(zip(ex.swing, ex.diagnostics.get("swing_to", ()), strict=False))
        alone = ex.diagnostics.get("output") in ("sigmoid", "multi_label")  # a label that has no rivals
        shares = {i: without[str(i)] for i in ex.swing if str(i) in without}
        label = {i: becomes[i] if alone else max(p, key=p.__getitem__) for i, p in shares.items()}
        share = {i: share_of(p, label[i]) for i, p in shares.items()}
        i = max(ex.swing, key=lambda i: share.get(i, 0.0))
        if ex.contrast is not None:
            return f"Without {_quoted(ex, i)} it would be {becomes.get(i, ex.contrast)}."
        return f"Without {_quoted(ex, i)} the model would say {label[i]} ({_percent(share[i])})."
    if ex.rationale and ex.diagnostics.get("checked"):
        kept, total = len(ex.rationale), len(ex.words) - len(unread(ex))
        both = {ex.sides[i] for i in ex.rationale} == set(ex.sides)  # one text alone is no reason that a reader accepts
        if kept <= total // 2 and both:
            words = "" if kept > _LISTED else ": " + " ".join(name(ex, i) for i in ex.rationale)
            return f"{counted(kept, unit(ex))} of {total} {'is' if kept == 1 else 'are'} enough for it{words}."
    return f"No single {unit(ex)} decides it." if ex.diagnostics.get("checked") else ""


def _capital(label: str) -> str:
    return label[:1].upper() + label[1:]


def _quoted(ex: Explanation, i: int) -> str:
    return f"“{cut(name(ex, i), 24)}”"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def answers(ex: Explanation) -> list[tuple[int, int, float]]:
    """Words of the premise and of the hypothesis that answer each other: (i, j, J_ij), only the strong pairs."""
    strongest = ex.answers(_ANSWERS)
    if not strongest:
        return []
    error = 2.0 * (ex.diagnostics.get("interactions_se") or 0.0)
    least = max(_STRONG * abs(strongest[0][2]), _AUDIBLE * ex._largest, error)
    return [pair for pair in strongest if abs(pair[2]) >= least]


def checks(ex: Explanation) -> list[dict[str, Any]]:
    """What was tried on the model itself: a word deleted, or all words but some, and what it then said.

    `kind` is "without" or "alone", `words` their indices, `label` and `probability` what the model says then, `kept`
    the probability that is left of its first answer. The rationale first, then by what is left of the answer.
    """
    tried: list[tuple[str, tuple[int, ...], dict[str, float]]]
    tried = [("without", (int(i),), p) for i, p in (ex.diagnostics.get("without") or {}).items()]
    alone = ex.diagnostics.get("rationale_alone")
    tried += [("alone", ex.rationale, alone)] if alone and ex.rationale else []
    found = [{"kind": kind, "words": list(words), **_then(ex, then)} for kind, words, then in tried]
    return sorted(found, key=lambda check: (check["kind"] == "without", check["kept"]))


def _then(ex: Explanation, then: dict[str, float]) -> dict[str, Any]:
    """What the model said of a changed text, and what is left of its first answer."""
    first = answer(ex)[0]
    name = first.removeprefix(NOT)
    if is_score(ex):
        return {"label": name, "probability": None, "kept": then[name], "said": f"{then[name]:.2f}"}
    if ex.diagnostics.get("output", "softmax") == "softmax":
        label = max(then, key=then.__getitem__)
        p, kept = then[label], then.get(first, 0.0)
    else:  # each label has a decision of its own
        label = name if then[name] > 0.5 else NOT + name
        p, kept = max(then[name], 1.0 - then[name]), then[name] if first == name else 1.0 - then[name]
    return {"label": label, "probability": p, "kept": kept, "said": f"{label} {_percent(p)}"}


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


def warnings(ex: Explanation) -> list[str]:
    """What a reader must know before trusting the numbers."""
    return list(_warnings(ex))


def _warnings(ex: Explanation) -> Iterator[str]:
    facts = ex.diagnostics
    yield from cautions(ex.premise, ex.hypothesis)
    truncated, silent, unknown = (facts.get(name) or [] for name in ("truncated", "silent", "unknown"))
    if truncated:
        length = f"it is longer than {facts.get('max_length')} tokens"
        yield f"{counted(len(truncated), 'word')} of the {noun(ex)} not read: {length}"
    if silent:
        yield f"{counted(len(silent), 'word')} without a token: the model does not see {_them(silent)}"
    if unknown:
        same = ", all the same to the model" if len(unknown) > 1 else ""
        yield f"{counted(len(unknown), 'word')} unknown to the tokenizer{same}: {_them(unknown)}"
    if facts.get("converged") is False:
        yield (
            f"the mean field did not converge in {facts['unconverged_heads']} of {facts['heads']} heads "
            f"(residual {facts['residual']:.1g}, ρ(J)/γ = {facts['spectral_radius']:.2f})"
        )
    if facts.get("on_path") is False:
        yield "the values of this head stand beside the path to the logits, not on it"
    yield from _about_game(ex)
    largest = ex._largest
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


def _about_game(ex: Explanation) -> Iterator[str]:
    """How far the game of a decision may be off."""
    facts = ex.diagnostics
    if facts.get("unlike"):
        yield (
            f"this {noun(ex)} is unlike those that the explainer was fitted on: it misses the model by "
            f"{facts['check_error']:.2g} where words are taken out, on 95 % of held-out texts by less than "
            f"{facts['check_limit']:.2g}; refine it (samples)"
        )
    elif facts.get("ungrounded"):
        yield (
            "the game of this model was never grounded: its values say little of what the model does without words; "
            "train it with training.grounding, or refine (samples)"
        )
    elif facts.get("grounded") == "readout" and facts.get("r2") is not None and facts["r2"] < _WEAK:
        yield (
            f"the game of this model explains less than half of what it says of incomplete texts "
            f"(R² {facts['r2']:.2f}): refine it (samples)"
        )
    elif facts.get("grounded") == "explainer" and (facts.get("logit_error") or 0.0) > _MISSED:
        yield f"the explainer misses the model's own logits by {facts['logit_error']:.2g} here: refine it (samples)"
    elif not facts.get("grounded") and (facts.get("logit_error") or 0.0) > 1e-3:
        yield f"the game misses the model's own logit by {facts['logit_error']:.2g}"


def footing(ex: Explanation, *, details: bool = True) -> list[str]:
    """How the numbers came about: a few short phrases; without details only how many words, whether tried, how long."""
    facts = ex.diagnostics
    noun = "piece" if ex.level == "token" else ex.level
    said = [counted(facts["players"], noun)] if "players" in facts else []
    if details:
        said += _footing(ex, noun)
    if facts.get("grounded"):
        tried = facts.get("check_passes") or 0
        said.append(f"checked by {tried} short passes" if tried else "not checked on the model")
    if details and facts.get("r2") is not None:
        said.append(f"{'explainer' if facts.get('grounded') == 'explainer' else 'game'} of R² {facts['r2']:.2f}")
    if details and facts.get("outside"):
        said.append(f"special tokens {signed(facts['outside'])}")
    if details and facts.get("converged"):
        said.append(f"mean field in {counted(facts['iterations'], 'step')}, ρ(J)/γ {facts['spectral_radius']:.2f}")
    if facts.get("seconds") is not None:
        said.append(f"{1000 * facts['seconds']:.0f} ms")
    return said


def _footing(ex: Explanation, noun: str) -> list[str]:
    """How much was computed, and how far the sum is off."""
    facts, said = ex.diagnostics, list[str]()
    if facts.get("refined") and not facts.get("exact"):
        said.append(f"refined by {facts['passes']} passes")
    elif facts.get("exact"):
        said.append(f"all {facts['samples']} coalitions")
    elif "samples" in facts:
        said.append(f"{facts['samples']} coalitions per law")
    if "steps" in facts:
        start = "" if facts.get("faded") is None else f" from {percent(facts['faded'])} of each {noun} to all of it"
        said.append(f"{counted(facts['steps'], 'step')}{start}")
    if facts.get("efficiency_gap") is not None:
        said.append(f"efficiency gap {facts['efficiency_gap']:.1g}")
    return said


def percent(share: float) -> str:
    """5 %, 0.5 %."""
    return f"{100 * share:.3g} %"


def counted(count: int, noun: str) -> str:
    """1 word, 2 words."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _them(words: list[str]) -> str:
    shown = ", ".join(cut(word, 20) for word in words[:3])
    return shown if len(words) <= 3 else f"{shown} …"
