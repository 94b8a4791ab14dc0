"""Metrics, calibration and comparison against scikit-learn, scipy, brute force and cases worked by hand."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from sklearn import metrics as reference

from neurogame._common.records import restore
from neurogame.evaluation import calibration, metrics
from neurogame.evaluation.alignment import align
from neurogame.evaluation.calibration import COLDEST, HOTTEST, calibrate, cross_fit, fit_temperature, halves
from neurogame.evaluation.comparison import compare, mcnemar
from neurogame.evaluation.metrics import by, score, wilson
from neurogame.evaluation.predictions import Predictions
from neurogame.labels import LABELS, NON_ENTAILMENT

TWO_WAY = ("entailment", NON_ENTAILMENT)


def sample(n, seed=0, skill=1.0, names=LABELS, model=LABELS):
    """Logits [n, labels] of a model with some skill, and gold names."""
    rng = np.random.default_rng(seed)
    gold = [str(name) for name in rng.choice(names, n)]
    z = rng.normal(size=(n, len(model)))
    for row, name in zip(z, gold, strict=True):
        row[model.index("contradiction" if name == NON_ENTAILMENT else name)] += skill
    return z, gold


def softmax(z):
    return np.exp(z) / np.exp(z).sum(1, keepdims=True)


# Metrics against scikit-learn


def test_scores_are_scikit_learns():
    z, gold = sample(500, skill=0.7)
    predicted = [LABELS[k] for k in z.argmax(1)]
    found = score(z, gold, LABELS)
    p, r, f, n = reference.precision_recall_fscore_support(gold, predicted, labels=LABELS)
    assert found.n == 500
    assert found.accuracy == pytest.approx(reference.accuracy_score(gold, predicted))
    assert found.macro_f1 == pytest.approx(f.mean())
    for k, name in enumerate(LABELS):
        one = found.classes[name]
        assert (one.precision, one.recall, one.f1, one.support) == pytest.approx((p[k], r[k], f[k], n[k]))
        assert one.predicted == predicted.count(name)
    assert np.array_equal(found.confusion, reference.confusion_matrix(gold, predicted, labels=LABELS))
    by_alphabet = np.argsort(LABELS)  # scikit-learn wants the columns so
    assert found.nll == pytest.approx(reference.log_loss(gold, softmax(z)[:, by_alphabet], labels=sorted(LABELS)))
    hot = np.array([[name == label for label in LABELS] for name in gold])
    assert found.brier == pytest.approx(np.square(softmax(z) - hot).sum(1).mean())
    assert found.majority == max(n) / 500


def test_labels_that_the_data_lack():
    """Macro-F1 runs over gold labels; a prediction the data never ask for still costs recall."""
    z, gold = sample(300, names=("entailment", "contradiction"))
    predicted = [LABELS[k] for k in z.argmax(1)]
    assert "neutral" in predicted
    found = score(z, gold, LABELS)
    wanted = reference.f1_score(gold, predicted, labels=["entailment", "contradiction"], average="macro")
    assert found.macro_f1 == pytest.approx(wanted)
    assert found.classes["neutral"].support == 0
    assert found.classes["neutral"].f1 == 0.0
    only = score(z[:1], gold[:1], LABELS)  # one pair, one label
    assert only.n == 1
    assert only.interval == (only.accuracy, only.accuracy)


def test_torch_and_half_precision():
    z, gold = sample(50)
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.tensor(z, dtype=dtype, requires_grad=True)
        assert score(tensor, gold, LABELS) == score(tensor.detach().double().numpy(), gold, LABELS)


@settings(max_examples=40, deadline=None)
@given(order=st.permutations(LABELS), names=st.sampled_from([LABELS, LABELS[:2], TWO_WAY]), seed=st.integers(0, 50))
def test_the_order_of_the_models_labels_changes_nothing(order, names, seed):
    """Bit for bit, ties between labels included."""
    z, gold = sample(30, seed, names=names)
    z = np.round(z)  # ties
    columns = [LABELS.index(name) for name in order]
    assert score(z[:, columns], gold, order, resamples=20) == score(z, gold, LABELS, resamples=20)
    permuted, plain = align(z[:, columns], gold, order), align(z, gold, LABELS)
    assert calibrate(permuted, seed=seed) == calibrate(plain, seed=seed)


# Two-way data


def test_two_way_data_merge_neutral_and_contradiction():
    z = np.log([[0.4, 0.35, 0.25], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1]])
    gold = ["non-entailment", "non-entailment", "entailment", "entailment"]
    found = score(z, gold, LABELS)
    assert found.labels == TWO_WAY
    # The first pair is predicted entailment by the three-way argmax, although p(non-entailment) = .6.
    assert found.confusion == ((1, 1), (1, 1))
    assert found.accuracy == 0.5
    p_gold = np.array([0.6, 0.8, 0.1, 0.7])
    assert found.nll == pytest.approx(-np.log(p_gold).mean())
    assert found.brier == pytest.approx(2 * np.square(1 - p_gold).mean())
    confident = [(b.confidence, b.accuracy) for b in found.reliability if b.count]
    assert np.allclose(confident, [(0.4, 0.0), (0.7, 1.0), (0.8, 1.0), (0.9, 0.0)])


def test_two_way_equals_three_way_with_the_names_merged():
    z, gold = sample(400, names=TWO_WAY)
    predicted = ["entailment" if k == 0 else NON_ENTAILMENT for k in z.argmax(1)]
    found = score(z, gold, LABELS)
    assert found.macro_f1 == pytest.approx(reference.f1_score(gold, predicted, average="macro"))
    p = softmax(z)
    assert found.nll == pytest.approx(reference.log_loss([g == "entailment" for g in gold], p[:, 0]))


def test_two_way_models_are_scored_by_name():
    z, gold = np.array([[2.0, 1.0], [0.0, 1.0]]), ["non-entailment", "entailment"]
    aligned = align(z, gold, ("non-entailment", "entailment"))
    assert not aligned.collapsed
    assert aligned.correct.all()


# Refusals


@pytest.mark.parametrize(
    ("logits", "gold", "labels", "message"),
    [
        ([[1.0, 2.0, 3.0]], ["sarcasm"], LABELS, "'sarcasm', which the model does not know.*by name"),
        ([[1.0, 2.0, 3.0]], ["neutral"], ("LABEL_0", "LABEL_1", "LABEL_2"), "'neutral'.*its labels are 'LABEL_0'"),
        ([[1.0, 2.0]], ["neutral"], TWO_WAY, "'neutral', which the model does not know"),
        ([[1.0, 2.0, 3.0]] * 2, ["neutral", "non-entailment"], LABELS, "mix 'non-entailment' with 'neutral'"),
        ([[1.0, 2.0, 3.0]] * 2, ["neutral", None], LABELS, "1 of 2 pairs have no gold label"),
        ([[1.0, 2.0]], ["neutral"], LABELS, r"shape \[pairs, 3\].*got \[1, 2\]"),
        ([[1.0, 2.0, 3.0]], ["neutral"] * 2, LABELS, "1 rows of logits for 2 gold labels"),
        (np.zeros((0, 3)), [], LABELS, "no pairs to score"),
        ([[1.0, math.nan, 3.0], [0.0, 0.0, math.inf]], ["neutral"] * 2, LABELS, "2 of 2 pairs are NaN or infinite"),
        ([[1.0, 2.0, 3.0]], ["neutral"], ("neutral", "neutral", "entailment"), "appear twice"),
    ],
)
def test_refusals_name_the_cause(logits, gold, labels, message):
    with pytest.raises(ValueError, match=message):
        score(logits, gold, labels)


@pytest.mark.parametrize("wrong", [{"bins": 0}, {"resamples": 0}])
def test_settings_must_be_counts(wrong):
    with pytest.raises(ValueError, match="must be at least 1"):
        score([[1.0, 2.0, 3.0]], ["neutral"], LABELS, **wrong)


# Bootstrap


def test_bootstrap_of_accuracy_is_binomial():
    """N·accuracy of a resample is Binomial(N, accuracy), so its quantiles are known."""
    z, gold = sample(400)
    found = score(z, gold, LABELS, resamples=20_000)
    law = stats.binom(400, found.accuracy)
    for bound, q in zip(found.interval, (0.025, 0.975), strict=True):
        # A sample quantile is within five standard errors of its own level, √(q(1−q)/R).
        slack = 5 * math.sqrt(q * (1 - q) / 20_000)
        assert law.ppf(q - slack) - 1 <= 400 * bound <= law.ppf(q + slack) + 1


def test_bootstrap_of_counts_is_bootstrap_of_pairs():
    """The multinomial shortcut has the law of resampling pairs: mean and spread of macro-F1 agree."""
    z, gold = sample(150)
    aligned = align(z, gold, LABELS)
    counts, present, R = metrics.confusion(aligned), np.ones(3, dtype=bool), 3000
    short = metrics.bootstrap(counts, lambda drawn: metrics.macro_f1(drawn, present), R, seed=1)
    rng, long = np.random.default_rng(2), []
    for _ in range(R):
        rows = rng.integers(0, 150, 150)
        cells = np.bincount(aligned.gold[rows] * 3 + aligned.predicted[rows], minlength=9).reshape(3, 3)
        long.append(float(metrics.macro_f1(cells, present)))
    error = math.hypot(short.std() / math.sqrt(R), np.std(long) / math.sqrt(R))
    assert abs(short.mean() - np.mean(long)) < 5 * error
    assert short.std() == pytest.approx(np.std(long), rel=5 * math.sqrt(1 / R))
    predicted = [LABELS[k] for k in aligned.predicted]
    assert metrics.macro_f1(counts, present) == pytest.approx(reference.f1_score(gold, predicted, average="macro"))


def test_bootstrap_is_seeded():
    z, gold = sample(100)
    assert score(z, gold, LABELS, seed=3) == score(z, gold, LABELS, seed=3)
    assert score(z, gold, LABELS, seed=3).interval != score(z, gold, LABELS, seed=4, resamples=999).interval


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (7, 30), (400, 1000)])
def test_wilson_is_scipys(hits, n):
    wanted = stats.binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits, n) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


# Groups


def test_accuracy_by_heuristic_and_label():
    heuristics = ["subsequence", "lexical_overlap", "subsequence", "lexical_overlap", "subsequence"]
    gold = ["non-entailment", "entailment", "entailment", "entailment", "non-entailment"]
    found = by(("heuristic", "label"), [{"heuristic": h} for h in heuristics], gold, [True, True, False, False, True])
    assert [(tuple(g.key.values()), g.n, g.accuracy) for g in found] == [
        (("lexical_overlap", "entailment"), 2, 0.5),
        (("subsequence", "entailment"), 1, 0.0),
        (("subsequence", "non-entailment"), 2, 1.0),
    ]
    assert found[2].interval == wilson(2, 2)
    labels = by(("label",), [{}] * 4, ["neutral", "contradiction", "entailment", "neutral"], [True] * 4)
    assert [g.key["label"] for g in labels] == list(LABELS)  # not by alphabet


def test_groups_need_their_key():
    with pytest.raises(ValueError, match="no 'round' to group by; its extras are genre"):
        by(("round",), [{"genre": "fiction"}], ["neutral"], [True])
    with pytest.raises(ValueError, match="at least one"):
        by((), [{}], ["neutral"], [True])


# Calibration


def test_ece_by_hand():
    """Two bins: (0, .5] holds .4 and .5 (one right), (.5, 1] holds .8 and .9 (both right)."""
    table = calibration.reliability(np.array([0.4, 0.5, 0.8, 0.9]), np.array([True, False, True, True]), bins=2)
    assert [b.count for b in table] == [2, 2]
    assert [b.confidence for b in table] == pytest.approx([0.45, 0.85])
    assert [b.accuracy for b in table] == [0.5, 1.0]
    assert calibration.ece(table) == pytest.approx(0.5 * 0.05 + 0.5 * 0.15)


@settings(max_examples=50, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40),
    bins=st.integers(1, 20),
)
def test_ece_by_brute_force(pairs, bins):
    confidence, correct = (np.array(column) for column in zip(*pairs, strict=True))
    edges, total = np.linspace(0, 1, bins + 1), 0.0
    for b in range(bins):
        inside = (confidence > edges[b]) & (confidence <= edges[b + 1]) | ((confidence == 0) & (b == 0))
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    table = calibration.reliability(confidence, correct, bins)
    assert sum(b.count for b in table) == len(pairs)
    assert calibration.ece(table) == pytest.approx(total, abs=1e-12)


def calibrated(n, seed=0):
    """Logits whose softmax is the law of the gold labels: T = 1 is right."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, 3))
    gold = (softmax(z).cumsum(1) < rng.random((n, 1))).sum(1)
    return z, np.minimum(gold, 2)


