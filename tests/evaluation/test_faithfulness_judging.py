"""All metrics of a pair: against the model asked by hand, and which inputs they ask for."""

import math
from itertools import pairwise

import numpy as np
import pytest
import tiny
import torch

from neurogame.explanation.reading import read
from neurogame.nli import NLI
from neurogame_bench.explanations import work
from neurogame_bench.faithfulness import deletion, judging
from neurogame_bench.faithfulness.coalitions import Answers


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


def test_a_pair_by_hand(nli):
    """Each metric of a ranking from single forward passes on inputs written out by hand."""
    premise, hypothesis = tiny.PAIRS[1]
    tok, words = nli.tokenizer, [premise.split(), hypothesis.split()]
    n = len(words[0]) + len(words[1])
    scores = np.random.default_rng(0).normal(size=n)
    order = np.argsort(-scores)

    def p(keep, mask=False, pad=False):
        sides, seen, place = [], [], 0
        for side in words:
            ids = [tok.convert_tokens_to_ids(word) for word in side]
            kept = [(i, place + k in keep) for k, i in enumerate(ids)]
            sides.append([i if stays or pad else tok.mask_token_id for i, stays in kept if stays or mask or pad])
            seen.append([int(stays or mask) for _, stays in kept if stays or mask or pad])
            place += len(side)
        ids = [tok.cls_token_id, *sides[0], tok.sep_token_id, *sides[1], tok.sep_token_id]
        segments = [0] * (len(sides[0]) + 2) + [1] * (len(sides[1]) + 1)
        attended = torch.tensor([[1, *seen[0], 1, *seen[1], 1]])
        with torch.no_grad():
            inputs = {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([segments])}
            found = nli.model(**inputs, attention_mask=attended).logits
        return found.double().softmax(-1)[0].numpy()

    everything = set(range(n))
    y = int(p(everything).argmax())
    full, empty = p(everything)[y], p(set())[y]
    reading = read(nli, premise, hypothesis, "word")
    answers = {mode: work.answers(reading, mode) for mode in ("delete", "mask", "pad")}
    subject = judging.Subject(p(everything), **answers, gold=1, percent=30.0)
    judged = judging.by_deletion(scores, subject)
    found = {name: row[0] for name, row in judged.items()}
    ks = [math.ceil(n * b / 100) for b in (1, 5, 10, 20, 50)]
    tops = [set(order[:k].tolist()) for k in ks]
    close = pytest.approx
    assert found["comprehensiveness"] == close(np.mean([full - p(everything - top)[y] for top in tops]), abs=1e-5)
    assert found["sufficiency"] == close(np.mean([full - p(top)[y] for top in tops]), abs=1e-5)
    masked = [p(everything - top, mask=True)[y] for top in tops]
    assert found["comprehensiveness, mask"] == close(np.mean(full - np.array(masked)), abs=1e-5)
    kept = [p(top, mask=True)[y] for top in tops]
    assert found["sufficiency, mask"] == close(np.mean(full - np.array(kept)), abs=1e-5)
    padded, alone = ([p(keep, pad=True)[y] for keep in kept] for kept in ([everything - top for top in tops], tops))
    assert found["comprehensiveness, pad"] == close(np.mean(full - np.array(padded)), abs=1e-5)
    assert found["sufficiency, pad"] == close(np.mean(full - np.array(alone)), abs=1e-5)
    assert abs(found["comprehensiveness, pad"] - found["comprehensiveness"]) > 1e-4  # positions differ
    firsts = [set(order[:k].tolist()) for k in range(n + 1)]
    gone, here = [p(everything - first)[y] for first in firsts], [p(first)[y] for first in firsts]
    assert found["deletion auc"] == close(np.mean([(a + b) / 2 for a, b in pairwise(gone)]), abs=1e-5)
    assert found["insertion auc"] == close(np.mean([(a + b) / 2 for a, b in pairwise(here)]), abs=1e-5)
    ferret = [set(order[:k].tolist()) for k in deletion.sizes(scores, "ferret")]
    assert found["sufficiency, ferret"] == close(np.mean([full - p(top)[y] for top in ferret]), abs=1e-5)
    if full > empty:
        comp = np.mean([np.clip((full - p(everything - top)[y]) / (full - empty), 0, 1) for top in tops])
        assert found["normalised comprehensiveness"] == close(comp, abs=1e-3)
    labels = [int(p(everything - set(order[:k].tolist())).argmax()) for k in range(1, n + 1)]
    flip = next((k / n for k, label in enumerate(labels, 1) if label != y), 1.0)
    assert found["decision flip"] == close(flip)
    alone = np.array([p(everything - {i})[y] for i in range(n)])
    assert found["tau_loo"] == close(deletion.tau_loo(scores, full, alone), abs=1e-3)
    gone = p(everything - set(order[: math.ceil(0.3 * n)].tolist()))
    assert found["comprehensiveness, human share"] == close(full - gone[y], abs=1e-5)
    whole = p(everything)
    change = -(whole * np.log(whole)).sum() + (gone * np.log(gone)).sum()
    assert found["comprehensiveness, entropy change"] == close(change, abs=1e-4)
    assert found["comprehensiveness, kl"] == close((gone * np.log(gone / whole)).sum(), abs=1e-4)
    counts = judged["auc_tp"].reshape(11, 3, 3)
    for step, k in enumerate(deletion.steps(n)):
        said = int(p(everything - set(order[:k].tolist()), mask=True).argmax())
        assert counts[step].tolist() == (np.arange(9) == 3 + said).reshape(3, 3).astype(float).tolist()


