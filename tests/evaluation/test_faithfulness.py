"""Metrics of explanations against numbers worked out by hand, against scikit-learn and SciPy, and on games whose true
ranking is known."""

import math
import sys
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr
from sklearn.metrics import f1_score

from neurogame import exact
from neurogame_bench import intervals
from neurogame_bench.faithfulness import baselines, coalitions, deletion, interaction
from neurogame_bench.faithfulness.correlation import kendall, spearman
from neurogame_bench.faithfulness.degradation import degraded, ranks_lower
from neurogame_bench.faithfulness.stability import stability

array = np.array
scores_of = st.lists(st.integers(-3, 3), min_size=1, max_size=12).map(lambda x: array(x, dtype=float))


def curves(value, scores):
    """without[k] and only[k] of a value function of coalitions."""
    order, ks = deletion.ranking(scores), range(len(scores) + 1)
    return value(coalitions.without(order, ks)), value(coalitions.only(order, ks))


def logistic(weights, bias=-1.0):
    """p(ŷ | x_C) = σ(b + Σ_{i∈C} w_i): additive in the logit, so that the true ranking is that of the weights."""
    return lambda keep: 1 / (1 + np.exp(-(bias + keep @ weights)))


# --- rankings and sizes -----------------------------------------------------------------------------------------------


def test_of_equal_words_the_earlier_comes_first():
    assert deletion.ranking(array([1.0, 3.0, 1.0, 3.0, 0.0])).tolist() == [1, 3, 0, 2, 4]
    assert deletion.ranking(np.zeros(4)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_without_an_order_are_refused(bad):
    with pytest.raises(ValueError, match="1 of 3 scores are NaN or infinite"):
        deletion.ranking(array([0.0, bad, 1.0]))


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, [1, 1, 1, 1, 1]),
        (7, [1, 1, 1, 2, 4]),
        (20, [1, 1, 2, 4, 10]),
        (21, [1, 2, 3, 5, 11]),
        (100, [1, 5, 10, 20, 50]),
    ],
)
def test_sizes_of_eraser(n, expected):
    assert deletion.sizes(np.zeros(n), "eraser") == expected


def test_sizes_of_ferret():
    assert deletion.sizes(np.ones(5), "ferret") == [1, 2, 3, 4, 5]  # 0 and repetitions are left out
    assert deletion.sizes(np.ones(20), "ferret") == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert deletion.sizes(array([1, 1, 1, *[-1] * 17], dtype=float), "ferret") == [2, 3]  # three positive words
    assert deletion.sizes(array([0.0, -1.0]), "ferret") == []
    with pytest.raises(ValueError, match="protocol = 'eraser2' is unknown; allowed: 'eraser', 'ferret'"):
        deletion.sizes(np.ones(3), "eraser2")


def test_whole_numbers_of_words_are_not_rounded_up():
    assert [deletion.share(n, 100 * k / n) for n in range(1, 60) for k in range(n + 1)] == [
        k for n in range(1, 60) for k in range(n + 1)
    ]


def test_steps_of_auc_tp():
    assert deletion.steps(7) == [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7]


# --- comprehensiveness and sufficiency --------------------------------------------------------------------------------


def test_by_hand():
    scores = array([0.1, 0.4, 0.2, -0.3])  # order 1, 2, 0, 3; eraser 1, 1, 1, 1, 2; ferret 1, 2, 3
    without = array([0.9, 0.5, 0.3, 0.2, 0.1])
    only = array([0.1, 0.4, 0.8, 0.85, 0.9])
    assert deletion.comprehensiveness(without, scores) == pytest.approx((4 * 0.4 + 0.6) / 5)
    assert deletion.sufficiency(0.9, only, scores) == pytest.approx((4 * 0.5 + 0.1) / 5)
    assert deletion.comprehensiveness(without, scores, "ferret") == pytest.approx((0.4 + 0.6 + 0.7) / 3)
    assert deletion.sufficiency(0.9, only, scores, "ferret") == pytest.approx((0.5 + 0.1 + 0.05) / 3)
    nothing = array([0.0, -1.0, 0.0, 0.0])
    assert deletion.comprehensiveness(without, nothing, "ferret") == 0.0
    assert deletion.sufficiency(0.9, only, nothing, "ferret") == 1.0


