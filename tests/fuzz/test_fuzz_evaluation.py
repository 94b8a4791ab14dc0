"""The parts of `evaluation` on any logits, labels and files: right, or refused in one line."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import changed, fuzz, scraps, spots, texts, tried, values

from neurogame import evaluation
from neurogame.data import Pair, PairDataset
from neurogame.labels import LABELS, NON_ENTAILMENT

numbers = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1e4, 1e30, -3e38])
golds = st.sampled_from([*LABELS, *LABELS, NON_ENTAILMENT, "maybe", None]) | scraps
counts = st.sampled_from([1, 2, 3, 15, 0, -4, 2.5, "many", True, None])
seeds = st.sampled_from([0, 7, 2**40, -1, 1.5, "x", None])
temperatures = st.sampled_from([1.0, 0.05, 20, 3.5, 1e-9, 0.0, -1.0, math.nan, math.inf, "warm", None, True])
KINDS = [np.array, torch.tensor, list, lambda z: torch.tensor(z).half(), lambda z: torch.tensor(z).long()]


@st.composite
def answers(draw, odd=True):
    """Logits, gold labels and the labels of the model; now and then one of them does not fit the others."""
    labels = draw(st.permutations(LABELS))[: draw(st.sampled_from([3, 3, 3, 2, 1]))]
    count = draw(st.integers(1, 6))
    finite = st.floats(-30, 30, width=32)
    z = [[draw(finite) for _ in labels] for _ in range(count)]
    gold = [draw(st.sampled_from(labels)) for _ in z]
    if len(labels) == 3 and draw(st.booleans()):
        gold = [name if name == LABELS[0] else NON_ENTAILMENT for name in gold]
    wrong = draw(st.integers(0, 9)) if odd else 9
    if wrong == 0:
        z[-1][-1] = draw(numbers)
    if wrong == 1:
        gold[-1] = draw(golds)
    if wrong == 2:
        labels[-1] = draw(scraps | texts)
    z = draw(st.sampled_from(KINDS))(z) if odd else np.array(z)
    return (draw(scraps) if wrong == 3 else z, draw(scraps) if wrong == 4 else gold, labels)


@given(answers(), temperatures)
@fuzz(3)
def test_align(given, temperature):
    with tried("evaluation.align"):
        z, gold, labels = given
        found = evaluation.align(z, gold, labels)
        assert [found.names[k] for k in found.gold] == list(gold)
        assert sorted(found.labels) == sorted(labels)
        assert len(found) == len(found.predicted) == len(z)
    if temperature in (1.0, 0.05, 20) and isinstance(temperature, float) and "found" in locals():
        assert np.allclose(np.exp(found.log_probabilities(temperature)).sum(1), 1.0)


@given(
    answers(odd=False),
    st.none() | st.tuples(temperatures, st.just("dev")),
    temperatures,
    counts,
    seeds,
)
@fuzz(2)
def test_calibrate(given, fitted, stored, bins, seed):
    with tried("evaluation.calibrate"):
        aligned = evaluation.align(*given)
        found = evaluation.calibrate(aligned, fitted=fitted, stored=stored, bins=bins, seed=seed)
        for trust in filter(None, (found.before, found.after)):
            assert trust.nll >= 0
            assert 0 <= trust.brier <= 2
            assert 0 <= trust.ece <= 1
            assert sum(b.count for b in trust.reliability) == len(aligned)
        assert all(t > 0 for t in found.temperatures)


@given(st.data(), st.integers(0, 5), st.integers(0, 3))
@fuzz(2)
def test_fit_temperature(data, count, width):
    z = np.array([[data.draw(numbers) for _ in range(width)] for _ in range(count)]).reshape(count, width)
    gold = data.draw(st.lists(st.integers(-1, width), min_size=count, max_size=count) | scraps)
    odd = data.draw(st.integers(0, 9))
    with tried("evaluation.fit_temperature"):
        found = evaluation.fit_temperature(data.draw(scraps) if odd == 0 else z, gold if odd else np.array(gold))
        assert 0.05 <= found <= 20


@given(st.integers(0) | scraps, st.integers(0) | scraps)
@fuzz(3)
def test_mcnemar(b, c):
    with tried("evaluation.mcnemar"):
        found = evaluation.mcnemar(b, c)
        assert 0 <= found.p_value <= 1
        assert found == evaluation.mcnemar(c, b)
        if b == c:
            assert found.p_value == 1


@given(st.data(), st.sampled_from([1, 5, 200, 0, -1, 2.5, "x", None]), seeds)
@fuzz(2)
def test_compare(data, resamples, seed):
    z, gold, labels = data.draw(answers(odd=False))
    other = np.array([[data.draw(st.floats(-3, 3)) for _ in labels] for _ in z])
    prints = data.draw(st.sampled_from([("a", "a")] * 5 + [("a", "b"), ("", "a")]))
    with tried("evaluation.compare"):
        first, second = (
            evaluation.Predictions(name, "dev", mark, evaluation.align(logits, gold, labels))
            for name, mark, logits in zip("mn", prints, (z, other), strict=True)
        )
        found = evaluation.compare(first, second, resamples=resamples, seed=seed)
        assert found.both_right + found.only_model + found.only_against + found.both_wrong == len(gold)
        assert -1 <= found.interval[0] <= found.interval[1] <= 1
        back = evaluation.compare(second, first, resamples=resamples, seed=seed)
        assert (back.difference, back.mcnemar) == (-found.difference, found.mcnemar)


@given(
    st.lists(st.sampled_from(["label", "round", "x\ny"]) | texts, max_size=3) | scraps,
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(["round", "x\ny"]) | texts, scraps, max_size=3), golds, st.booleans()
        ),
        max_size=5,
    ),
)
@fuzz(3)
def test_by(keys, rows):
    extras, gold, correct = zip(*rows, strict=True) if rows else ((), (), ())
    with tried("evaluation.by"):
        found = evaluation.by(keys, extras, gold, correct)
        assert sum(group.n for group in found) == len(rows)
        assert round(sum(group.n * group.accuracy for group in found)) == sum(correct)
        assert all(0 <= group.interval[0] <= group.accuracy <= group.interval[1] <= 1 for group in found)


class Fixed:
    """A model whose logits are given."""

    name, temperature, parameters, labels = "fixed", 1.0, 0, LABELS

    def logits(self, pairs, *, batch_size=32, progress=None):
        return torch.randn(len(pairs), 3, generator=torch.Generator().manual_seed(len(pairs)))


def report(size=4, name="dev", model="fixed"):
    pairs = tuple(Pair(f"a{i}", "b", LABELS[i % 3], {"round": str(i % 2)}) for i in range(size))
    return evaluation.evaluate(Fixed(), [PairDataset(pairs, name)], name=model, bins=3, resamples=20)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A report with a comparison, in a folder."""
    rows = [report(), report(5, "test")]
    first = evaluation.combine(rows)
    pairs = [PairDataset(tuple(Pair(f"a{i}", "b", LABELS[i % 3]) for i in range(n))) for n in (4,)]
    second = evaluation.evaluate(Fixed(), pairs, name="other", bins=3, resamples=20, against=first)
    return evaluation.combine([first, second]).save(tmp_path_factory.mktemp("reports") / "saved")


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["dev", "test"]), st.sampled_from("mn")), max_size=4))
@fuzz(0.5)
def test_combine(rows):
    with tried("evaluation.combine"):
        reports = [report(*row) for row in rows]
        found = evaluation.combine(reports)
        assert found.rows == tuple(row for one in reports for row in one.rows)


