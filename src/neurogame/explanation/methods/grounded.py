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
from functools import cached_property
from typing import Any

import torch

from neurogame._common.types import Bool, Float, Tensor
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.explanation.refinement import refine
from neurogame.explanation.removal import InputGame, evaluate_each
from neurogame.grounding.game import WordGame
from neurogame.hamiltonian import Hamiltonian

SINGLES = 8  # words taken out one by one when a decision is checked
SETS = 6  # sets of words left alone when a rationale is checked
SAMPLES, FINE = 96, 1024  # coalitions per law of the game beyond what it enumerates; where it is a control variate
MARGIN = 0.5  # of the game, in logits, from which on it is trusted to keep an answer


def attribute(reading: Reading, question: Question) -> Attribution:
    """Values of the grounded game for what is asked; checked and refined where that is asked."""
    return attribute_all([(reading, question)])[0]


@torch.inference_mode()
def attribute_all(asked: Sequence[tuple[Reading, Question]]) -> list[Attribution]:
    """`attribute` of several texts of one classifier; the trials of all of them share batches."""
    cases = [Case.of(*both) for both in asked]
    trials = [(case.reading, case.trials) for case in cases if case.question.check]
    answers = iter(evaluate_each(trials, cases[0].game.removal) if trials else ())
    return [case.attribution(next(answers).double() if case.question.check else None) for case in cases]


