"""What if: the same pair without some of its words, or at another temperature. A reading goes in, another comes out.

    without   the words are deleted from the ids, segments stay; everything is read anew
    heated    ⟨s⟩ = tanh((J_i + Σ_j J_ij ⟨s_j⟩)/(r·γ)),  α = (1 + ⟨s⟩)/2,  Σ_i c_i(α) ──classifier──▶ logits

Fields and couplings stay as the layer found them at its own γ; only its spins are solved again. As r → 0 every α goes
to 0 or 1, as r → ∞ to ½. The model itself is never touched, so one model can answer many such questions at once.
`explain` is `NLI.explain` with both.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import torch

from neurogame import ising
from neurogame.attention import NeuroGameOutput
from neurogame.classifier import Classifier
from neurogame.data.words import Level
from neurogame.explanation import methods
from neurogame.explanation.decision import is_grounded
from neurogame.explanation.reading import Reading, read, read_tokens
from neurogame.explanation.record import Explanation
from neurogame.ising import SpinState
from neurogame.modeling.heads import NeuroGamePooling, Pooled, pooling_of

FOLLOWING = frozenset({"decision", "game", "attention"})  # methods on the pooling as read; others ask the model
_MOST_STEPS = 5000  # a cold system needs short steps, so many of them
_SAFE = 0.95  # ρ(J)/γ up to which the layer's own steps are kept


def explain(
    nli: Classifier,
    premise: str,
    hypothesis: str,
    *,
    removed: Sequence[int] = (),
    temperature_factor: float = 1.0,
    method: str | None = None,
    target: str | None = None,
    contrast: str | None = None,
    level: str = "word",
    samples: int | None = None,
    seed: int = 0,
    check: bool = True,
    error: float | None = None,
) -> Explanation:
    """`NLI.explain` of the pair without the words `removed` and at γ·`temperature_factor`.

    The words struck out stay in the list, with 0, as words that were not read; `diagnostics` has `removed` and
    `temperature_factor`, and γ as it was used.
    """
    method = _default(nli, temperature_factor) if method is None else methods.named(method)
    asked: dict[str, Any] = {"method": method, "target": target, "contrast": contrast, "level": level}
    asked |= {"samples": samples, "seed": seed, "check": check, "error": error}
    if not removed and temperature_factor == 1:
        return methods.explain(nli, premise, hypothesis, **asked)
    if temperature_factor != 1 and method in methods.METHODS and method not in FOLLOWING:
        raise ValueError(
            f"temperature_factor = {temperature_factor!r:.20}: method = {method!r} asks the model as it is; methods "
            f"that follow the temperature: {', '.join(sorted(FOLLOWING))}"
        )

    grounded = method == "decision" and is_grounded(nli.model)  # whose temperature is that of α^c, and changes no logit
    if grounded:
        asked["temperature"] = _positive(temperature_factor)

    def changed(nli: Classifier, premise: str, hypothesis: str, level: Level) -> Reading:
        if grounded:
            return without(read(nli, premise, hypothesis, level), removed)
        return heated(without(read(nli, premise, hypothesis, level), removed), temperature_factor)

    found = methods.explain(nli, premise, hypothesis, **asked, read=changed)
    diagnostics = {**found.diagnostics, "removed": sorted(set(removed)), "temperature_factor": temperature_factor}
    diagnostics["unread"] = sorted({*found.diagnostics["unread"], *removed})
    if temperature_factor != 1 and not grounded:
        diagnostics["gamma"] = [temperature_factor * gamma for gamma in found.diagnostics["gamma"]]
    return replace(found, diagnostics=diagnostics)


def _default(nli: Classifier, temperature_factor: float) -> str:
    """The best method that the model has; with another temperature, the best that follows it."""
    best = methods.best(nli.model)
    return "decision" if temperature_factor != 1 and best not in FOLLOWING else best


def without(reading: Reading, removed: Sequence[int]) -> Reading:
    """The pair with units struck out, as `removal` deletes them; they stay in the list, as units that are not read."""
    units, tokens = reading.units, reading.tokens
    for i in removed:
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < len(units.names):
            raise ValueError(f"removed has {i!r:.20}; the words of this pair are numbered 0 to {len(units.names) - 1}")
    gone = set(removed)
    if not gone or not units.read:  # where nothing is read, there is nothing to strike out: `explain` says so
        return reading
    if gone.issuperset(units.read):
        raise ValueError("every word is struck out: there is none left to explain")
    stays = [i not in gone for i in units.unit_of.tolist()]
    places = [i for i, stay in enumerate(stays) if stay]
    cut = {(tokens.offsets[i], tokens.sides[i]) for i, stay in enumerate(stays) if not stay}
    left = replace(
        tokens,
        inputs={name: column[:, places] for name, column in tokens.inputs.items()},
        offsets=[tokens.offsets[i] for i in places],
        sides=[tokens.sides[i] for i in places],
        pieces=[tokens.pieces[i] for i in places],
        uncut=[entry for entry in tokens.uncut if entry not in cut],
    )
    left_units = replace(units, unit_of=units.unit_of[places])
    return read_tokens(reading.nli, left, left_units, truncated=reading.prediction.truncated, passes=reading.passes)


def has_temperature(model: object) -> bool:
    """Whether the weights of the pooling, or of a grounded game, are spins that a temperature can melt or freeze."""
    pooling = pooling_of(model)
    solved = isinstance(pooling, NeuroGamePooling) and pooling.layer.config.spins == "solved"
    return is_grounded(model) or solved


def heated(reading: Reading, factor: float) -> Reading:
    """The pair with γ of every head multiplied by `factor`; 1 is the reading itself."""
    if _positive(factor) == 1:
        return reading
    pooling = reading.pooling
    if not isinstance(pooling, NeuroGamePooling) or pooling.layer.config.spins != "solved":
        raise ValueError(
            f"temperature_factor = {factor:g}: {reading.nli.name} has no temperature γ; a model with the head "
            "'neurogame' and spins that are solved has one"
        )
    game = None if reading.pooled is None else reading.pooled.game
    assert isinstance(game, NeuroGameOutput)
    with torch.inference_mode():
        state = at_temperature(game.spin_state, factor, pooling.layer.config.damping)
        output = reading.terms(state.alpha).sum(1)  # (1, dim): W_O has no bias
        logits = reading.model.classify(output)[0].float().cpu()
    said = reading.nli.prediction(logits, truncated=reading.prediction.truncated)
    pooled = Pooled(output, state.alpha, replace(game, output=output, alpha=state.alpha, spin_state=state))
    return replace(reading, prediction=said, pooled=pooled)


def _positive(factor: object) -> float:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not (isfinite(factor) and factor > 0):
        raise ValueError(f"temperature_factor must be a number > 0, got {factor!r:.20}; 1 is the model as it is")
    return float(factor)


def at_temperature(state: SpinState, factor: float, damping: float) -> SpinState:
    """The same fields and couplings at γ·factor, solved from s = 0.

    Below the layer's own γ the equations may have several solutions and undamped steps swing between them: with steps
    1/(1 + ρ(J)/γ) every minimum of the free energy attracts, and the one reached from s = 0 is returned.
    """
    problem = state.problem
    radius = float(state.spectral_radius.max()) / factor
    return ising.solve(
        problem.field,
        problem.coupling,
        problem.gamma * factor,
        method=problem.method,
        damping=damping if radius < _SAFE else min(damping, 1.0 / (1.0 + radius)),
        max_iter=_MOST_STEPS,
        mask=problem.mask,
        validate=False,
    )
