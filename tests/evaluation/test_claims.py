"""The studies behind docs/results.md: intervals and verdicts against closed forms, phrases, and runs that are kept."""

import json
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from neurogame_bench.intervals import resampled

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture
def effects(_importable):
    return import_module("neurogame_bench.effects")


@pytest.fixture
def phrases(_importable):
    return import_module("neurogame_bench.phrases")


@pytest.fixture
def study(_importable, tmp_path):
    module = import_module("neurogame_bench.study")
    return module.Study("tiny", {"pairs": 3}, tmp_path / "results", tmp_path / "runs")


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_packed_answers_come_back(effects, count):
    correct = np.random.default_rng(count).random(count) < 0.6
    assert (effects.unpacked(effects.packed(correct), count) == correct).all()


def test_t_interval_of_three_seeds(effects):
    low, high = effects.t_interval([0.0, 1.0, 2.0])
    assert (low + high) / 2 == pytest.approx(1.0)
    assert (high - low) / 2 == pytest.approx(4.302653 / 3**0.5, rel=1e-6)  # t_{.975, 2}
    assert effects.t_interval([0.5]) is None


def test_bootstrap_has_the_width_of_the_standard_error(effects):
    values = np.random.default_rng(0).normal(size=4000)
    low, high = effects.bootstrap(values)
    error = values.std() / 4000**0.5
    assert low < values.mean() < high
    assert (high - low) / (2 * 1.96 * error) == pytest.approx(1.0, abs=5 / effects.RESAMPLES**0.5)


def test_what_a_cluster_repeats_adds_nothing(effects):
    values = np.random.default_rng(1).normal(size=40)
    thrice = np.repeat(values, 3)
    clusters = np.repeat(np.arange(40), 3)
    assert effects.bootstrap(thrice, clusters) == pytest.approx(effects.bootstrap(values))
    naive = effects.bootstrap(thrice)
    honest = effects.bootstrap(thrice, clusters)
    assert naive[1] - naive[0] < honest[1] - honest[0]


def test_gap_by_hand(effects):
    first, second = np.array([2.0, 4.0]), np.array([0.0, 1.0, 2.0])
    found = effects.gap(first, second)
    assert found["difference"] == pytest.approx(2.0)
    assert found["d"] == pytest.approx(2.0 / (4.0 / 3.0) ** 0.5)  # pooled variance (2 + 2)/3
    assert found["interval"][0] <= 2.0 <= found["interval"][1]
    shifted = effects.gap(first + 7, second + 7)
    assert shifted["interval"] == pytest.approx(found["interval"])


def test_compared_is_paired_and_antisymmetric(effects):
    draw = np.random.default_rng(2)
    base = {seed: draw.random(500) < 0.6 for seed in (0, 1, 2)}
    better = {seed: right | (draw.random(500) < 0.3) for seed, right in base.items()}
    found, mirrored = effects.compared(better, base), effects.compared(base, better)
    assert found["difference"] == pytest.approx(np.mean([better[s].mean() - base[s].mean() for s in base]))
    assert found["effect"] == "raises accuracy"
    assert mirrored["effect"] == "lowers accuracy"
    assert mirrored["difference"] == pytest.approx(-found["difference"])
    assert effects.compared(base, base)["difference"] == 0
    assert effects.compared(base, base)["effect"] == effects.NOTHING


def test_few_seeds_are_not_judged_and_no_common_seed_is_no_comparison(effects):
    right, wrong = np.ones(100, dtype=bool), np.zeros(100, dtype=bool)
    assert effects.compared({0: right}, {0: wrong})["effect"] == effects.FEW
    assert effects.compared({0: right, 1: right}, {0: wrong, 1: wrong})["effect"] == effects.FEW
    assert effects.compared({0: right}, {1: wrong}) is None


@pytest.mark.parametrize(
    ("interval", "claimed", "found"),
    [
        ((0.1, 0.2), +1, "holds"),
        ((-0.2, -0.1), +1, "does not hold"),
        ((-0.2, -0.1), -1, "holds"),
        ((0.1, 0.2), -1, "does not hold"),
        ((-0.1, 0.2), +1, "no measurable effect"),
        ((0.0, 0.2), +1, "no measurable effect"),
        (None, -1, "no measurable effect"),
    ],
)
def test_verdicts(effects, interval, claimed, found):
    assert effects.verdict(interval, claimed) == found