@dataclass(frozen=True, eq=False)
class Case:
    """A question about a text, and the game that answers it. Words are numbered among those that were read."""

    reading: Reading
    question: Question
    game: WordGame

    @classmethod
    def of(cls, reading: Reading, question: Question) -> "Case":
        """With the game that the model has for this text."""
        assert reading.game is not None
        return cls(reading, question, reading.game)

    def margin(self, logits: Float[Tensor, "... labels"]) -> Float[Tensor, "..."]:
        """How far the answer is kept: the logit of the target less the best other, or less that of the contrast."""
        assert self.question.target is not None
        return self.reading.outputs.margin(logits, self.question.target, self.question.contrast)

    @cached_property
    def direction(self) -> Float[Tensor, "labels"]:
        """ℓ = logits @ direction."""
        return self.question.direction(self.reading.nli.labels)

    @cached_property
    def decides(self) -> bool:
        """Whether there is a decision, and it is for the target."""
        return self.reading.outputs.decides and bool(self.margin(self.reading.logits) > 0)

    @cached_property
    def without(self) -> Float[Tensor, "words labels"]:
        """Logits without each word: the model's own, changed by what the game says the word does."""
        return self.reading.logits + self.game.without - self.game.whole

    @cached_property
    def floor(self) -> float:
        """The margin that a rationale must hold: 0, or half of what words add where no word gives the answer too."""
        nothing, whole = (float(self.margin(z)) for z in (self.game.base.double(), self.reading.logits))
        return 0.0 if nothing <= 0 or whole <= nothing else (nothing + whole) / 2.0

    @cached_property
    def elimination(self) -> tuple[list[int], dict[int, float]]:
        """Words in the order of elimination, the least missed first; size of what stays → its margin by the game."""
        assert self.question.target is not None
        rivals = self.reading.outputs.rivals(self.question.target, self.question.contrast)
        order, margins = self.game.removal_order(rivals)
        return order, dict(zip(range(len(order), 0, -1), margins, strict=True))

    def smallest(self, margin: float) -> int | None:
        """The size of the smallest set of the elimination that keeps more than a margin."""
        return min((size for size, kept in self.elimination[1].items() if kept > margin), default=None)

    def survivors(self, size: int) -> tuple[int, ...]:
        """The last words of the elimination."""
        return tuple(sorted(self.elimination[0][self.game.players - size :]))

    def has_every_side(self, words: tuple[int, ...]) -> bool:
        """Whether a set has words of every text: what one text of a pair says alone is no reason for a reader."""
        sides, read = self.reading.units.sides, self.reading.units.read
        return {sides[read[i]] for i in words} == {sides[i] for i in read}

    @cached_property
    def smallest_of_every_side(self) -> int:
        """The size of the smallest set of the elimination that has words of every text."""
        return next(size for size in range(1, self.game.players + 1) if self.has_every_side(self.survivors(size)))

    @cached_property
    def singles(self) -> list[int]:
        """Words to take out one by one: those that the game finds likely to swing; of a score, to change it most."""
        if not self.reading.outputs.decides:
            order = -((self.game.without - self.game.whole) @ self.direction).abs()
        else:
            order = self.margin(self.without) * (1 if self.decides else -1)
        return sorted(order.argsort(stable=True).tolist()[:SINGLES])

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        """Sets that may keep the answer: the shortest that the game trusts, up to half of the words, then more."""
        if not self.decides:
            return []
        n, half = self.game.players, max(1, self.game.players // 2)
        least, sure, kept = (self.smallest(margin) or n for margin in (self.floor, self.floor + MARGIN, 0.0))
        sizes = [least, max(least, self.smallest_of_every_side), sure, half, (min(sure, half) + half) // 2]
        sizes += [(kept + half) // 2, (half + n) // 2]
        return [self.survivors(size) for size in dict.fromkeys(min(max(size, 1), n) for size in sizes)][:SETS]

    @property
    def trials(self) -> Bool[Tensor, "coalitions words"]:
        """What is tried on the model, as the words that stay: all but each of `singles`, then each of `sets`."""
        n = self.game.players
        alone = torch.zeros(len(self.sets), n, dtype=torch.bool)
        for row, words in zip(alone, self.sets, strict=True):
            row[list(words)] = True
        return torch.cat([~torch.eye(n, dtype=torch.bool)[self.singles], alone])

    def claims(
        self, answers: Float[Tensor, "coalitions labels"] | None = None
    ) -> tuple[dict[int, str], tuple[int, ...] | None]:
        """Swing words with what is decided without them, and the rationale.

        Confirmed by the model, whose logits of `trials` are the answers; None: as the game has them.
        """
        if answers is not None:
            singles, sets = answers.split([len(self.singles), len(self.sets)])
            return self._swings(self.singles, singles), self._shortest(sets)
        size = self.smallest(self.floor + MARGIN) if self.decides else None
        if size is not None and self.smallest_of_every_side <= self.game.players // 2:
            size = max(size, self.smallest_of_every_side)
        return self._swings(range(self.game.players), self.without), None if size is None else self.survivors(size)

    def _swings(self, words: Sequence[int], logits: Float[Tensor, "words labels"]) -> dict[int, str]:
        """Words without which the decision is another, and which; a score decides nothing."""
        if not self.reading.outputs.decides:
            return {}
        assert self.question.target is not None
        target, contrast = self.question.target, self.question.contrast
        kept = (self.margin(logits) > 0).tolist()
        return {
            word: self.reading.outputs.decision(z, target, contrast)
            for word, z, keeps in zip(words, logits, kept, strict=True)
            if keeps != self.decides
        }

    def _shortest(self, answers: Float[Tensor, "sets labels"]) -> tuple[int, ...] | None:
        """The shortest set that holds the floor; if it has more than half of the words, the shortest that decides.

        Of sets with at most half of the words, one with words of every text comes first.
        """
        if not self.sets:
            return None
        tried, few = list(zip(self.sets, self.margin(answers).tolist(), strict=True)), self.game.players // 2
        firm, weak = ([words for words, margin in tried if margin > least] for least in (self.floor, 0.0))
        short = [words for words in firm if len(words) <= few] or [words for words in weak if len(words) <= few]
        across = [words for words in short if self.has_every_side(words)]
        return min(across or short or firm or weak, key=len, default=None)

    def checks(self, answers: Float[Tensor, "coalitions labels"], rationale: tuple[int, ...] | None) -> dict[str, Any]:
        """Diagnostics of what was tried.

        Returns:
            without: word → what the model says without it. rationale_alone: what it says of the rationale. Of an
            explainer also check_error: how far it is off on the trials, root mean square over trials and labels, in
            logits; check_limit: what all but a twentieth of the held-out texts had, None where too few were held out;
            unlike: whether the one is beyond the other.
        """
        reading, outputs, limit = self.reading, self.reading.outputs, self.game.limit
        rows = outputs.probabilities(answers, reading.nli.temperature).tolist()
        probabilities = [dict(zip(outputs.labels, row, strict=True)) for row in rows]
        diagnostics: dict[str, Any] = {
            "without": {str(reading.units.read[i]): probabilities[place] for place, i in enumerate(self.singles)}
        }
        if self.game.source == "explainer":
            error = float(outputs.centred(self.game.logits(self.trials) - answers).square().mean().sqrt())
            unlike = None if limit is None else error > limit
            diagnostics |= {"check_error": error, "check_limit": limit, "unlike": unlike}
        if rationale is not None:
            diagnostics["rationale_alone"] = probabilities[len(self.singles) + self.sets.index(rationale)]
        return diagnostics

    def attribution(self, answers: Float[Tensor, "coalitions labels"] | None) -> Attribution:
        """Values, refined where that is asked, α of their Hamiltonian, and `claims` with their `checks`."""
        reading, question, game, direction = self.reading, self.question, self.game, self.direction
        gamma, refined = float(question.temperature_factor), question.samples is not None
        values = game.values(direction.unsqueeze(0), samples=FINE if refined else SAMPLES, seed=question.seed)
        phi, J = values.shapley[0], values.coupling[0]
        errors = {"shapley_se": values.shapley_se[0], "banzhaf_se": values.banzhaf_se[0]}
        nothing, whole = game.base.double(), game.whole
        diagnostics: dict[str, Any] = {"grounded": game.source, "exact": values.exact, "samples": values.samples}
        diagnostics |= {"couplings": "pairs", "gamma": [gamma], "origin": float(nothing @ direction), "outside": 0.0}
        diagnostics["total"] = float((whole - nothing) @ direction)
        diagnostics["logit_error"] = float(reading.outputs.centred(whole - reading.logits).abs().max())
        diagnostics |= {"r2": game.r2, "ungrounded": game.grounded is False}
        if refined:
            real = InputGame.of(reading, question, game.removal)
            better = refine(real, game, direction, phi, errors["shapley_se"], question)
            phi, errors["shapley_se"] = better.shapley, better.se
            diagnostics |= {"refined": True, **better.diagnostics, "logit_error": 0.0}
            diagnostics["samples"] = diagnostics["passes"]
        diagnostics["efficiency_gap"] = abs(float(phi.sum()) - diagnostics["total"])
        marginals = Hamiltonian(phi, J, diagnostics["origin"]).solve(gamma)
        diagnostics |= {"alpha_exact": marginals.exact, "alpha_converged": marginals.converged}
        swing, rationale = self.claims(answers)
        diagnostics |= {"checked": answers is not None, "check_passes": 0 if answers is None else len(answers)}
        diagnostics["swing_to"] = list(swing.values())
        diagnostics |= {} if answers is None else self.checks(answers, rationale)
        return Attribution(
            phi,
            phi,
            values.banzhaf[0],
            J,
            tuple(swing),
            rationale,
            marginals.alpha,
            errors=errors,
            diagnostics=diagnostics,
        )