def test_normalised_by_hand():
    without, only = array([0.9, 0.5, 0.95, 0.1]), array([0.1, 0.3, 0.95, 0.9])
    assert deletion.normalised_comprehensiveness(without, 0.1, [1]) == pytest.approx(0.4 / 0.8)
    assert deletion.normalised_comprehensiveness(without, 0.1, [1, 2]) == pytest.approx(0.25)  # below 0 is clipped
    assert deletion.normalised_comprehensiveness(without, 0.6, [3]) == 1.0  # above 1 is, too
    suff, empty = 1 - (0.9 - 0.3), 1 - (0.9 - 0.1)
    assert deletion.normalised_sufficiency(0.9, only, 0.1, [1]) == pytest.approx((suff - empty) / (1 - empty))
    assert deletion.normalised_sufficiency(0.9, only, 0.1, [2]) == 1.0
    assert deletion.normalised_sufficiency(0.9, only, 0.5, [0]) == 0.0


@pytest.mark.parametrize("empty", [0.9, 0.95])
def test_normalised_is_undefined_where_nothing_is_as_good(empty):
    curve = array([0.9, 0.5])
    assert math.isnan(deletion.normalised_comprehensiveness(curve, empty, [1]))
    assert math.isnan(deletion.normalised_sufficiency(0.9, curve, empty, [1]))


@settings(max_examples=40, deadline=None)
@given(scores_of, st.integers(0, 1000))
def test_normalised_lies_between_0_and_1(scores, seed):
    value = logistic(np.random.default_rng(seed).normal(size=len(scores)))
    without, only = curves(value, scores)
    ks = deletion.sizes(scores)
    for found in (
        deletion.normalised_comprehensiveness(without, without[-1], ks),
        deletion.normalised_sufficiency(without[0], only, only[0], ks),
    ):
        assert 0 <= found <= 1 or (math.isnan(found) and without[-1] >= without[0])


def test_areas_by_hand():
    without, only = array([0.9, 0.5, 0.3, 0.2, 0.1]), array([0.1, 0.4, 0.8, 0.85, 0.9])
    assert deletion.deletion_auc(without) == pytest.approx((0.7 + 0.4 + 0.25 + 0.15) / 4)
    assert deletion.insertion_auc(only) == pytest.approx((0.25 + 0.6 + 0.825 + 0.875) / 4)
    assert deletion.deletion_auc(array([0.8, 0.2])) == pytest.approx(0.5)  # one word: half-way
    assert deletion.insertion_auc(array([0.2, 0.2, 0.8])) == pytest.approx((0.2 + 0.5) / 2)
    for n in (1, 2, 20):
        assert deletion.deletion_auc(np.full(n + 1, 0.7)) == pytest.approx(0.7)  # over shares, not over words
    assert math.isnan(deletion.deletion_auc(array([0.7])))  # no words
    assert math.isnan(deletion.insertion_auc(array([0.1, math.nan, 0.9])))  # an entry is not passed over


@settings(max_examples=40, deadline=None)
@given(scores_of, st.integers(0, 1000))
def test_everything_removed_is_nothing_kept(scores, seed):
    without, only = curves(logistic(np.random.default_rng(seed).normal(size=len(scores))), scores)
    assert (without[0], without[-1]) == pytest.approx((only[-1], only[0]))


# --- a game whose true order is known ---------------------------------------------------------------------------------

WEIGHTS = array([0.2, 2.0, -0.7, 0.9, 1.3])


def aopc(scores, protocol="eraser", weights=WEIGHTS):
    without, only = curves(logistic(weights), scores)
    comp = deletion.comprehensiveness(without, scores, protocol)
    return comp, deletion.sufficiency(without[0], only, scores, protocol)


def test_no_order_beats_the_true_one():
    """Of all 5! orders the true one has the largest comprehensiveness and the smallest sufficiency, at every k."""
    every = [array(p, dtype=float) for p in permutations(range(1, 6))]
    best = curves(logistic(WEIGHTS), WEIGHTS)
    for scores in every:
        without, only = curves(logistic(WEIGHTS), scores)
        assert (best[0] <= without + 1e-12).all()
        assert (best[1] >= only - 1e-12).all()
    comps, suffs = zip(*(aopc(scores) for scores in every), strict=True)
    assert aopc(WEIGHTS) == pytest.approx((max(comps), min(suffs)))
    assert aopc(-WEIGHTS) == pytest.approx((min(comps), max(suffs)))
    assert min(comps) < np.mean(comps) < max(comps)


