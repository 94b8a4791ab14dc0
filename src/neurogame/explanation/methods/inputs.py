"""What the model says when words are missing from its input: "input", "occlusion", and what libraries make of it.

    input       v(C) = ℓ(x_C) − ℓ(x_∅): Shapley, Banzhaf and interactions of the words that are left in the text
    occlusion   ℓ(x) − ℓ(x∖i): one word deleted, all others left in place
    lime        coefficients of a ridge regression of ℓ(x_C) on C ~ Bernoulli(½)ⁿ, weights exp(−d²/2w²), d the cosine
                distance of C to N (captum; kernel and ridge as in the lime package)
    kernelshap  captum's KernelShap: the same with Shapley's kernel; an estimate of the Shapley values
    partition   shap's PartitionExplainer: Owen values of a balanced tree, premise and hypothesis apart, then halves of
                neighbouring words; Shapley values where the model is additive

ℓ is the logit of the target, or the target's minus the contrast's; x_C is `removal`'s, words deleted. Any sequence
classifier will do: nothing is asked of it but logits. Each v(C) is a forward pass, so "input" enumerates up to EXACT
words only and estimates by `regression` beyond them, from PASSES passes in all. Interactions follow the Banzhaf law.
The shares add up to the model's own logit: Σφ = total, origin + total = ℓ(x), origin = ℓ(x_∅). The libraries ask for no
more forward passes than `samples`. They draw from global generators, so one explanation runs at a time, from its own
seed, and the generators are put back where they were.
"""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from neurogame._common.extras import need
from neurogame._common.types import Float, Tensor
from neurogame.explanation import regression
from neurogame.explanation.methods.decision import enumerate_game, swings
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.explanation.removal import InputGame

EXACT = 10  # words up to which all 2ⁿ coalitions are evaluated
PASSES = 600  # forward passes beyond that, or three per word if that is more
SAMPLES = 100  # forward passes of lime and kernelshap
EVALUATIONS = 500  # of partition: shap's own default
KERNEL_WIDTH = 0.25  # of lime, in cosine distance
RIDGE = 1.0
_BATCH = 32  # nodes of the tree that partition opens at a time
_ALONE = threading.Lock()


def attribute(reading: Reading, question: Question) -> Attribution:
    """Method "input"; `question.samples` forward passes, enumeration where they suffice for it."""
    v = InputGame.of(reading, question)
    n, samples = v.players, question.samples
    enough = 2**n <= (2**EXACT if samples is None else samples)
    values = enumerate_game(v, n) if enough else _estimate(v, n, question)
    assert values.shapley is not None
    swing, checked = _without_each(v, question)
    return replace(values, swing=swing, diagnostics={**values.diagnostics, **account(v, values.shapley), **checked})


def occlusion(reading: Reading, question: Question) -> Attribution:
    """Method "occlusion"; n + 1 forward passes."""
    v = InputGame.of(reading, question)
    n = v.players
    present = torch.cat([torch.ones(1, n, dtype=torch.bool), ~torch.eye(n, dtype=torch.bool)])
    whole, without = v(present).split([1, n])
    swing, checked = _without_each(v, question)
    return Attribution(whole - without, swing=swing, diagnostics={"removal": v.mode, **checked})