@pytest.mark.parametrize("T", [0.4, 1.0, 2.5])
def test_temperature_is_recovered(T):
    """Calibrated logits times T have temperature T, within five standard errors 1/√(N·I) in β = 1/T."""
    z, gold = calibrated(20_000)
    found = fit_temperature(z * T, gold)
    d = z - z[np.arange(len(z)), gold][:, None]
    information = calibration._slope(d, 1.0)[1]  # of β·T = 1, per pair
    assert abs(T / found - 1) < 5 / math.sqrt(len(z) * information)


def test_temperature_minimises_the_nll():
    z, gold = sample(300, skill=1.5)
    gold = np.array([LABELS.index(name) for name in gold])
    bound = {"bounds": (COLDEST, HOTTEST), "method": "bounded", "options": {"xatol": 1e-10}}
    wanted = optimize.minimize_scalar(lambda T: reference.log_loss(gold, softmax(z / T)), **bound).x
    assert fit_temperature(z, gold) == pytest.approx(wanted, rel=1e-5)


def test_temperature_stops_at_its_bounds():
    z = np.eye(3) * 5.0
    assert fit_temperature(z, np.arange(3)) == COLDEST  # separable
    assert fit_temperature(z, np.array([1, 2, 0])) == HOTTEST  # always wrong
    assert fit_temperature(np.full((4, 3), 0.1), np.array([0, 1, 2, 0])) == 1.0  # nothing to learn from
    assert fit_temperature(1e4 * z, np.arange(3)) == 1.0  # the likelihood is 1 already: exp underflows, unwarned
    assert fit_temperature(1e4 * z, np.array([1, 2, 0])) == HOTTEST


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100))
def test_temperature_is_a_minimum_for_any_scale(seed, scale):
    z, gold = sample(20, seed)
    z, gold = z * scale, np.array([LABELS.index(name) for name in gold])
    T = fit_temperature(z, gold)
    assert COLDEST <= T <= HOTTEST

    def nll(at):
        return calibration.nll(align(z, [LABELS[k] for k in gold], LABELS).log_probabilities(at), gold)

    for other in (T * 0.98, T * 1.02):
        assert not COLDEST <= other <= HOTTEST or nll(T) <= nll(other) + 1e-9