def test_no_order_has_better_areas_than_the_true_one():
    def areas(scores):
        without, only = curves(logistic(WEIGHTS), scores)
        return deletion.deletion_auc(without), deletion.insertion_auc(only)

    deleted, inserted = zip(*(areas(array(p, dtype=float)) for p in permutations(range(1, 6))), strict=True)
    assert areas(WEIGHTS) == pytest.approx((min(deleted), max(inserted)))
    assert areas(-WEIGHTS) == pytest.approx((max(deleted), min(inserted)))
    assert min(deleted) < max(deleted)
    assert areas(WEIGHTS)[1] == pytest.approx(areas(-WEIGHTS)[0])  # inserted from the top is deleted from the bottom


def test_the_true_scores_agree_with_leaving_words_out():
    value = logistic(WEIGHTS)
    left_out = value(coalitions.left_out(5))
    full = float(value(np.ones((1, 5), dtype=bool))[0])
    assert deletion.tau_loo(WEIGHTS, full, left_out) == pytest.approx(1.0)
    assert deletion.tau_loo(-WEIGHTS, full, left_out) == pytest.approx(-1.0)
    scores = array([1.0, 1.0, 0.0, 2.0, 0.0])
    assert deletion.tau_loo(scores, full, left_out) == pytest.approx(kendalltau(scores, full - left_out).statistic)
    assert math.isnan(deletion.tau_loo(np.ones(5), full, left_out))


def test_the_true_order_flips_the_decision_first():
    def k(scores):
        without = curves(logistic(WEIGHTS), scores)[0]
        return deletion.decision_flip((without[1:] > 0.5).astype(int), int(without[0] > 0.5))

    assert k(WEIGHTS) == min(k(array(p, dtype=float)) for p in permutations(range(1, 6)))
    assert k(-WEIGHTS) > k(WEIGHTS)


def test_decision_flip_by_hand():
    assert deletion.decision_flip([0, 0, 2, 0], 0) == 3
    assert deletion.decision_flip([1, 0], 0) == 1
    assert deletion.decision_flip([0, 0], 0) is None


def test_auc_tp_is_macro_f1_integrated():
    rng = np.random.default_rng(5)
    gold = rng.integers(0, 2, 40)  # the third label is never gold
    said = [np.where(rng.random(40) < t / 120, rng.integers(0, 3, 40), gold) for t in deletion.STEPS]
    counts = np.zeros((11, 3, 3))
    for step, predicted in enumerate(said):
        np.add.at(counts[step], (gold, predicted), 1)
    scores = [f1_score(gold, predicted, average="macro", labels=[0, 1], zero_division=0) for predicted in said]
    assert deletion.auc_tp(counts) == pytest.approx(np.trapezoid(scores, deletion.STEPS))
    together = deletion.auc_tp(np.stack([counts, counts[:1].repeat(11, 0)]))
    assert together == pytest.approx([float(deletion.auc_tp(counts)), 100.0])


# --- which inputs are asked for ---------------------------------------------------------------------------------------


def test_inputs_of_a_ranking():
    order = array([2, 0, 1])
    assert coalitions.only(order, [0, 1, 2, 3]).tolist() == [
        [False, False, False],
        [False, False, True],
        [True, False, True],
        [True, True, True],
    ]
    assert (coalitions.without(order, [0, 1, 3]) == ~coalitions.only(order, [0, 1, 3])).all()
    assert coalitions.left_out(2).tolist() == [[False, True], [True, False]]
    assert coalitions.left_out(3, [(0, 2)]).tolist() == [[False, True, False]]


def test_a_coalition_is_evaluated_once_and_new_ones_together():
    asked = []

    def evaluate(keep):
        asked.append(len(keep))
        return keep.sum(1, keepdims=True) + array([0.0, 10.0])

    answers = coalitions.Answers(evaluate)
    keep = coalitions.left_out(4)
    found = answers(np.concatenate([keep, keep, np.ones((1, 4), dtype=bool)]))
    assert found.tolist() == [[3, 13]] * 8 + [[4, 14]]
    assert answers(keep[::-1]).tolist() == [[3, 13]] * 4
    answers(np.concatenate([keep[:1], np.zeros((1, 4), dtype=bool)]))
    assert asked == [5, 1]
    assert len(answers) == 6


# --- interactions, stability, correlation -----------------------------------------------------------------------------


