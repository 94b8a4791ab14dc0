"""Method "presence": slopes of a game whose words fade, against finite differences, Owen's theorem and the model."""

import pytest
import tiny
import torch
from kinds import LONG, SHORT, system
from torch import nn

from neurogame.explanation.methods import slopes
from neurogame.explanation.reading import Question, read
from neurogame.nli import NLI

ADDITIVE = ["neurogame", "mean", "softmax", "hopfield", "budget"]


@pytest.fixture(scope="module")
def nli():
    return system()


def value(nli, pair, *points, target="neutral", contrast=None):
    with torch.inference_mode():
        return slopes.value(read(nli, *pair, "word"), Question(target, contrast), torch.stack(points).double())


@pytest.mark.parametrize("kind", ADDITIVE)
def test_words_that_are_all_there_give_the_models_logit(kind):
    nli = system(kind)
    said = nli.predict(*SHORT).logits["neutral"]
    assert float(value(nli, SHORT, torch.ones(8))) == pytest.approx(said, abs=1e-5)
    assert nli.explain(*SHORT, method="presence").diagnostics["logit_error"] < 1e-5


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_encoders_of_every_family_let_words_fade(family):
    """A word at 1e-9 is one that attention does not see: the others are as under a hard mask."""
    nli = NLI(tiny.model("mean", family=family), tiny.tokenizer(family), name="tiny")
    assert slopes.fades(nli.model)
    reading = read(nli, *SHORT, "word")
    gone = reading.units.members[2].bool()
    with torch.inference_mode():
        inputs = {**reading.inputs, "attention_mask": (~gone).long().unsqueeze(0)}
        hard = nli.model.encoder(**inputs)[0][0, ~gone]
        inputs["attention_mask"] = torch.where(gone, 1e-9, 1.0).log()[None, None, None].expand(1, 1, len(gone), -1)
        soft = nli.model.encoder(**inputs)[0][0, ~gone]
    assert soft == pytest.approx(hard, abs=1e-5)
    assert nli.explain(*SHORT, method="presence").diagnostics["logit_error"] < 1e-4


def test_slopes_are_finite_differences(nli):
    reading, question = read(nli, *SHORT, "word"), Question("neutral")
    step, at = 1e-2, torch.full((8,), 0.5).double()
    found = slopes.presence(reading, question).banzhaf
    for i in range(8):
        shift = step * torch.eye(8)[i].double()
        up, down = value(nli, SHORT, at + shift, at - shift).tolist()
        assert float(found[i]) == pytest.approx((up - down) / (2 * step), abs=2e-3)


def test_more_steps_close_the_gap(nli):
    coarse, fine = (nli.explain(*LONG, method="presence", samples=steps).diagnostics for steps in (2, 24))
    assert fine["efficiency_gap"] < 1e-3 * max(1.0, abs(fine["total"]))
    assert fine["efficiency_gap"] <= coarse["efficiency_gap"]


def test_a_linear_game_has_its_coefficients(nli, monkeypatch):
    """Owen: of a multilinear v the slopes on the diagonal are Shapley and Banzhaf values; of a linear one, its own."""
    coefficients = torch.linspace(-1, 2, 8).double()
    monkeypatch.setattr(slopes, "value", lambda reading, question, m: m @ coefficients)
    found = slopes.presence(read(nli, *SHORT, "word"), Question("neutral"))
    assert found.banzhaf == pytest.approx(coefficients)
    assert found.shapley == pytest.approx((1 - slopes.FADED) * coefficients)


def test_a_product_of_two_is_shared(nli, monkeypatch):
    """v = m_0 m_1: ∫ t dt for both, from FADED to 1, and ½ at the middle; the others have nothing."""
    monkeypatch.setattr(slopes, "value", lambda reading, question, m: m[:, 0] * m[:, 1])
    found = slopes.presence(read(nli, *SHORT, "word"), Question("neutral"))
    share = (1 - slopes.FADED**2) / 2
    assert found.shapley == pytest.approx(torch.tensor([share, share, 0, 0, 0, 0, 0, 0]).double())
    assert found.banzhaf[:3] == pytest.approx(torch.tensor([0.5, 0.5, 0.0]).double())


def test_without_attention_only_the_pooled_terms_fade():
    """On an encoder that lets tokens see only themselves (no layers), v(m) is the classifier of Σ m_i c_i."""
    nli = system("mean")
    nli.model.encoder.encoder.layer = nn.ModuleList()
    reading = read(nli, *SHORT, "word")
    with torch.inference_mode():
        terms = nli.model.pooling.terms(reading.states, reading.pooled.weights)[0]
    m = torch.rand(3, 8, generator=torch.Generator().manual_seed(0)).double()
    tokens = (m @ reading.units.members.double() + (reading.units.unit_of < 0)).float()
    with torch.inference_mode():
        expected = nli.model.classifier(tokens @ terms)[:, nli.labels.index("neutral")]
    assert value(nli, SHORT, *m) == pytest.approx(expected.double(), abs=1e-5)


def test_it_costs_the_same_for_any_number_of_words(nli):
    passes = [nli.explain(*pair, method="presence").diagnostics["encoder_passes"] for pair in (SHORT, LONG)]
    assert passes[0] == passes[1] <= slopes.POINTS + 5