@pytest.mark.parametrize("n", [2, 7, 200])
def test_cross_fitting_uses_the_other_half(n):
    """Changing a half's gold labels changes the temperature of the other half, and not its own."""
    z, gold = calibrated(n, seed=5)
    chosen = halves(n, seed=9)
    assert chosen.sum() == n // 2
    per_pair, (first, second) = cross_fit(z, gold, seed=9)
    assert (per_pair[chosen] == first).all()
    assert (per_pair[~chosen] == second).all()
    assert first == fit_temperature(z[~chosen], gold[~chosen])
    assert second == fit_temperature(z[chosen], gold[chosen])
    worst = np.where(chosen, z.argmin(1), gold)
    again, (same, moved) = cross_fit(z, worst, seed=9)
    assert same == first
    assert moved == HOTTEST
    assert (again[chosen] == first).all()
    assert not np.array_equal(halves(200, seed=1), halves(200, seed=2))


def test_calibration_says_where_the_temperature_comes_from():
    z, gold = calibrated(2000)
    aligned = align(4 * z, [LABELS[k] for k in gold], LABELS)  # a power of two: 4z/4 is z to the last bit
    crossed = calibrate(aligned)
    assert crossed.source == "cross-fitted, two halves"
    assert crossed.temperatures == pytest.approx((4, 4), rel=0.2)
    assert crossed.after.ece < 0.03 < 0.1 < crossed.before.ece
    assert crossed.after.nll < crossed.before.nll
    stored = calibrate(aligned, stored=4.0)
    assert (stored.source, stored.temperatures) == ("stored in the model", (4.0,))
    fitted = calibrate(aligned, fitted=(4.0, "mine/dev"), stored=2.0)
    assert fitted.source == "fitted on mine/dev"
    assert fitted.after == stored.after == calibration.confidence(align(z, [LABELS[k] for k in gold], LABELS))
    assert fitted.before == crossed.before == calibration.confidence(aligned)
    assert restore(calibration.Calibration, json.loads(json.dumps(crossed.to_dict()))) == crossed


