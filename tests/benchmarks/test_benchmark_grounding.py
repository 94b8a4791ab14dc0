"""benchmarks/grounding.py: its sums against the library's own figures, a tiny run of every part, the page."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch

from neurogame import exact
from neurogame.data import Pair, PairDataset
from neurogame.explanation.reading import is_grounded
from neurogame.explanation.removal import evaluate
from neurogame.grounding import r_squared
from neurogame.nli import NLI
from neurogame_bench.grounding import claims, figures, phrases, r2, refined
from neurogame_bench.grounding.attached import BlackBox
from neurogame_bench.grounding.bench import Bench, coalitions
from neurogame_bench.grounding.parts import PARTS, measure
from neurogame_bench.pages import markers
from neurogame_bench.study import Study

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")
LIMITS = {"r2": 3, "enumeration": 1, "refined": 1, "refined_large": 0, "rationale": 2, "cost": 2}
LIMITS |= {"second_order": 2, "claims": 3, "phrases": 12}


@pytest.fixture
def grounding(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("grounding")


@pytest.fixture
def bench():
    pairs = tuple(Pair(p, h) for p, h in tiny.PAIRS)
    nli = NLI(tiny.game_model(), tiny.tokenizer(), name="tiny")
    return Bench(nli, PairDataset(pairs, "tiny", "tests"))


def test_pearson_of_moments_is_that_of_all_words(random):
    x, y = random(0, 30), random(1, 30)
    y = y + x
    rows = np.array([figures.moments(x[a : a + 10], y[a : a + 10]) for a in (0, 10, 20)])
    expected = np.corrcoef(x.numpy(), y.numpy())[0, 1]
    assert figures.pearson(rows.sum(0)) == pytest.approx(expected)
    assert np.isnan(figures.pearson(np.array(figures.moments(x, torch.ones(30)))))


def test_r2_of_summed_squares_is_that_of_the_library(random):
    said, base = random(0, 12, 3), random(2, 3)
    predicted = [said + 0.1 * (k + 1) * random(k + 3, 12, 3) for k in range(len(r2.ACCOUNTS))]
    parts = [slice(0, 5), slice(5, 12)]
    sums = np.array([r2._squares([p[at] for p in predicted], said[at], base) for at in parts]).sum(0)
    for name, guess in zip(r2.ACCOUNTS, predicted, strict=True):
        assert r2.about_base(name)(sums) == pytest.approx(r_squared(guess, said, base))
        assert r2.about_mean(name)(sums) == pytest.approx(r_squared(guess, said))


def test_accounts_of_a_game_whose_heads_are_linear_are_the_game(bench):
    """Anchors far beyond every V: no interactions, so that nothing is lost without them."""
    _, game = bench.reading(bench.dev[1])
    far = game.anchor + 1e4 * torch.nn.functional.normalize(game.anchor, dim=-1)
    linear = type(game)(game.V.double(), far.double(), game.R.double(), game.base.double())
    found = r2.accounts(linear, exact.all_coalitions(linear.players))
    for account in found.values():
        torch.testing.assert_close(account, found["game"], atol=2e-3, rtol=0)


def test_a_recalled_answer_is_the_model_s(bench):
    pair = bench.dev[0]
    recalled = refined.Recalled(bench.nli)
    readings = [Bench(nli, bench.dev).reading(pair)[0] for nli in (bench.nli, recalled)]
    C = coalitions("uniform", len(readings[0].units.read), 12, (0, 0))
    truth, first = (evaluate(reading, C) for reading in readings)
    known = len(recalled.known)
    again = evaluate(readings[1], C.flip(0)).flip(0)
    torch.testing.assert_close(first, truth)
    torch.testing.assert_close(again, truth)
    assert len(recalled.known) == known == len(C.unique(dim=0))


def test_a_black_box_says_what_the_model_says_and_shows_no_game(bench):
    model = tiny.game_model()
    model.set_attn_implementation("sdpa")  # what a model that is opened usually has
    hidden = NLI(BlackBox(model).eval(), tiny.tokenizer(), name="tiny")
    pair = bench.dev[0].premise, bench.dev[0].hypothesis
    assert hidden.predict(*pair).logits == pytest.approx(bench.nli.predict(*pair).logits, abs=1e-5)
    assert is_grounded(bench.nli.model)
    assert not is_grounded(hidden.model)


@pytest.mark.parametrize("part", list(PARTS))
def test_each_part_runs_and_goes_on_where_it_stopped(bench, tmp_path, part, monkeypatch):
    pytest.importorskip("captum")
    monkeypatch.setattr(refined, "REFERENCE", 600)

    def study(settings):
        return Study("grounding/tiny", settings, tmp_path / "results", tmp_path / "runs")

    first = measure(bench, part, LIMITS, study)
    assert first["pairs"] == LIMITS[part] or part in ("enumeration", "refined", "claims")
    assert PARTS[part].table(first)
    monkeypatch.setattr(Bench, "reading", None)  # nothing is asked of the model again
    monkeypatch.setattr(Bench, "explain", None)
    assert measure(bench, part, LIMITS, study) == first


def test_the_page_has_every_part_and_says_what_was_met(grounding, bench, tmp_path, monkeypatch):
    page = import_module("grounding_page")
    results = tmp_path / "grounding.json"

    def study(settings):
        return Study("grounding/tiny", settings, tmp_path, tmp_path / "runs")

    head = {"machine": {}, "protocol": {"source": "readout", "weights": 1, "data": "tiny"}}
    for part in ("r2", "cost"):
        grounding.publish(results, "readout", head, part, measure(bench, part, LIMITS, study))
    whole = json.loads(results.read_text())
    assert list(whole["readout"]["parts"]) == ["r2", "cost"]
    whole["accuracy"] = {"shipped": 0.848, "grounded": 0.842}
    results.write_text(json.dumps(whole))
    path = tmp_path / "page.md"
    path.write_text("before\n{}\nold\n{}\nafter\n".format(*markers(page.NAME)))
    monkeypatch.setattr(sys, "argv", ["grounding_page.py", "--results", str(results), "--page", str(path)])
    page.main()
    text = path.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| ≥ −0.5 | −.600, **missed** |" in text.replace("−.500", "−0.5")
    assert "**met**" in text or "**missed**" in text
    assert "not measured" in text  # enumeration
    other = {**head, "protocol": {**head["protocol"], "weights": 2}}
    grounding.publish(results, "readout", other, "cost", whole["readout"]["parts"]["cost"])
    assert list(json.loads(results.read_text())["readout"]["parts"]) == ["cost"]  # of the other model
    assert "accuracy" in json.loads(results.read_text())


def test_counts_of_pairs(grounding):
    found = grounding.counts(["20", "r2=40"])
    assert found["r2"] == 40
    assert found["rationale"] == 20
    assert found["refined_large"] == 20
    for wrong in ("x=3", "r2=", "0"):
        with pytest.raises(SystemExit):
            grounding.counts([wrong])


def test_signs_of_modifiers_are_told_from_planted_couplings():
    """Adjectives that "not" repels and "very" attracts; then the other way round."""

    def rows(of_not, of_very):
        return [
            {"modifier": modifier, "adjective": f"a{k}", "J": J + 0.01 * k, "neighbours": 0.5, "all": 0.1}
            for modifier, J in (("not", of_not), ("very", of_very))
            for k in range(20)
        ]

    as_claimed = phrases.summary(rows(-1.0, 1.0))
    assert as_claimed["found"] == "found"
    assert as_claimed["modifiers"]["not"]["negative"] == as_claimed["adjectives"] == 20
    assert as_claimed["modifiers"]["very"]["value"] == pytest.approx(1.095)
    assert phrases.summary(rows(1.0, 1.0))["found"] == "the opposite found"
    assert phrases.summary(rows(-0.1, 1.0))["found"] == "not found"
    assert phrases.summary(rows(-1.0, 1.0)[:20])["found"] is None  # no "very"


def test_couplings_of_neutral_pairs_are_compared_at_equal_length():
    """Neutral pairs are longer, and J grows with length; at equal length they have half of it."""
    rows = [
        {"gold": label, "words": words, "strength": words * (0.5 if label == "neutral" else 1.0)}
        for words, labels in ((10, "ec"), (20, "en"), (30, "nc"))
        for label in ({"e": "entailment", "n": "neutral", "c": "contradiction"}[c] for c in labels)
        for _ in range(20)
    ]
    found = claims._of_neutral(rows)
    assert found["high"] < -0.2
    assert claims._of_neutral(rows[:20])["value"] is None  # no neutral pair


def test_steps_are_counted_where_the_mean_field_ended():
    quick, slow, never = ({"steps": steps} for steps in (8, 40, None))
    assert claims._of_steps([quick] * 19 + [slow])["found"] == "found"
    assert claims._of_steps([quick] * 18 + [slow, never])["found"] == "the opposite found"
    assert claims._of_steps([quick] * 3)["found"] == "too few pairs"
