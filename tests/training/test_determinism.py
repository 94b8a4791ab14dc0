"""The same seed, the same results: in every process, batch, order, padding and number of threads.

To the bit where nothing but the process, its hash seed and what it did before differs; within ROUNDING where sums are
taken in another order (other batch mates, other threads, plain instead of compiled loops).
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest
import tiny
import torch
from kinds import GAMES, KINDS, LONG, SHORT, system
from test_explanation_methods import FEW
from test_training import configure, distance, made, weights, workshop  # noqa: F401  fixtures

from neurogame import NeuroGameAttention, kernels, values
from neurogame.data import Pair, PairDataset
from neurogame.evaluation import evaluate
from neurogame.explanation import methods_for
from neurogame.labels import LABELS

ROUNDING = 1e-5  # of logits and scores of order one, in float32
PAIRS = [*tiny.PAIRS, SHORT, LONG, ("a girl sings .", ""), ("", "a dog ."), ("a", "a " * 50)] * 2
TIMES = {"seconds", "pairs_per_second"}


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def without_times(found):
    """A record without what a clock says."""
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key not in TIMES}
    return [without_times(value) for value in found] if isinstance(found, list | tuple) else found


def numbers(found):
    """All numbers of a record, in order."""
    if isinstance(found, dict):
        return [x for key in sorted(found) for x in numbers(found[key])]
    if isinstance(found, list | tuple):
        return [x for value in found for x in numbers(value)]
    return [float(found)] if isinstance(found, int | float) else []


def said(nli, method):
    """An explanation as JSON."""
    return without_times(nli.explain(*SHORT, method=method, samples=FEW.get(method), seed=3).to_dict())


# Predictions


@pytest.mark.parametrize("kind", [*KINDS, *GAMES])
def test_predictions_do_not_depend_on_the_batch(kind):
    """Batch size, batch mates, padding, order, threads: rounding at most; the same call: nothing at all."""
    nli = system(kind)
    alone = nli.logits(PAIRS, batch_size=1)
    assert torch.equal(nli.logits(PAIRS[:1]), alone[:1])
    order = torch.randperm(len(PAIRS), generator=torch.Generator().manual_seed(0)).tolist()
    assert torch.equal(nli.logits([PAIRS[i] for i in order], batch_size=1), alone[order])
    for size in (7, 32):
        found = nli.logits(PAIRS, batch_size=size)
        torch.testing.assert_close(found, alone, atol=ROUNDING, rtol=0)
        assert torch.equal(nli.logits(PAIRS, batch_size=size), found)
        shuffled = nli.logits([PAIRS[i] for i in order], batch_size=size)
        torch.testing.assert_close(shuffled, alone[order], atol=ROUNDING, rtol=0)
        with threads(2):
            torch.testing.assert_close(nli.logits(PAIRS, batch_size=size), alone, atol=ROUNDING, rtol=0)


def test_predictions_of_every_order_of_labels():
    """Labels go by name: a model whose logits come in another order says the same of every label."""
    expected = system().predict(PAIRS)
    why = system().explain(*SHORT, target="neutral", contrast="entailment", method="decision")
    for order in permutations(range(3)):
        nli = system()
        out = nli.model.classifier.out
        with torch.no_grad():
            out.weight.copy_(out.weight[list(order)].clone())
            out.bias.copy_(out.bias[list(order)].clone())
        names = [LABELS[i] for i in order]
        nli = type(nli)(nli.model, nli.tokenizer, name="tiny", label_names=names)
        assert nli.labels == tuple(names)
        for ours, theirs in zip(nli.predict(PAIRS), expected, strict=True):
            assert ours.label == theirs.label
            assert ours.logits == pytest.approx(theirs.logits, abs=ROUNDING)
            assert ours.probabilities == pytest.approx(theirs.probabilities, abs=ROUNDING)
        found = nli.explain(*SHORT, target="neutral", contrast="entailment", method="decision")
        assert found.scores == pytest.approx(why.scores, abs=ROUNDING)


# The layer


@pytest.mark.parametrize("couplings", ["linear", "pairs"])
def test_a_row_of_the_compiled_loops_is_computed_alone(couplings):
    """To the bit: where it lies in memory, who is beside it and who computes it do not matter."""
    if kernels.library() is None:
        pytest.skip(kernels.state())
    V = torch.randn(5, 3, 13, 7, generator=torch.Generator().manual_seed(0))

    def found(V):
        with torch.no_grad():
            estimated = values.estimate(V, samples=10, couplings=couplings)
        J = estimated.coupling if couplings == "pairs" else estimated.coupling.delta
        return torch.cat([estimated.shapley.flatten(1), estimated.banzhaf.flatten(1), J.flatten(1)], 1)

    together = found(V)
    for i in range(len(V)):
        assert torch.equal(found(V[i : i + 1])[0], together[i])
    with threads(2):
        assert torch.equal(found(V), together)


def test_the_layer_forgets(monkeypatch):
    """What was computed before, large or small, with a gradient or without, changes no bit."""
    torch.manual_seed(0)
    layer = NeuroGameAttention(32, 4).eval()
    x = torch.randn(2, 9, 32)
    with torch.no_grad():
        first = layer(x)
        layer(torch.randn(40, 60, 32))
    layer(x).output.sum().backward()
    with torch.no_grad():
        again = layer(x)
    for name in ("output", "alpha", "shapley", "banzhaf", "field"):
        assert torch.equal(getattr(first, name), getattr(again, name)), name
    monkeypatch.setattr(kernels, "available", lambda *_: False)
    with torch.no_grad():
        plain = layer(x)
    torch.testing.assert_close(plain.output, first.output, atol=1e-6, rtol=0)
    torch.testing.assert_close(plain.alpha, first.alpha, atol=1e-6, rtol=0)


# Explanations


def test_explanations_repeat():
    """Every method: to the bit in the same process, whatever came between; within rounding with other threads."""
    nli = system()
    methods = methods_for(nli.model)
    first = {method: said(nli, method) for method in methods}
    torch.manual_seed(99)
    for method in reversed(methods):
        assert said(nli, method) == first[method], method
    with threads(2):
        for method in ("decision", "game", "presence", "input"):  # the others compute with the same forward passes
            ours, theirs = said(nli, method), first[method]
            assert (ours["words"], ours["target"]) == (theirs["words"], theirs["target"])
            assert ours["scores"] == pytest.approx(theirs["scores"], abs=10 * ROUNDING), method
    other = nli.explain(*LONG, method="lime", samples=30, seed=4)
    assert other.scores != nli.explain(*LONG, method="lime", samples=30, seed=3).scores  # a seed is not ignored


# Processes


EVERYTHING = """
import json, sys
import torch
torch.set_num_threads(1)
from test_determinism import everything
json.dump(everything(), sys.stdout)
"""


def everything():
    """Predictions, explanations by each method, and an evaluation of tiny models, as JSON."""
    found = {}
    for kind in ("neurogame", "dam"):
        nli = system(kind)
        found[kind] = {
            "logits": nli.logits(PAIRS, batch_size=7).tolist(),
            "explained": {method: said(nli, method) for method in methods_for(nli.model)},
        }
    data = PairDataset(tuple(Pair(p, h, LABELS[i % 3]) for i, (p, h) in enumerate(PAIRS) if p and h), "animals")
    report = evaluate(system(), [data], calibration=data, resamples=50)
    found["evaluation"] = without_times(report.to_dict())
    return found


def test_another_process_says_the_same_to_the_bit():
    """With another hash seed, nothing computed before, and no warning or shape check that could matter."""
    here = Path(__file__).parent
    folders = (here, here.parent, here.parent / "explanation")
    env = {
        **os.environ,
        "PYTHONHASHSEED": "77",
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", EVERYTHING], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ours = json.loads(json.dumps(everything()))
    out, err = process.communicate()
    assert process.returncode == 0, err
    theirs = json.loads(out)
    for kind in ours:
        assert theirs[kind] == ours[kind], kind


# Evaluation and training


def test_an_evaluation_does_not_depend_on_the_batch():
    data = PairDataset(tuple(Pair(p, h, LABELS[i % 3]) for i, (p, h) in enumerate(tiny.PAIRS * 5)), "animals")
    nli = system()

    def found(**options):
        return without_times(evaluate(nli, [data], calibration=data, resamples=100, **options).to_dict())

    first = found(batch_size=7)
    assert found(batch_size=7) == first
    for size in (1, 32):
        assert numbers(found(batch_size=size)) == pytest.approx(numbers(first), abs=10 * ROUNDING)
    assert found(batch_size=7, seed=1) != first  # of the bootstrap


def test_training_repeats(configure):  # noqa: F811
    """To the bit with as many threads; with others, rounding grows step by step."""
    settings = {"max_steps": 4, "mixup": 0.3, "ema": 0.9, "premise_word_dropout": 0.2, "evaluate_every": 100}

    def trained(**changes):
        trainer = made(configure(**settings, **changes))
        trainer.train()
        return weights(trainer.model), weights(trainer.averaged.module)

    (first, average), (again, average_again) = trained(), trained()
    assert distance(first, again) == distance(average, average_again) == 0.0
    with threads(2):
        assert distance(first, trained()[0]) < 1e-4