class Counted(Answers):
    """A model of two labels that counts words, and how often it is asked."""

    def __init__(self):
        self.calls = 0
        super().__init__(self.evaluate)

    def evaluate(self, keep):
        self.calls += 1
        return np.stack([keep.mean(1), 1 - keep.mean(1)], 1)


FAMILIES = [("aopc",), *(("aopc", family) for family in judging.FAMILIES[1:]), judging.FAMILIES]


@pytest.mark.parametrize("families", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_everything_is_asked_beforehand(seed, families):
    """What `asked` lists is all that `by_deletion` looks at, and no family asks for the inputs of another."""
    scores = np.random.default_rng(seed).normal(size=20)
    subject = judging.Subject(np.array([1.0, 0.0]), Counted(), Counted(), gold=0, percent=33.0, pad=Counted())
    wanted = judging.asked(scores, 33.0, families)
    for ask, keep in zip((subject.delete, subject.mask, subject.pad), wanted, strict=True):
        if len(keep):
            ask(keep)
    rows = judging.by_deletion(scores, subject, families)
    assert subject.delete.calls == 1
    assert subject.mask.calls == ("mask" in families)
    assert subject.pad.calls == ("pad" in families)
    assert len(subject.pad) == (8 if "pad" in families else 0)
    assert (len(subject.delete) <= 9) == (families in (("aopc",), ("aopc", "mask"), ("aopc", "pad")))
    if families == ("aopc", "auc"):
        assert len(subject.delete) == 39  # 20 deletions, 19 insertions; the whole is known
    assert ("tau_loo" in rows) == ("left out" in families)
    assert ("decision flip" in rows) == ("curve" in families)
    assert ("auc_tp" in rows) == ("mask" in families)
    assert ("sufficiency, pad" in rows) == ("pad" in families)
    assert ("deletion auc" in rows) == ("insertion auc" in rows) == ("auc" in families)
    if "auc" in families:
        assert (rows["deletion auc"][0], rows["insertion auc"][0]) == pytest.approx((0.5, 0.5))
    if "curve" in families:
        assert rows["comprehensiveness, human share"][0] == pytest.approx(7 / 20)  # ⌈6.6⌉ words
        assert rows["sufficiency, human share"][0] == pytest.approx(13 / 20)
        assert rows["sufficiency, kl"].tolist() == [0, 0, 1]  # infinite: counted, not averaged
    if "left out" in families:
        assert rows["tau_loo"].tolist() == [0, 0, 1]  # all words weigh the same