@given(st.data())
@fuzz(3)
def test_a_report_with_one_thing_changed(saved, data):
    told = json.loads((saved / "report.json").read_text())
    told = changed(told, data.draw(st.sampled_from(list(spots(told)))), data.draw(values))
    with tried("evaluation.Report.from_dict"):
        found = evaluation.Report.from_dict(told)
        assert evaluation.Report.from_dict(found.to_dict()).to_dict() == found.to_dict() or "NaN" in json.dumps(told)
        found.to_markdown().encode(errors="replace")


@given(st.data())
@fuzz(2)
def test_a_folder_with_one_thing_changed(saved, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("changed") / "report"
    shutil.copytree(saved, folder)
    path = data.draw(st.sampled_from(sorted(folder.glob("*.json*"))))
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    if data.draw(st.booleans()):
        told = json.loads(lines[at])
        lines[at] = json.dumps(changed(told, data.draw(st.sampled_from(list(spots(told)))), data.draw(values)))
    else:
        cut = data.draw(st.integers(0, len(lines[at])))
        lines[at] = lines[at][:cut] + data.draw(texts) + lines[at][cut + data.draw(st.integers(0, 3)) :]
    path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    with tried("evaluation.load_predictions"):
        found = evaluation.load_predictions(folder)
        assert all(len(one) for one in found)
    with tried("evaluation.Report.load"):
        assert len(evaluation.Report.load(folder).rows) == len(found)
    shutil.rmtree(folder)