def test_two_way_data_fit_no_temperature():
    z, gold = sample(50, names=TWO_WAY)
    aligned = align(z, gold, LABELS)
    bare = calibrate(aligned)
    assert bare.after is None
    assert bare.temperatures == ()
    assert "two-way" in bare.source
    given_one = calibrate(aligned, fitted=(2.0, "mine/dev"))
    p = softmax(z / 2)
    is_entailment = [g == "entailment" for g in gold]
    assert given_one.after.nll == pytest.approx(reference.log_loss(is_entailment, p[:, 0]))
    assert "too few" in calibrate(align(z[:1], ["neutral"], LABELS)).source
    with pytest.raises(ValueError, match="temperature must be > 0"):
        calibrate(aligned, stored=0.0)


# Comparison


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (5, 5), (3, 17), (24, 0), (12, 12)])
def test_mcnemar_exact(b, c):
    found = mcnemar(b, c)
    wanted = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert found.test == "exact binomial"
    assert found.statistic is None
    assert found.p_value == pytest.approx(wanted)


@pytest.mark.parametrize(("b", "c"), [(121, 59), (25, 0), (13, 12), (40, 40), (2000, 1700)])
def test_mcnemar_chi_square(b, c):
    found = mcnemar(b, c)
    assert found.test.startswith("chi-square")
    assert found.p_value == pytest.approx(stats.chi2.sf(found.statistic, 1))
    assert found.p_value == mcnemar(c, b).p_value
    if b != c:
        assert found.statistic == pytest.approx((abs(b - c) - 1) ** 2 / (b + c))


