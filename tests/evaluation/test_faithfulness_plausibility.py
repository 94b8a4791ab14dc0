"""Agreement with human highlights: by hand, against scikit-learn, and against ERASER's rules written out with sets."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, f1_score, precision_recall_curve

from neurogame_bench.faithfulness import plausibility

SIDES = ["premise"] * 4 + ["hypothesis"] * 3


def marks(text):
    return np.array([letter == "1" for letter in text.replace(" ", "")], dtype=bool)


def two(draw):
    n = draw(st.integers(1, 14))
    row = st.lists(st.booleans(), min_size=n, max_size=n)
    return np.array(draw(row), dtype=bool), np.array(draw(row), dtype=bool)


pairs_of_flags = st.composite(two)()


def test_auprc_and_ap_by_hand():
    gold, scores = marks("1010"), np.array([4.0, 3.0, 2.0, 1.0])
    # P, R after each word: 1, ½ · ½, ½ · ⅔, 1 · ½, 1
    assert plausibility.average_precision(gold, scores) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert plausibility.auprc(gold, scores) == pytest.approx(0.5 * 1 + 0.5 * (0.5 + 2 / 3) / 2)
    assert plausibility.auprc(marks("0110"), np.array([1.0, 3.0, 2.0, 0.0])) == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(pairs_of_flags, st.integers(0, 100))
def test_auprc_and_ap_are_scikit_learns(given_flags, seed):
    gold = given_flags[0]
    scores = np.random.default_rng(seed).integers(-2, 3, len(gold)).astype(float)  # with ties
    if not gold.any():
        assert math.isnan(plausibility.auprc(gold, scores))
        assert math.isnan(plausibility.average_precision(gold, scores))
        return
    precision, recall, _ = precision_recall_curve(gold, scores)
    assert plausibility.auprc(gold, scores) == pytest.approx(auc(recall, precision))
    assert plausibility.average_precision(gold, scores) == pytest.approx(average_precision_score(gold, scores))


def test_trapezoids_reward_constant_scores():
    gold = marks("10000")
    assert plausibility.auprc(gold, np.ones(5)) == pytest.approx((1 + 0.2) / 2)
    assert plausibility.average_precision(gold, np.ones(5)) == pytest.approx(0.2)


def test_documents_are_sentences_or_pairs():
    gold, scores = marks("0100 001"), np.array([-1.0, 2.0, 1.0, 0.0, -3.0, -2.0, -1.0])
    first, second = plausibility.auprcs(gold, scores, SIDES)
    assert first == pytest.approx(1.0)
    assert second == pytest.approx(1.0)  # the largest of the hypothesis, though negative
    (whole,) = plausibility.auprcs(gold, scores, SIDES, "pair")
    assert whole == pytest.approx(plausibility.auprc(gold, np.array([0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0])))
    unmarked = plausibility.auprcs(marks("0000 001"), scores, SIDES)
    assert math.isnan(unmarked[0])
    assert unmarked[1] == pytest.approx(1.0)
    assert [words.tolist() for words in plausibility.documents(["hypothesis"], "document")] == [[True]]
    with pytest.raises(ValueError, match="unit = 'sentence' is unknown"):
        plausibility.documents(SIDES, "sentence")


def test_selections():
    scores = np.array([0.5, -1.0, 0.5, 2.0])
    assert plausibility.top(scores, 2).tolist() == [True, False, False, True]  # the earlier of the tied
    assert plausibility.top(scores, 9).all()
    assert not plausibility.top(scores, 0).any()
    assert plausibility.top(scores, 4, positive=True).tolist() == [True, False, True, True]
    assert plausibility.select(scores, "share", percent=26).sum() == 2  # ⌈1.04⌉
    assert plausibility.select(scores, "share", percent=25).sum() == 1
    assert plausibility.select(scores, "size", size=3).sum() == 3
    assert plausibility.select(scores, "positive").tolist() == [True, False, True, True]
    with pytest.raises(ValueError, match="rule = 'best' is unknown; allowed: 'share', 'size', 'positive'"):
        plausibility.select(scores, "best")


def test_what_people_mark_on_average():
    golds = [marks("1000"), marks("11"), marks("000"), marks("111000")]
    assert plausibility.mean_share(golds) == pytest.approx(100 * (0.25 + 1 + 0 + 0.5) / 4)
    sizes = plausibility.mean_sizes(golds, ["neutral", "neutral", "contradiction", None])
    assert sizes == {"neutral": 2, "contradiction": 1, None: 3}  # round(1.5) is 2, and no selection is empty


def test_token_f1_by_hand():
    assert plausibility.token_f1(marks("1100"), marks("0110")) == pytest.approx(0.5)
    assert plausibility.token_f1(marks("0000"), marks("0110")) == 0.0
    assert plausibility.token_f1(marks("0110"), marks("0000")) == 0.0
    assert math.isnan(plausibility.token_f1(marks("00"), marks("00")))
    assert plausibility.token_iou(marks("1100"), marks("0110")) == pytest.approx(1 / 3)
    assert math.isnan(plausibility.token_iou(marks("00"), marks("00")))


@settings(max_examples=40, deadline=None)
@given(pairs_of_flags)
def test_token_f1_is_scikit_learns(given_flags):
    selected, gold = given_flags
    if not (selected | gold).any():
        assert math.isnan(plausibility.token_f1(selected, gold))
        return
    assert plausibility.token_f1(selected, gold) == pytest.approx(f1_score(gold, selected, zero_division=0))


def test_micro_f1_pools_the_words():
    documents = [(marks("1100"), marks("0110")), (marks("00"), marks("11")), (marks("0"), marks("0"))]
    sums = np.sum([plausibility.overlap(*document) for document in documents], axis=0).astype(float)
    selected, gold = (np.concatenate(rows) for rows in zip(*documents, strict=True))
    assert plausibility.micro_f1(sums) == pytest.approx(f1_score(gold, selected))
    assert plausibility.micro_f1(np.stack([sums, 0 * sums])).tolist() == pytest.approx(
        [float(f1_score(gold, selected)), 0]
    )


def test_spans():
    assert plausibility.spans(marks("0110010")) == [(1, 3), (5, 6)]
    assert plausibility.spans(marks("111")) == [(0, 3)]
    assert plausibility.spans(marks("000")) == []


def test_spans_match_from_half_on():
    gold = marks("0110000")
    assert plausibility.span_hits(marks("0100000"), gold) == (1, 1, 1)  # IOU ½
    assert plausibility.span_hits(marks("0011000"), gold) == (0, 1, 1)  # ⅓
    assert plausibility.span_hits(marks("0111010"), gold) == (1, 2, 1)
    assert plausibility.span_hits(marks("0000000"), gold) == (0, 0, 1)
    assert plausibility.span_hits(gold, marks("0000000")) == (0, 1, 0)
    assert plausibility.span_hits(marks("0011000"), gold, threshold=0.3) == (1, 1, 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(pairs_of_flags, min_size=1, max_size=5))
def test_iou_f1_is_erasers(documents):
    """ERASER's `partial_match_score`, with sets of positions."""

    def runs(row):
        positions, found = [i for i, flag in enumerate(row) if flag], []
        for i in positions:
            if found and i - 1 in found[-1]:
                found[-1].add(i)
            else:
                found.append({i})
        return found

    hits = [
        sum(any(len(p & t) / len(p | t) >= 0.5 for t in runs(gold)) for p in runs(selected))
        for selected, gold in documents
    ]
    precisions = [h / len(runs(s)) for h, (s, _) in zip(hits, documents, strict=True) if runs(s)]
    recalls = [h / len(runs(g)) for h, (_, g) in zip(hits, documents, strict=True) if runs(g)]
    P, R = (sum(found) / len(found) if found else 0.0 for found in (precisions, recalls))
    expected = 2 * P * R / (P + R) if P + R else 0.0
    ours = [plausibility.span_hits(s, g) for s, g in documents]
    rows = [(h / p if p else 0, p > 0, h / t if t else 0, t > 0) for h, p, t in ours]
    found = plausibility.iou_f1(np.array(rows, dtype=float).sum(0))
    assert found == pytest.approx(expected)


def test_ferret_selects_five_positive_words():
    scores = np.array([5.0, 4, 3, 2, 1, 0.5, -1])
    chosen = plausibility.top(scores, plausibility.FERRET_SIZE, positive=True)
    assert plausibility.token_f1(chosen, marks("1110000")) == pytest.approx(2 * 3 / 8)
    assert plausibility.top(-scores, plausibility.FERRET_SIZE, positive=True).tolist() == [False] * 6 + [True]
