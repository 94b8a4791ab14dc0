"""`predict`, `logits`, `explain` and `evaluation` on any text: answers that are answers, in order, and JSON."""

import io
import json
import math

import numpy as np
import pytest
import targets
import torch
from hypothesis import given
from hypothesis import strategies as st
from kinds import system
from rich.console import Console
from support import fuzz, scraps, texts, tried, valid

from neurogame import evaluation
from neurogame.data import Pair, PairDataset
from neurogame.explanation import METHODS, methods_for
from neurogame.labels import LABELS, NON_ENTAILMENT
from neurogame.nli import Prediction

FAST = ["decision", "game", "presence", "input", "occlusion", "attention", "gradient", "random", "Gradient × input"]


@pytest.fixture(scope="module")
def models():
    return {kind: system(kind) for kind in ("neurogame", "mean", "dam", "a roberta")}


kinds = st.sampled_from(["neurogame", "mean", "dam", "a roberta"])


@given(kinds, st.lists(st.tuples(texts, texts), max_size=4), st.sampled_from([1, 2, 32, 0, -1, "x", None]))
@fuzz(3)
def test_predictions(models, kind, pairs, size):
    nli = models[kind]
    with tried("NLI.predict"):
        found = nli.predict(pairs, batch_size=size)
        assert len(found) == len(pairs)
        for pair, said in zip(pairs, found, strict=True):
            assert said.label in nli.labels
            assert list(said.probabilities) == list(said.logits) == list(nli.labels)
            assert math.isclose(sum(said.probabilities.values()), 1.0, abs_tol=1e-5)
            assert all(map(math.isfinite, said.logits.values()))
            assert said.probabilities[said.label] == max(said.probabilities.values())
            assert Prediction(**json.loads(json.dumps(said.to_dict()))) == said
            alone = nli.predict(*pair)
            assert all(abs(alone.logits[name] - said.logits[name]) < 1e-4 for name in nli.labels)
        assert nli.logits(pairs, batch_size=size).shape == (len(pairs), len(nli.labels))


@given(kinds, scraps | st.lists(scraps, max_size=3), scraps)
@fuzz(2)
def test_predictions_of_what_is_no_text(models, kind, premise, hypothesis):
    with tried("NLI.predict"):
        models[kind].predict(premise, hypothesis)
    with tried("NLI.logits"):
        models[kind].logits(premise)


def mostly(usual, *others):
    """Too many wrong answers at once, and nothing is explained."""
    return st.integers(0, 5).flatmap(lambda k: st.sampled_from(others) if k == 0 else st.just(usual))


@given(
    kind=kinds,
    premise=texts,
    hypothesis=texts,
    method=st.sampled_from(FAST),
    target=mostly(None, *LABELS, "e", "", "no label", 3),
    contrast=mostly(None, *LABELS, "x"),
    level=mostly("word", "token", "letter"),
    samples=mostly(None, 2, 9, 0, "x"),
    seed=mostly(0, 7, -1, 2**40, "x"),
)
@fuzz(4)
def test_explanations(models, kind, premise, hypothesis, **question):
    nli = models[kind]
    with tried("NLI.explain") as outcome:
        ex = nli.explain(premise, hypothesis, **question)
    if outcome.refused:
        return
    n = len(ex.words)
    if ex.level == "word":
        assert ex.words == (*premise.split(), *hypothesis.split())
    assert len(ex.sides) == len(ex.scores) == n
    assert all(map(math.isfinite, ex.scores))
    for name in ("shapley", "banzhaf", "alpha", "field", "gate"):
        found = getattr(ex, name)
        assert found is None or (len(found) == n and all(map(math.isfinite, found)))
    assert ex.method in METHODS
    assert ex.prediction.label in nli.labels
    with tried("Explanation.to_html"):
        targets.check_page(ex)
    with tried("Explanation.show"):
        for width in (20, 100):
            screen = io.StringIO()
            ex.show(Console(file=screen, width=width))
            assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 for c in screen.getvalue())


def test_every_fast_method_is_tried():
    slow = {"integrated_gradients", "lime", "kernelshap", "partition"}  # of other packages, and dear
    assert set(methods_for(system("neurogame").model)) - set(FAST) <= slow


numbers = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1e4, 1e30])
golds = st.sampled_from([*LABELS, NON_ENTAILMENT, "maybe", None])


@given(st.data(), st.permutations(LABELS), st.integers(0, 5))
@fuzz(3)
def test_scores(data, order, count):
    labels = order[: data.draw(st.sampled_from([3, 3, 2, 1, 0]))]
    z = [[data.draw(numbers) for _ in labels] for _ in range(count)]
    gold = [data.draw(golds) for _ in range(data.draw(st.sampled_from([count, count, count + 1])))]
    with tried("evaluation.score"):
        found = evaluation.score(np.array(z).reshape(count, len(labels)), gold, labels)
        assert 0.0 <= found.accuracy <= 1.0
        assert found.nll >= 0.0
        assert np.sum(found.confusion) == count


class Fixed:
    """A model whose logits are given."""

    name, temperature, parameters = "fixed", 1.0, 0

    def __init__(self, labels, rows):
        self.labels, self.rows = tuple(labels), rows

    def logits(self, pairs, *, batch_size=32, progress=None):
        return torch.tensor(self.rows, dtype=torch.float64)


@given(st.data(), st.permutations(LABELS), valid.map(lambda text: " ".join(text.split())), st.integers(1, 8))
@fuzz(1.5)
def test_reports(data, order, name, count):
    rows = [[data.draw(st.floats(-30, 30)) for _ in order] for _ in range(count)]
    pairs = tuple(Pair("a", "b", data.draw(golds)) for _ in rows)
    with tried("evaluation.evaluate"):
        report = evaluation.evaluate(Fixed(order, rows), [PairDataset(pairs, name or "data")], bins=3)
        assert evaluation.Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report
        report.to_markdown().encode()
        Console(file=io.StringIO(), width=120).print(report.table())