def _without_each(v: InputGame, question: Question) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Swing words by real deletion, and for the record what the model says without each of them."""
    outputs, read = v.reading.outputs, v.reading.units.read
    swing, becomes = swings(v, outputs, question)
    then = outputs.probabilities(v.logits(~torch.eye(v.players, dtype=torch.bool)), v.reading.nli.temperature).tolist()
    without = {str(read[i]): dict(zip(outputs.labels, then[i], strict=True)) for i in swing}
    return swing, {"swing_to": becomes, "checked": True, "without": without}


def account(v: InputGame, shares: Float[Tensor, "players"]) -> dict[str, Any]:
    """How shares of ℓ(x) − ℓ(x_∅) add up; special tokens are in every x_C and hold nothing."""
    nobody, everyone = v.logits(torch.tensor([[False], [True]]).expand(2, v.players))
    origin, total = float(nobody @ v.direction), float((everyone - nobody) @ v.direction)
    gap, error = abs(float(shares.sum()) - total), float((everyone - v.reading.logits).abs().max())
    account = {"origin": origin, "outside": 0.0, "total": total, "efficiency_gap": gap, "logit_error": error}
    return {**account, "removal": v.mode}


def _estimate(v: InputGame, n: int, question: Question) -> Attribution:
    """From as many pairs of coalitions as the passes allow; swing words need no more, each N∖i is among them."""
    passes = max(PASSES, 3 * n) if question.samples is None else question.samples
    least = min(2**n, 2 * n + 2)
    if passes < least:
        raise ValueError(f"samples = {passes}: method = 'input' needs at least {least} forward passes for {n} words")
    fit = regression.estimate(v, n, pairs=passes // 2 - 1, seed=question.seed)
    phi, beta, J = fit.shapley, fit.banzhaf, fit.interactions
    couplings = "none" if J is None else "pairs"
    diagnostics: dict[str, Any] = {"exact": False, "coalitions": fit.coalitions, "couplings": couplings}
    diagnostics |= {"shapley_ess": 2.0 * phi.ess, "banzhaf_ess": 2.0 * beta.ess}  # a row is a pair of coalitions
    diagnostics["interactions_se"] = fit.interactions_se
    errors = {"shapley_se": phi.se, "banzhaf_se": beta.se}
    return Attribution(phi.value, phi.value, beta.value, J, errors=errors, diagnostics=diagnostics)


def lime(reading: Reading, question: Question) -> Attribution:
    """Method "lime"."""
    v, captum = InputGame.of(reading, question), need("captum.attr", "explain")
    ridge = need("captum._utils.models.linear_model", "explain").SkLearnRidge(alpha=RIDGE)
    similarity = need("captum.attr._core.lime", "explain").get_exp_kernel_similarity_function("cosine", KERNEL_WIDTH)
    explainer = captum.Lime(_value(v), ridge, similarity_func=similarity)
    return Attribution(_coefficients(explainer, v, question), diagnostics={"removal": v.mode})


def kernelshap(reading: Reading, question: Question) -> Attribution:
    """Method "kernelshap"."""
    v, captum = InputGame.of(reading, question), need("captum.attr", "explain")
    phi = _whole(v) if v.players == 1 else _coefficients(captum.KernelShap(_value(v)), v, question)
    return Attribution(phi, phi, diagnostics=account(v, phi))


def partition(reading: Reading, question: Question) -> Attribution:
    """Method "partition"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it makes colour maps when it is imported, in a way that matplotlib deprecates
        shap = need("shap", "explain")
    v = InputGame.of(reading, question)
    sides = [reading.units.sides[i] for i in reading.units.read]
    if v.players == 1:
        owen = _whole(v)
    else:
        nothing = np.zeros((1, v.players))
        evaluations = EVALUATIONS if question.samples is None else question.samples
        with _fixed_seed(question.seed):
            explainer = shap.PartitionExplainer(_value(v), shap.maskers.Partition(nothing, clustering=tree(sides)))
            answer = explainer(nothing + 1.0, max_evals=evaluations // 2 * 2, batch_size=_BATCH, silent=True)
        owen = torch.from_numpy(np.asarray(answer.values[0], dtype=np.float64))
    return Attribution(owen, diagnostics=account(v, owen))


def _value(v: InputGame) -> Callable[[Any], Float[Tensor, "rows"]]:
    """ℓ of rows of 0 and 1, whichever library they come from."""
    return lambda present: v(torch.as_tensor(present) > 0.5)


def tree(sides: Sequence[str]) -> NDArray[np.float64]:
    """A balanced hierarchy as SciPy writes one: (left, right, height, words) per inner node, the root last."""
    rows: list[tuple[float, float, float, float]] = []

    def join(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The node over (node, words) pairs, halved as long as there are two."""
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        (left, a), (right, b) = join(parts[:half]), join(parts[half:])
        rows.append((left, right, a + b, a + b))
        return len(sides) + len(rows) - 1, a + b

    join([join([(i, 1) for i, side in enumerate(sides) if side == name]) for name in dict.fromkeys(sides)])
    return np.array(rows)


def _whole(v: InputGame) -> Float[Tensor, "players"]:
    """One word alone: its share is all there is."""
    return v(torch.tensor([[False], [True]])).diff()


def _coefficients(explainer: Any, v: InputGame, question: Question) -> Float[Tensor, "players"]:
    """Of captum's surrogate model, all its samples in one call: `removal` makes the batches."""
    need("sklearn", "explain")
    samples = SAMPLES if question.samples is None else question.samples
    with _fixed_seed(question.seed):
        scores = explainer.attribute(torch.ones(1, v.players), n_samples=samples, perturbations_per_eval=samples)
    return torch.as_tensor(scores[0]).double()


@contextmanager
def _fixed_seed(seed: int) -> Iterator[None]:
    """The global generators of torch and NumPy for one explanation at a time."""
    with _ALONE, torch.random.fork_rng(devices=[]):
        before = np.random.get_state()  # noqa: NPY002  theirs
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002