def test_a_claim_of_two_parts_needs_both(effects):
    holds, fails, nothing = effects.HOLDS, effects.FAILS, effects.NOTHING
    assert effects.together([holds, holds]) == holds
    assert effects.together([holds, nothing]) == nothing
    assert effects.together([nothing, fails, holds]) == fails


def test_sign_test_is_the_binomial_one(effects):
    assert effects.sign_test([1, 2, 3, 4, 5, 0]) == {"positive": 5, "negative": 0, "p": pytest.approx(2 / 2**5)}
    assert effects.sign_test([0.0])["p"] == 1.0


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_percentile_ranks_go_by_size_and_share_ties(effects):
    assert effects.percentile_ranks(np.array([3.0, -5.0, 1.0])).tolist() == [0.5, 0.0, 1.0]
    assert effects.percentile_ranks(np.array([2.0, 2.0, 1.0])).tolist() == [0.25, 0.25, 1.0]
    assert effects.percentile_ranks(np.array([4.0])).tolist() == [0.0]


def test_relative_takes_the_length_out(effects):
    draw = np.random.default_rng(3)
    by = draw.integers(5, 40, size=3000)
    factor = draw.choice([0.8, 1.2], size=3000)
    found = effects.relative(factor * by**2, by)
    assert found.mean() == pytest.approx(1.0)
    assert found[factor > 1].mean() - found[factor < 1].mean() == pytest.approx(0.4, abs=0.03)
    assert abs(np.corrcoef(found, by)[0, 1]) < 0.05
    assert effects.relative(np.arange(1.0, 6.0), np.full(5, 7)).mean() == pytest.approx(1.0)


def test_spearman_is_scipys(effects):
    from scipy.stats import spearmanr

    x, y = np.random.default_rng(5).integers(0, 9, size=(2, 60)).astype(float)
    found = effects.spearman(x, y, np.ones(60))
    assert found[0, 1] == pytest.approx(spearmanr(x, y).statistic)
    assert found[0, 2] == 0  # a constant goes with nothing
    assert effects.partial_spearman(x, y, x) == 0


def test_partial_spearman_is_the_correlation_of_residual_ranks(effects):
    draw = np.random.default_rng(4)
    z = draw.normal(size=300)
    x, y = z + draw.normal(size=300), np.exp(z) + draw.normal(size=300)
    rank = [np.argsort(np.argsort(of)).astype(float) for of in (x, y, z)]
    design = np.stack([np.ones(300), rank[2]], 1)
    left = [of - design @ np.linalg.lstsq(design, of, rcond=None)[0] for of in rank[:2]]
    assert effects.partial_spearman(x, y, z) == pytest.approx(np.corrcoef(*left)[0, 1])
    low, high = resampled(effects.partial_spearman, x, y, z, resamples=50)
    assert low < effects.partial_spearman(x, y, z) < high


# --- words ------------------------------------------------------------------------------------------------------------


def test_every_phrase_has_its_modifier_before_its_adjective_once(phrases):
    listed = list(phrases.phrases())
    adjectives = {phrase.adjective for phrase in listed}
    assert len(adjectives) >= 40
    assert len(adjectives) == sum(len(of) for of, _ in phrases.TOPICS)  # none twice
    assert len(set(listed)) == len(listed)
    for phrase in listed:
        words = [phrases.bare(word) for text in (phrase.premise, phrase.hypothesis) for word in text.split()]
        places = [pair for pair in pairwise(words) if pair == (phrase.modifier, phrase.adjective)]
        assert len(places) == 1
        assert words.count(phrase.modifier) == 1


@pytest.mark.parametrize("word", ["not", "Nobody,", "isn't", "don’t", "never.", "without"])
def test_negations(phrases, word):
    assert phrases.is_negation(word)
    assert not phrases.is_quantifier(word)


@pytest.mark.parametrize("word", ["knot", "two", "nothingness", "", "n"])
def test_words_of_neither_class(phrases, word):
    assert not phrases.is_negation(word)
    assert not phrases.is_quantifier(word)


