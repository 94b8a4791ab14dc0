"""The pair data set: a sequence, its subsets, and the record of what was dropped."""

import hashlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neurogame.data.pairs import DataError, Malformed, Pair, PairDataset, concatenate, order

LABELS = ("entailment", "neutral", "contradiction")


def numbered(count, name="numbers", **record):
    return PairDataset(tuple(Pair(f"p{i}", f"h{i}", LABELS[i % 3]) for i in range(count)), name, "here", **record)


def test_is_a_sequence():
    data = numbered(5)
    assert len(data) == 5
    assert data[-1].premise == "p4"
    assert [pair.premise for pair in data] == ["p0", "p1", "p2", "p3", "p4"]
    assert isinstance(data[1:3], PairDataset)
    assert data[1:3].pairs == data.pairs[1:3]
    assert data[0] in data
    with pytest.raises(IndexError):
        data[5]


def test_pairs_are_hashable_and_picklable():
    pair = Pair("a", "b", "neutral", {"list": [1]})
    assert hash(pair) == hash(Pair("a", "b", "neutral"))
    data = numbered(3)
    assert data.counts  # cached values must not break the round trip
    assert pickle.loads(pickle.dumps(data)) == data


def test_counts_follow_the_order_of_the_labels():
    data = PairDataset((Pair("a", "b", "contradiction"), Pair("a", "c", "entailment"), Pair("a", "d")))
    assert list(data.counts.items()) == [("entailment", 1), ("contradiction", 1)]
    assert data.labels == ("entailment", "contradiction")


def test_fingerprint_sees_text_label_and_order_only():
    data = numbered(4)
    assert data.fingerprint == numbered(4, name="other").fingerprint
    assert len(data.fingerprint) == 64
    changed = [
        data[:3],
        data.shuffled(1),
        PairDataset((Pair("p0", "h0", "neutral"), *data.pairs[1:])),
        PairDataset((Pair("p0h", "0", "entailment"), *data.pairs[1:])),
    ]
    assert len({data.fingerprint, *(other.fingerprint for other in changed)}) == 5


def test_fingerprint_is_stable():
    """Cards cite it: it must not change between versions."""
    expected = hashlib.sha256(b'["\\u00e9", "b", null]\n').hexdigest()
    assert PairDataset((Pair("é", "b"),)).fingerprint == expected


@given(st.integers(0, 40), st.integers(0, 10))
def test_order_is_a_permutation(count, seed):
    assert sorted(order(count, seed)) == list(range(count))


def test_order_is_fixed_by_the_seed():
    assert order(6, 0) == [3, 5, 2, 4, 1, 0]  # the sequence of random.Random(0).random(), which Python promises
    assert order(50, 1) != order(50, 2)


def test_take():
    data = numbered(30)
    assert data.take(None) is data
    assert data.take(4) == data[:4]
    assert len(data.take(99)) == 30
    some = data.take(5, seed=3)
    assert some == data.take(5, seed=3) != data.take(5, seed=4)
    positions = [data.pairs.index(pair) for pair in some]
    assert positions == sorted(set(positions))
    with pytest.raises(DataError, match="-1"):
        data.take(-1)


@given(st.integers(2, 50), st.floats(0.01, 0.99), st.integers(0, 5))
def test_split_is_a_partition(count, fraction, seed):
    data = numbered(count)
    if not 0 < round(fraction * count) < count:
        with pytest.raises(DataError, match="one part empty"):
            data.split(fraction, seed)
        return
    rest, held = data.split(fraction, seed)
    assert len(held) == round(fraction * count)
    assert sorted([*rest, *held], key=data.pairs.index) == list(data)
    assert [*rest] == sorted(rest, key=data.pairs.index)


@pytest.mark.parametrize("fraction", [0, 1, -0.2, 1.5, float("nan")])
def test_split_needs_a_fraction(fraction):
    with pytest.raises(DataError, match="between 0 and 1"):
        numbered(10).split(fraction, 0)


def test_filter_and_concatenate():
    neutral = numbered(9).filter(lambda pair: pair.label == "neutral")
    assert neutral.labels == ("neutral",)
    bad = Malformed("file", 3, "empty premise")
    both = concatenate("both", [numbered(2, without_gold=3), PairDataset(neutral.pairs, "n", "there", 1, (bad,))])
    assert (len(both), both.name, both.source) == (5, "both", "here + there")
    assert (both.without_gold, both.malformed) == (4, (bad,))
    assert str(bad) == "file:3: empty premise"


def test_summary():
    bad = tuple(Malformed("f", i, "x") for i in range(2))
    data = numbered(4, name="snli/dev", without_gold=158, malformed=bad)
    assert data.summary() == (
        "snli/dev: 4 pairs (entailment 2, neutral 1, contradiction 1), "
        "158 without gold label dropped, 2 malformed rows skipped"
    )
    assert PairDataset((Pair("a", "b"),), "x").summary() == "x: 1 pair (unlabelled)"
    assert "unlabelled 1" in PairDataset((Pair("a", "b"), Pair("a", "b", "neutral")), "x").summary()


# found by the fuzzer
def test_seeds_are_numbers_and_errors_one_line():
    with pytest.raises(TypeError, match=r"seed must be a whole number, got \[1\]$"):
        PairDataset((Pair("a", "b"),)).shuffled([1])
    assert str(DataError("a\nb does not exist")) == "a\\u000ab does not exist"