def test_mcnemar_of_a_textbook_table():
    """The 2 × 2 table 101, 121 / 59, 33, whose corrected χ² is 20.67."""
    assert mcnemar(121, 59).statistic == pytest.approx(20.67, abs=0.005)
    with pytest.raises(ValueError, match="b must be at least 0"):
        mcnemar(-1, 3)


def answers(z, gold, model, fingerprint="f00d"):
    return Predictions(model, "mine/test", fingerprint, align(z, gold, LABELS))


def test_compare_counts_and_interval():
    z, gold = sample(400)
    other, _ = sample(400, seed=1)
    first, second = answers(z, gold, "one"), answers(other, gold, "two")
    right, wrong = (p.aligned.predicted == p.aligned.gold for p in (first, second))
    found = compare(first, second, resamples=4000)
    cells = [(right & wrong).sum(), (right & ~wrong).sum(), (~right & wrong).sum(), (~right & ~wrong).sum()]
    assert [found.both_right, found.only_model, found.only_against, found.both_wrong] == cells
    assert found.difference == pytest.approx(right.mean() - wrong.mean())
    gaps = right.astype(float) - wrong
    width = 2 * stats.norm.ppf(0.975) * gaps.std() / math.sqrt(400)
    assert found.interval[1] - found.interval[0] == pytest.approx(width, rel=0.1)
    assert found.interval[0] < found.difference < found.interval[1]
    assert found.mcnemar == mcnemar(found.only_model, found.only_against)
    swapped = compare(second, first)
    assert swapped.difference == -found.difference
    assert swapped.mcnemar.p_value == found.mcnemar.p_value


def test_a_model_does_not_differ_from_itself():
    z, gold = sample(40)
    found = compare(answers(z, gold, "one"), answers(z, gold, "one again"))
    assert (found.difference, found.interval, found.mcnemar.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_compare_refuses_other_data():
    z, gold = sample(40)
    with pytest.raises(ValueError, match=r"not run on the same pairs: mine/test has fingerprint f00d.*beef"):
        compare(answers(z, gold, "one"), answers(z, gold, "two", "beef"))
    with pytest.raises(ValueError, match="gold labels of mine/test differ"):
        compare(answers(z, gold, "one"), answers(z, [*gold[1:], *gold[:1]], "two"))


def test_scores_round_trip_through_json():
    z, gold = sample(60, names=LABELS[:2])
    found = score(z, gold, LABELS)
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert restore(metrics.Scores, json.loads(text)) == found
    assert json.loads(text) == found.to_dict()
    with pytest.raises(ValueError, match="lacks accuracy, interval"):
        restore(metrics.Scores, {"n": 3})


# found by the fuzzer
@pytest.mark.parametrize(
    ("logits", "gold", "said"),
    [
        ([[1.0, 2.0]], [2], "gold must hold columns from 0 to 1"),
        ([[1.0, 2.0]], ["neutral"], "`align` finds their columns"),
        ([], [], "logits must be"),
        ([[1.0, math.nan]], [0], "NaN or infinite"),
    ],
)
def test_a_temperature_is_not_fitted_on_anything(logits, gold, said):
    with pytest.raises(ValueError, match=said):
        calibration.fit_temperature(logits, gold)


# found by the fuzzer
def test_records_of_the_wrong_type_are_refused():
    told = {"low": 0.0, "high": 1.0, "count": 3, "confidence": None, "accuracy": None}
    assert restore(calibration.Bin, told).count == 3
    for changed in ({"count": "3"}, {"count": True}, {"low": None}, {"accuracy": []}):
        with pytest.raises(ValueError, match="must be a"):
            restore(calibration.Bin, {**told, **changed})
    with pytest.raises(ValueError, match="must be a mapping"):
        restore(calibration.Bin, [told])


# found by the fuzzer
def test_an_extra_with_a_line_break_is_named_in_one_line():
    with pytest.raises(ValueError, match=r"its extras are a\\u000ab$"):
        metrics.by(("round",), [{"a\nb": 1}], ["neutral"], [True])