def test_quantifiers_and_clauses(phrases):
    assert all(map(phrases.is_quantifier, ["All", "some", "(every", "both"]))
    assert phrases.clause_markers("The man who sings sleeps, but nobody hears that.") == 3
    assert phrases.clause_markers("A dog runs.") == 0


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_finished_run_is_not_made_again(study):
    made = []

    def work(task):
        made.append(task)
        return {"accuracy": 0.5 + task[1] / 10}

    tasks = [("a", 0), ("b", 0), ("a", 1)]
    study.run(tasks[:2], work, jobs=1)
    study.run(tasks, work, jobs=1)
    assert made == tasks
    study.run([("a", 0)], work, jobs=1, fresh=True)
    assert made == [*tasks, ("a", 0)]
    runs = study.collect(["a", "b"], [0, 1])
    assert [(run["row"], run["seed"], run["accuracy"]) for run in runs] == [("a", 0, 0.5), ("a", 1, 0.6), ("b", 0, 0.5)]
    stored = json.loads(study.result.read_text())
    assert stored["protocol"] == {"pairs": 3}
    assert {"processor", "threads"} <= set(stored["machine"])
    assert all(run["seconds"] >= 0 for run in stored["runs"])


def test_results_alone_are_enough_to_go_on(study):
    study.run([("a", 0)], lambda task: {"accuracy": 0.5}, jobs=1)
    study.collect(["a"], [0])
    study.file("a", 0).unlink()
    assert study.record("a", 0)["accuracy"] == 0.5
    assert study.record("a", 1) is None


def test_a_run_under_another_protocol_does_not_count(study):
    study.run([("a", 0)], lambda task: {"accuracy": 0.5}, jobs=1)
    other = type(study)(study.name, {"pairs": 4}, study.results, study.runs)
    assert other.record("a", 0) is None


def test_files_have_plain_names(study):
    name = study.file("λ = ½, γ √n", 2).name
    assert name == "lambda-half-gamma-rootn-2.json"


def test_an_unknown_row_is_refused():
    with pytest.raises(SystemExit, match="unknown row 'x'; allowed: a, b"):
        import_module("neurogame_bench.study").chosen(["a", "b"], ["x"])


# --- the page ---------------------------------------------------------------------------------------------------------


def stored(effects, gaps):
    """What benchmarks/ablations.py would store: rows whose right answers differ from the default's by `gaps` points."""
    base = {seed: np.arange(1000) % 2 == 0 for seed in (0, 1, 2)}
    rows, runs = [], []
    for k, (name, gap) in enumerate({"default": 0, **gaps}.items()):
        # g points are 10·g of the 1 000 pairs, and one or two more by seed
        own = {seed: base[seed].copy() for seed in base}
        for seed, right in own.items():
            where = np.flatnonzero(~right if gap > 0 else right)[: abs(gap) * 10 + (seed if gap else 0)]
            right[where] = gap > 0
        row = {"name": name, "group": "heads" if k == 0 else "parts", "against": "default", "processor_seconds": 1.0}
        row |= effects.spread([float(right.mean()) for right in own.values()])
        row["difference"] = None if k == 0 else effects.compared(own, base)
        rows.append(row)
        runs += [{"row": name, "seed": seed} for seed in own]
    protocol = {"train_pairs": 10, "dev_pairs": 1000, "encoder": "tiny", "epochs": 1}
    return {"protocol": protocol, "rows": rows, "runs": runs}


def test_the_page_says_what_the_numbers_say(effects):
    page = import_module("results_page")
    text = page.section_ablations(stored(effects, {"no, comma": -5, "same": 0, "more": 4}), None)
    assert "Measurably below the default: `no, comma`." in text
    assert "Measurably above the default: `more`." in text
    assert "No measurable difference: `same`." in text
    assert "By these figures `more`" in text
    assert "Nothing tried here is measurably better" in page.section_ablations(stored(effects, {"same": 0}), None)
    assert "3 seeds (0, 1, 2)" in text


def test_paragraphs_are_filled_and_tables_are_not():
    page = import_module("results_page")
    table = page.pipes(["a", "b"], [["x" * 200, "1|2"]])
    text = page.wrapped(f"# Head\n\n{'word ' * 60}\n\n{table}\n")
    assert table in text
    assert "1\\|2" in table
    assert all(len(line) < 120 for line in text.splitlines() if line.startswith("word"))
    assert page.listed(["a", "b", "c"]) == "a, b and c"
    assert page.listed([]) == "none"


def test_a_study_leaves_the_threads_as_they_were():
    before = torch.get_num_threads()
    made = import_module("neurogame_bench.study").each([("a", 0)], lambda task: {"row": task[0]}, 1)
    assert [task for task, _ in made] == [("a", 0)]
    assert torch.get_num_threads() == before
