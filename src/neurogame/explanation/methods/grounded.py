"""Method "decision" on a grounded game: values in one pass, claims checked by real deletion, values refined by more.

    logits(C) = b + R v(C)                       the game of the head, whose players are words
    ℓ(C)      = logit_target(C) [− logit_contrast(C)]

The game belongs to the model itself (readout = "game"), or to an explainer that was fitted to it (`grounding`). One
pass gives φ, β and J_ij of ℓ, exact up to twelve words. That is what the game says. Then

- *checked*: the words that the game says swing the answer, and the words of the rationale, are taken out or left alone
  for real, in one batch. Only what the model itself confirms is reported as a swing word or as a rationale.
- *trusted*: the same passes say how far a fitted game is off on this very text. An explainer knows how far it was off
  on texts that were held out of its fit; beyond what all but a twentieth of them had, the text is called unlike them.
- *refined*: `samples` real coalitions with the game as control variate, see `refine`.

The shares add up: Σφ = ℓ(N) − ℓ(∅) of the game. For a model with a game readout these are the model's own logits; for
an explainer `logit_error` says by how much the game misses them. A regression decides nothing, so nothing is claimed of
swing words or rationales there; `without` still has the scores of the text without single words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from neurogame._types import Bool, Float, Tensor
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.explanation.refinement import refine
from neurogame.explanation.removal import InputGame, evaluate, evaluate_each
from neurogame.grounding.game import WordGame
from neurogame.hamiltonian import Hamiltonian
from neurogame.outputs import Outputs

SINGLES = 8  # words taken out one by one when a decision is checked
SETS = 6  # sets of words left alone when a rationale is checked
SAMPLES, FINE = 96, 1024  # coalitions per law of the game beyond what it enumerates; where it is a control variate
MARGIN = 0.5  # of the game, in logits, from which on it is trusted to keep an answer


def attribute(reading: Reading, question: Question) -> Attribution:
    """Values of the grounded game for what is asked; checked and refined where that is asked."""
    return together([reading], [question])[0]


@torch.inference_mode()
def together(readings: Sequence[Reading], questions: Sequence[Question]) -> list[Attribution]:
    """The same of several pairs of one classifier; what is tried on the model shares its batches."""
    asked = list(zip(readings, questions, strict=True))
    decides = readings[0].nli.outputs.decides
    trials = {i: Trial.of(*both) for i, both in enumerate(asked) if both[1].check and decides}
    tried = [(asked[i][0], trial.tried) for i, trial in trials.items()]
    answers = dict(zip(trials, evaluate_each(tried, _game(readings[0]).removal) if tried else (), strict=True))
    untried = unchecked if decides else tried_scores
    claims = [
        trials[i].claims(answers[i].double()) if i in trials else untried(reading, _game(reading), question)
        for i, (reading, question) in enumerate(asked)
    ]
    return [_attribution(*both, said) for both, said in zip(asked, claims, strict=True)]


def _game(reading: Reading) -> WordGame:
    assert reading.game is not None
    return reading.game


def _attribution(reading: Reading, question: Question, claims: "Claims") -> Attribution:
    """Values, refined where that is asked, and α of their Hamiltonian."""
    game = _game(reading)
    direction, gamma = question.direction(reading.nli.labels), float(question.temperature_factor)
    refined = question.samples is not None
    values = game.values(direction.unsqueeze(0), samples=FINE if refined else SAMPLES, seed=question.seed)
    phi, J = values.shapley[0], values.coupling[0]
    errors = {"shapley_se": values.shapley_se[0], "banzhaf_se": values.banzhaf_se[0]}
    nothing, whole = game.base.double(), game.whole
    off = reading.outputs.centred(whole - reading.logits)
    diagnostics: dict[str, Any] = {
        "grounded": game.source,
        "exact": values.exact,
        "samples": values.samples,
        "couplings": "pairs",
        "gamma": [gamma],
        "origin": float(nothing @ direction),
        "outside": 0.0,
        "total": float((whole - nothing) @ direction),
        "logit_error": float(off.abs().max()),
        "r2": game.r2,
        "ungrounded": game.grounded is False,
    }
    if refined:
        real = InputGame.of(reading, question, game.removal)
        better = refine(real, game, direction, phi, errors["shapley_se"], question)
        phi, errors["shapley_se"] = better.shapley, better.se
        diagnostics |= {"refined": True, "passes": better.passes, "samples": better.passes, "exact": better.exact}
        diagnostics |= {"origin": better.origin, "total": better.total, "logit_error": 0.0, "reached": better.reached}
    diagnostics["efficiency_gap"] = abs(float(phi.sum()) - diagnostics["total"])
    marginals = Hamiltonian(phi, J, diagnostics["origin"]).solve(gamma)
    diagnostics |= {"alpha_exact": marginals.exact, "alpha_converged": marginals.converged}
    return Attribution(
        scores=phi,
        shapley=phi,
        banzhaf=values.banzhaf[0],
        interactions=J,
        swing=claims.swing,
        rationale=claims.rationale,
        alpha=marginals.alpha,
        errors=errors,
        diagnostics={**diagnostics, **claims.diagnostics},
    )


@dataclass(frozen=True, eq=False)
class Claims:
    """What is said of single words and of sets, and how it was checked."""

    swing: tuple[int, ...]
    rationale: tuple[int, ...] | None
    diagnostics: dict[str, Any]


def margin_of(logits: Float[Tensor, "... labels"], outputs: Outputs, question: Question) -> Float[Tensor, "... "]:
    """How far the answer is kept: logit of what is said of the whole less the best other, or target less contrast."""
    assert question.target is not None
    return outputs.margin(logits, question.target, question.contrast)


def unchecked(reading: Reading, game: WordGame, question: Question) -> Claims:
    """The same claims on the word of the game alone."""
    outputs = reading.outputs
    now, logits = _alone(reading, game, question)
    margins = margin_of(logits, outputs, question).tolist()
    swing = tuple(i for i, margin in enumerate(margins) if (margin > 0) != now)
    rationale = None
    if now:
        path, floor = Path.of(game, outputs, question), _floor(reading, game, question)
        kept = [k for k, margin in path.margins.items() if margin > floor + MARGIN]
        rationale = path.words(min(kept)) if kept else None
    becomes = [_said(logits[i], outputs, question) for i in swing]
    return Claims(swing, rationale, {"checked": False, "check_passes": 0, "swing_to": becomes})


@dataclass(frozen=True, eq=False)
class Path:
    """Sets of every size, each without the word that the answer misses least in the one before.

    Attributes:
        order: the words as they go.
        margins: by the number of words that stay, what the game says of them.
    """

    order: list[int]
    margins: dict[int, float]

    @classmethod
    def of(cls, game: WordGame, outputs: Outputs, question: Question) -> "Path":
        """By the game alone."""
        assert question.target is not None
        order, margins = game.shrunk(outputs.rivals(question.target, question.contrast))
        return cls(order, dict(zip(range(len(order), 0, -1), margins, strict=True)))

    def words(self, size: int) -> tuple[int, ...]:
        """The set of so many words, by their places."""
        return tuple(sorted(self.order[len(self.order) - size :]))

    def coalition(self, size: int) -> Bool[Tensor, "words"]:
        """The same set, True at its words."""
        C = torch.zeros(len(self.order), dtype=torch.bool)
        C[list(self.words(size))] = True
        return C


@dataclass(frozen=True, eq=False)
class Trial:
    """What is tried on the model: words that the game finds likely to swing, sets that it finds to keep the answer.

    Attributes:
        now: whether the model decides for the target.
        singles: places of the words that are taken out one by one.
        sets: words that are left alone.
        floor: the margin that a rationale must hold.
    """

    reading: Reading
    question: Question
    now: bool
    singles: list[int]
    sets: list[Bool[Tensor, "words"]]
    floor: float

    @classmethod
    def of(cls, reading: Reading, question: Question) -> "Trial":
        """By what the game says of each word and of sets of every size."""
        game, outputs = _game(reading), reading.outputs
        now, logits = _alone(reading, game, question)
        margin = margin_of(logits, outputs, question)
        order = (margin if now else -margin).argsort(stable=True).tolist()
        floor = _floor(reading, game, question)
        sets = _candidates(game, outputs, question, floor) if now else []
        return cls(reading, question, now, sorted(order[:SINGLES]), sets, floor)

    @property
    def tried(self) -> Bool[Tensor, "coalitions words"]:
        """The words that stay: without each single, then the sets."""
        n = len(self.reading.units.read)
        return torch.stack([*(_without(n, i) for i in self.singles), *self.sets])

    def claims(self, answers: Float[Tensor, "coalitions labels"]) -> Claims:
        """What the model confirms, from its logits of what was tried."""
        reading, question, singles, outputs = self.reading, self.question, self.singles, self.reading.outputs
        margins = margin_of(answers, outputs, question)
        kept = (margins > 0).tolist()
        swing = tuple(i for place, i in enumerate(singles) if kept[place] != self.now)
        becomes = [_said(answers[singles.index(i)], outputs, question) for i in swing]
        rationale = _shortest(self.sets, margins[len(singles) :].tolist(), self.floor)
        probabilities = outputs.probabilities(answers, reading.nli.temperature)
        gone = {
            reading.units.read[i]: dict(zip(outputs.labels, probabilities[place].tolist(), strict=True))
            for place, i in enumerate(singles)
        }
        diagnostics: dict[str, Any] = {"checked": True, "check_passes": len(answers), "swing_to": becomes}
        diagnostics["without"] = {str(i): p for i, p in gone.items()}  # probabilities without that word
        diagnostics |= missed(reading, _game(reading), self.tried, answers)
        if rationale is not None:
            place = len(singles) + next(k for k, C in enumerate(self.sets) if _places(C) == rationale)
            diagnostics["rationale_alone"] = dict(zip(outputs.labels, probabilities[place].tolist(), strict=True))
        return Claims(swing, rationale, diagnostics)


def tried_scores(reading: Reading, game: WordGame, question: Question) -> Claims:
    """Of a score: what it would be without each of the words that the game gives most, tried for real."""
    if not question.check:
        return Claims((), None, {"checked": False, "check_passes": 0, "swing_to": []})
    direction, n = question.direction(reading.nli.labels), game.players
    change = (game.without - game.whole) @ direction
    singles = sorted(change.abs().argsort(descending=True, stable=True).tolist()[:SINGLES])
    tried = torch.stack([_without(n, i) for i in singles])
    answers = evaluate(reading, tried, game.removal).double()
    scores = {
        str(reading.units.read[i]): dict(zip(reading.nli.labels, row, strict=True))
        for i, row in zip(singles, answers.tolist(), strict=True)
    }
    told: dict[str, Any] = {"checked": True, "check_passes": len(singles), "swing_to": [], "without": scores}
    return Claims((), None, {**told, **missed(reading, game, tried, answers)})


def missed(
    reading: Reading, game: WordGame, tried: Bool[Tensor, "sets words"], answers: Float[Tensor, "sets labels"]
) -> dict[str, Any]:
    """How far a fitted game is off on the sets that were tried, and whether that is more than it usually was.

    Returns:
        check_error: root mean square over sets and labels, in logits; check_limit: what all but a twentieth of the
        held-out texts had, None where too few were held out; unlike: whether the one is beyond the other.
    """
    if game.source != "explainer":
        return {}
    gap = reading.outputs.centred(game.logits(tried) - answers)
    error = float(gap.square().mean().sqrt())
    unlike = None if game.limit is None else error > game.limit
    return {"check_error": error, "check_limit": game.limit, "unlike": unlike}


def _alone(reading: Reading, game: WordGame, question: Question) -> tuple[bool, Float[Tensor, "words labels"]]:
    """Whether the model decides for the target, and the logits that the game leaves without each word.

    The model's own logits are known; the game is asked only for the change.
    """
    own = reading.logits
    return bool(margin_of(own, reading.outputs, question) > 0), own + game.without - game.whole


def _floor(reading: Reading, game: WordGame, question: Question) -> float:
    """The margin that a rationale must hold: 0, or half of what words add where no word at all gives the answer too."""
    nothing, whole = (float(margin_of(z, reading.outputs, question)) for z in (game.base.double(), reading.logits))
    return 0.0 if nothing <= 0 or whole <= nothing else (nothing + whole) / 2.0


def _candidates(game: WordGame, outputs: Outputs, question: Question, floor: float) -> list[Bool[Tensor, "words"]]:
    """Sets that may keep the answer, the shortest that the game trusts first; up to half of the words, then more."""
    path, n = Path.of(game, outputs, question), game.players
    margins = path.margins
    least = min((k for k, m in margins.items() if m > floor), default=n)
    sure = min((k for k, m in margins.items() if m > floor + MARGIN), default=n)
    kept, half = min((k for k, m in margins.items() if m > 0), default=n), max(1, n // 2)
    sizes = [least, sure, half, (min(sure, half) + half) // 2, (kept + half) // 2, (half + n) // 2]
    return [path.coalition(k) for k in dict.fromkeys(min(max(k, 1), n) for k in sizes)][:SETS]


def _shortest(sets: list[Bool[Tensor, "words"]], margins: list[float], floor: float) -> tuple[int, ...] | None:
    """The shortest set that holds the floor; if that takes more than half of the words, the shortest that decides."""
    if not any(margin > 0 for margin in margins):
        return None
    few = len(sets[0]) // 2
    firm = [C for C, margin in zip(sets, margins, strict=True) if margin > floor]
    weak = [C for C, margin in zip(sets, margins, strict=True) if margin > 0]
    short = [C for C in firm if int(C.sum()) <= few] or [C for C in weak if int(C.sum()) <= few]
    return _places(min(short or firm or weak, key=lambda C: int(C.sum())))


def _said(logits: Float[Tensor, "labels"], outputs: Outputs, question: Question) -> str:
    """The label that the logits decide for, among those that the question is about."""
    assert question.target is not None
    return outputs.decision(logits, question.target, question.contrast)


def _without(n: int, i: int) -> Bool[Tensor, "words"]:
    C = torch.ones(n, dtype=torch.bool)
    C[i] = False
    return C


def _places(C: Bool[Tensor, "words"]) -> tuple[int, ...]:
    return tuple(C.nonzero().flatten().tolist())