def pairwise(seed, n=6):
    """p(C) = Σ a_i z_i + Σ b_ij z_i z_j, which has the interactions b whatever the law, and b itself."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), np.triu(rng.normal(size=(n, n)), 1)
    b = b + b.T
    return (lambda keep: keep @ a + 0.5 * np.einsum("ci,ij,cj->c", keep * 1.0, b, keep * 1.0)), b


def test_second_order_effects_of_a_two_additive_game_are_its_interactions():
    value, b = pairwise(0)
    pairs = interaction.word_pairs(6)
    full = float(value(np.ones((1, 6), dtype=bool))[0])
    delta = interaction.second_order(full, value(coalitions.left_out(6)), value(coalitions.left_out(6, pairs)), pairs)
    assert delta == pytest.approx([b[i, j] for i, j in pairs])
    J = exact.interactions(torch.tensor(value(exact.all_coalitions(6).numpy()))).numpy()
    np.testing.assert_allclose(J, b, atol=1e-12)
    assert interaction.faithfulness(J, delta, pairs) == pytest.approx(1.0)
    assert interaction.faithfulness(-J, delta, pairs) == pytest.approx(-1.0)
    assert math.isnan(interaction.faithfulness(np.zeros((6, 6)), delta, pairs))


def test_agreement_of_matrices_looks_at_pairs_alone():
    _, b = pairwise(1)
    assert interaction.agreement(3 * b + 5 * np.eye(6), b) == pytest.approx(1.0)
    other = pairwise(2)[1]
    upper = np.triu_indices(6, 1)
    assert interaction.agreement(other, b) == pytest.approx(spearmanr(other[upper], b[upper]).statistic)
    with pytest.raises(ValueError, match=r"\[5, 5\] against \[6, 6\]"):
        interaction.agreement(b[:5, :5], b)


def test_pairs_of_words():
    assert interaction.word_pairs(3) == [(0, 1), (0, 2), (1, 2)]
    assert interaction.word_pairs(1) == []
    drawn = interaction.word_pairs(20, 30, seed=4)
    assert len(set(drawn)) == 30
    assert set(drawn) <= set(interaction.word_pairs(20))
    assert drawn == interaction.word_pairs(20, 30, seed=4) != interaction.word_pairs(20, 30, seed=5)
    assert len(interaction.second_order(0.5, np.zeros(1), np.zeros(0), [])) == 0


def test_stability_by_hand():
    up = array([1.0, 2.0, 3.0])
    assert stability([up, 10 * up, up + 1]) == pytest.approx(1.0)
    assert stability([up, -up]) == pytest.approx(-1.0)
    assert stability([up, -up, up]) == pytest.approx((1 - 1 - 1) / 3)
    assert stability([up, up, np.ones(3)]) == pytest.approx(1.0)  # two of three comparisons are undefined
    assert math.isnan(stability([np.ones(3), np.ones(3)]))
    with pytest.raises(ValueError, match="1 given, at least 2"):
        stability([up])


def test_correlation_is_scipys_and_undefined_for_constants():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 30).astype(float), rng.normal(size=30)
    assert kendall(a, b) == pytest.approx(kendalltau(a, b).statistic)
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    for correlation in (kendall, spearman):
        assert math.isnan(correlation(np.ones(30), b))
        assert math.isnan(correlation(b[:1], b[:1]))
        assert math.isnan(correlation(b[:0], b[:0]))
        with pytest.raises(ValueError, match="2 scores against 3"):
            correlation(b[:2], b[:3])


# --- baselines --------------------------------------------------------------------------------------------------------


def test_words_the_premise_does_not_have():
    words, sides = ["A", "red", "kite", "flies.", "a", "kite,", "soars", "..."], ["premise"] * 4 + ["hypothesis"] * 4
    assert baselines.lexical_difference(words, sides).tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert baselines.hypothesis(sides).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert baselines.every_word(3).tolist() == [1, 1, 1]


def test_random_orders_belong_to_their_seed():
    one = baselines.random(6, (0, 3))
    assert len(one) == baselines.DRAWS == 10
    assert np.array_equal(one, baselines.random(6, (0, 3)))
    assert not np.array_equal(one, baselines.random(6, (0, 4)))


# --- degraded copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "moved"), [(1, 0), (2, 2), (3, 2), (7, 4), (20, 10)])
def test_half_of_the_words_have_each_others_scores(n, moved):
    scores = np.random.default_rng(n).normal(size=n)
    before = scores.copy()
    for seed in range(20):
        copy = degraded(scores, (0, seed))
        assert sorted(copy) == sorted(scores)
        assert (copy != scores).sum() == moved  # and none of them kept its own
        assert np.array_equal(copy, degraded(scores, (0, seed)))
    assert np.array_equal(scores, before)
    if n == 20:
        places = {tuple(np.flatnonzero(degraded(scores, (0, seed)) != scores)) for seed in range(20)}
        assert len(places) == 20


def test_a_copy_lies_between_the_explanation_and_chance():
    scores = np.arange(200.0)
    taus = [kendall(degraded(scores, (seed,)), scores) for seed in range(100)]
    error = 5 * np.std(taus) / 10 + 2 / 200  # 5/12 is the limit of many words
    assert np.mean(taus) == pytest.approx(5 / 12, abs=error)
    weights = np.random.default_rng(1).normal(size=20)
    best = aopc(weights, weights=weights)[0]
    copies = [aopc(degraded(weights, (seed,)), weights=weights)[0] for seed in range(200)]
    chance = [aopc(order, weights=weights)[0] for order in baselines.random(20, (0,), draws=200)]
    spread = 5 * math.sqrt((np.var(copies) + np.var(chance)) / 200)
    assert best > max(copies)
    assert np.mean(copies) > np.mean(chance) + spread


@pytest.mark.parametrize(
    ("low", "high", "higher", "lower"),
    [
        (0.1, 0.3, True, False),
        (-0.3, -0.1, False, True),
        (-0.1, 0.3, False, False),
        (0.0, 0.0, False, False),
        (math.nan, math.nan, None, None),
    ],
)
def test_the_interval_says_whether_a_copy_ranks_lower(low, high, higher, lower):
    difference = intervals.Figure((low + high) / 2, low, high, 10)
    assert ranks_lower(difference, "higher") is higher
    assert ranks_lower(difference, "lower") is lower


# --- figures over pairs -----------------------------------------------------------------------------------------------


def rows_of(values):
    return array([intervals.summands([value]) for value in values])


def test_undefined_cases_are_left_out_and_counted():
    assert intervals.summands([1.0, math.nan, 3.0]) == (4.0, 2.0, 1.0)
    found = intervals.estimate(rows_of([1.0, math.nan, 2.0, 6.0]))
    assert (found.value, found.cases, found.undefined) == (3.0, 3, 1)
    assert found.low <= found.value <= found.high
    nothing = intervals.estimate(rows_of([math.nan, math.nan]))
    assert (nothing.cases, nothing.undefined) == (0, 2)
    assert math.isnan(nothing.value)
    assert math.isnan(nothing.low)
    assert intervals.estimate(np.zeros((0, 3))).cases == 0


def test_the_interval_of_a_mean_is_that_of_a_bootstrap():
    values = np.random.default_rng(3).normal(size=400)
    found = intervals.estimate(rows_of(values), resamples=4000)
    assert found.value == pytest.approx(values.mean())
    half = 1.96 * values.std() / 20  # the bootstrap's own standard error, normal for 400 values
    error = 5 * half * math.sqrt(2 / 4000)  # of a percentile, roughly
    assert found.low == pytest.approx(values.mean() - half, abs=error)
    assert found.high == pytest.approx(values.mean() + half, abs=error)
    constant = intervals.estimate(rows_of([0.3] * 7))
    assert (constant.low, constant.high) == pytest.approx((0.3, 0.3))


def test_differences_are_paired():
    values = np.random.default_rng(4).normal(size=50)
    found = intervals.difference(rows_of(values + 0.1), rows_of(values))
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))  # no spread is left
    with pytest.raises(ValueError, match="2 pairs against 3"):
        intervals.difference(rows_of([1.0, 2.0]), rows_of([1.0, 2.0, 3.0]))


def test_any_statistic_of_sums():
    rows = array([[1.0, 0.0], [3.0, 4.0]])
    found = intervals.estimate(rows, lambda sums: sums[..., 0] * sums[..., 1], seed=1)
    assert found.value == 16.0
    assert found.cases == 2
    assert 0 <= found.low <= found.high <= 48


def test_the_former_name_finds_the_same_modules():
    for name in [name for name in sys.modules if name.startswith("neurogame.faithfulness")]:
        del sys.modules[name]
    with pytest.warns(DeprecationWarning, match=r"now neurogame_bench\.faithfulness"):
        from neurogame.faithfulness.correlation import kendall as former
    from neurogame.faithfulness.deletion import ranking
    from neurogame.faithfulness.intervals import estimate

    assert (former, ranking, estimate) == (kendall, deletion.ranking, intervals.estimate)
