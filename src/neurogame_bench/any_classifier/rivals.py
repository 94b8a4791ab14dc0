"""What explains any classifier today, on one game: shap, lime, captum and shapiq, beside the attached explainer.

    ℓ(C) = logit_ŷ(x_C) − mean over the labels,   x_C the text in which only the words C are left

Every method that asks a black box gets this ℓ, with all inputs of a call in sorted batches of 64 and each coalition
evaluated once (`explanation.removal`): more than the packages do by themselves. "As documented" is shap.Explainer on a
function of strings instead. Integrated gradients differentiate the same logit. `passes` is what a method may ask
for: KernelSHAP's nsamples, Partition's max_evals, LIME's num_samples, shapiq's budget, the steps of the gradients.
"""

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from neurogame._common.extras import need
from neurogame._common.types import Float, Tensor
from neurogame.data.removal import Mode
from neurogame.evaluation.alignment import Array
from neurogame.explanation.methods import grounded
from neurogame.explanation.methods.inputs import tree
from neurogame.explanation.methods.slopes import integrated_gradients
from neurogame.explanation.reading import Question, Reading
from neurogame.explanation.removal import InputGame

Index = Literal["banzhaf", "shapley"]
_NODES = 32  # of the tree that Partition opens at a time


@dataclass(frozen=True)
class Centred(Question):
    """The logit of the target less the mean of all logits: what all labels have in common decides nothing."""

    def direction(self, labels: tuple[str, ...]) -> Float[Tensor, "labels"]:
        """1 at the target, less the mean."""
        direction = super().direction(labels)
        return direction - direction.mean()


@dataclass(frozen=True, eq=False)
class Solution:
    """What a method returns for a text: a number per word, and per pair of words for each index that it has."""

    values: Float[Tensor, "words"] | None
    pairs: dict[Index, Float[Tensor, "words words"]]


@dataclass(frozen=True)
class Method:
    """A way to explain; `solve` takes a reading, what is asked, and the game of both."""

    name: str
    solve: Callable[[Reading, Question, InputGame], Solution]
    passes: int  # at most; what it asks for in the tables
    is_ours: bool = False
    pairs_only: bool = False  # it says something of pairs of words alone
    texts_only: bool = False  # it takes single texts alone, and is no estimate of our game


def ours(reading: Reading, question: Question, _: InputGame) -> Solution:
    """The attached game: one pass. Its Shapley interactions are there too, where all its coalitions are enumerated."""
    attribution = grounded.attribute(reading, question)
    assert attribution.shapley is not None
    assert attribution.interactions is not None
    return Solution(attribution.shapley, {"banzhaf": attribution.interactions})


def _shap() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it makes colour maps when it is imported, in a way that matplotlib deprecates
        return need("shap", "bench")


def _partition(reading: Reading, question: Question, v: InputGame) -> Solution:
    """shap's PartitionExplainer on a balanced tree of neighbouring words, the parts of a pair apart."""
    shap = _shap()
    nothing = np.zeros((1, v.players))
    halves = tree([reading.units.sides[i] for i in reading.units.read])
    with _quiet(question.seed):
        explainer = shap.PartitionExplainer(_numbers(v), shap.maskers.Partition(nothing, clustering=halves))
        explanation = explainer(nothing + 1.0, max_evals=question.samples, batch_size=_NODES, silent=True)
    return Solution(torch.from_numpy(np.asarray(explanation.values[0], dtype=np.float64)), {})


def _documented(reading: Reading, question: Question, v: InputGame) -> Solution:
    """shap.Explainer(f, tokenizer) as its documentation has it, for single texts: tokens, masked, not one game of ours.

    It asks a function of strings, of which nothing is remembered; pieces of a word are summed.
    """
    shap, nli = _shap(), reading.nli
    (text,) = reading.tokens.texts

    def f(texts: Any) -> Array:
        rows = [str(row) for row in texts]
        columns = nli.tokenizer(rows, truncation=True, max_length=nli.max_length, padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = nli.forward(nli.on_device(columns)).logits.double().cpu()
        numbers: Array = (logits @ v.direction).numpy()
        return numbers

    with _quiet(question.seed):
        explainer = shap.Explainer(f, nli.tokenizer, algorithm="partition")
        explanation = explainer([text], max_evals=question.samples, batch_size=64, silent=True)
    pieces, shares = (
        [str(piece) for piece in explanation.data[0]],
        np.asarray(explanation.values[0], dtype=np.float64).reshape(-1),
    )
    values = torch.zeros(len(reading.units.names), dtype=torch.float64)
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    place = 0
    for piece, share in zip(pieces, shares, strict=True):
        if piece.strip():
            values[bisect_right(starts, place + len(piece) - len(piece.lstrip())) - 1] += float(share)
        place += len(piece)
    return Solution(values[list(reading.units.read)], {})


def _gradients(reading: Reading, question: Question, _: InputGame) -> Solution:
    return Solution(integrated_gradients(reading, question).scores, {})


def _kernel(_: Reading, question: Question, v: InputGame) -> Solution:
    """shap's KernelExplainer, the empty text as background; its default l1_reg would leave out words beyond ten."""
    shap = _shap()
    with _quiet(question.seed):
        explainer = shap.KernelExplainer(_numbers(v), np.zeros((1, v.players)))
        phi = explainer.shap_values(np.ones((1, v.players)), nsamples=question.samples, l1_reg=0, silent=True)
    return Solution(torch.from_numpy(np.asarray(phi, dtype=np.float64).reshape(-1)), {})


def _lime(_: Reading, question: Question, v: InputGame) -> Solution:
    """The package lime on a text whose words are numbers, so that what it leaves out is known; its own defaults."""
    text = need("lime.lime_text", "bench")
    names = [str(i) for i in range(v.players)]

    def classify(texts: list[str]) -> Array:
        keep = np.array([[name in left for name in names] for left in (set(row.split()) for row in texts)])
        logits = _numbers(v)(keep)
        return np.stack([-logits, logits], 1)

    with _quiet(question.seed):
        explainer = text.LimeTextExplainer(split_expression=r"\s+", random_state=question.seed)
        explanation = explainer.explain_instance(
            " ".join(names), classify, num_features=v.players, num_samples=question.samples
        )
    values = torch.zeros(v.players, dtype=torch.float64)
    for name, weight in explanation.as_list():
        values[int(name)] = weight
    return Solution(values, {})


def _shapiq(name: str, index: str | None) -> Callable[[Reading, Question, InputGame], Solution]:
    """An approximator of shapiq; with an index also of pairs of words."""
    of: dict[str, Index] = {"SII": "shapley", "BII": "banzhaf", "FBII": "banzhaf"}

    def solve(_: Reading, question: Question, v: InputGame) -> Solution:
        kind, n = getattr(need("shapiq.approximator", "bench"), name), v.players
        options: dict[str, Any] = {} if index is None else {"max_order": 2}
        options |= {"index": index} if index in ("SII", "BII") else {}
        budget = min(int(question.samples or 0), 1 << n)
        with _quiet(question.seed):
            explanation = kind(n=n, random_state=question.seed, **options).approximate(budget=budget, game=_numbers(v))
        if index is None:
            return Solution(torch.tensor([float(explanation[(i,)]) for i in range(n)], dtype=torch.float64), {})
        J = torch.zeros(n, n, dtype=torch.float64)
        for i in range(n):
            for j in range(i + 1, n):
                J[i, j] = J[j, i] = float(explanation[(i, j)])
        return Solution(None, {of[index]: J})

    return solve


def methods() -> tuple[Method, ...]:
    """Everything that is compared, ours first."""
    return (
        Method("neurogame", ours, 1, is_ours=True),
        Method("shap Partition", _partition, 500),
        Method("shap Partition", _partition, 100),
        Method("shap.Explainer as documented", _documented, 500, texts_only=True),
        Method("shap Kernel", _kernel, 500),
        Method("shap Kernel", _kernel, 100),
        Method("lime", _lime, 500),
        Method("lime", _lime, 100),
        Method("captum integrated gradients", _gradients, 50),
        Method("shapiq KernelSHAP", _shapiq("KernelSHAP", None), 100),
        Method("shapiq PermutationSamplingSV", _shapiq("PermutationSamplingSV", None), 100),
        Method("shapiq SVARM", _shapiq("SVARM", None), 100),
        Method("shapiq KernelSHAPIQ (SII)", _shapiq("KernelSHAPIQ", "SII"), 100, pairs_only=True),
        Method("shapiq KernelSHAPIQ (SII)", _shapiq("KernelSHAPIQ", "SII"), 500, pairs_only=True),
        Method("shapiq SVARMIQ (SII)", _shapiq("SVARMIQ", "SII"), 100, pairs_only=True),
        Method("shapiq SVARMIQ (SII)", _shapiq("SVARMIQ", "SII"), 500, pairs_only=True),
        Method("shapiq SVARMIQ (BII)", _shapiq("SVARMIQ", "BII"), 100, pairs_only=True),
        Method("shapiq SVARMIQ (BII)", _shapiq("SVARMIQ", "BII"), 500, pairs_only=True),
        Method("shapiq RegressionFBII", _shapiq("RegressionFBII", "FBII"), 100, pairs_only=True),
        Method("shapiq RegressionFBII", _shapiq("RegressionFBII", "FBII"), 500, pairs_only=True),
    )


def key(method: Method) -> str:
    """How a method is called in the results."""
    return method.name if method.is_ours else f"{method.name}, {method.passes}"


def asked(target: str, method: Method, seed: int) -> Centred:
    """What is asked of a method; values alone, no checks."""
    return Centred(target=target, samples=None if method.is_ours else method.passes, seed=seed, check=False)


def game(reading: Reading, target: str) -> InputGame:
    """ℓ of a text, words taken out as by the explainer."""
    mode: Mode = getattr(reading.nli.explainer, "removal", "delete")
    return InputGame.of(reading, Centred(target=target), mode)


def _numbers(v: InputGame) -> Callable[[Any], Array]:
    """ℓ of rows of 0 and 1 as an array."""

    def value(rows: Any) -> Array:
        numbers: Array = v(torch.from_numpy(np.atleast_2d(np.asarray(rows)) > 0.5)).numpy()
        return numbers

    return value


@contextmanager
def _quiet(seed: int) -> Iterator[None]:
    """Global generators seeded and restored, warnings of the packages off."""
    before = np.random.get_state()  # noqa: NPY002  theirs
    np.random.seed(seed)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
