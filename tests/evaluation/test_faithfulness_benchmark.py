"""`benchmark explanations`: a tiny run end to end, mistakes."""

import json
import math
from copy import deepcopy
from importlib import import_module
from io import StringIO
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tiny
from rich.console import Console
from typer.testing import CliRunner

from neurogame.data import Pair, PairDataset
from neurogame.data import load as load_pairs
from neurogame.explanation import removal
from neurogame.explanation.reading import read
from neurogame.nli import NLI
from neurogame_bench import explanations, intervals, pages
from neurogame_bench.explanations import cases, steps, summary, view, work
from neurogame_bench.explanations.cases import Work
from neurogame_bench.faithfulness import judging
from neurogame_bench.faithfulness.degradation import degraded
from neurogame_bench.faithfulness.judging import BETTER
from neurogame_bench.study import Study, claimed

runner = CliRunner()
METHODS = ["decision", "game", "input", "attention"]
LABELS = ["entailment", "neutral", "contradiction", "neutral"]


def starred(text, every):
    return " ".join(f"*{word}*" if i % every == 0 else word for i, word in enumerate(text.split()))


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """Four pairs with the marks of two annotators; the third pair's are of another sentence."""
    rows = []
    for (p, h), label in zip(tiny.PAIRS, LABELS, strict=True):
        row = {"premise": p, "hypothesis": h, "label": label}
        for annotator, every in ((1, 2), (2, 3)):
            row |= {f"p_marked_{annotator}": starred(p, every), f"h_marked_{annotator}": starred(h, every)}
        rows.append(row)
    rows[2]["p_marked_1"] = "*somebody* else"
    path = tmp_path_factory.mktemp("marked") / "marked.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


@pytest.fixture(scope="module")
def small():
    """Little of everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "WORD_PAIRS", 6)
        patch.setattr(cases, "LIMITS", {"stability": 1, "enumeration": 1, "timing": 2})
        yield


@pytest.fixture(scope="module")
def found(nli, marked, small):
    steps = []
    result = explanations.run(steps.append, model=nli, data=str(marked), methods=METHODS, seed=3)
    assert steps[0] == "1 of 7: decision, drawn 0-4"
    assert len(steps) == 7  # four methods, deletion, time, enumeration
    return result


def row_of(found, name):
    return next(row for row in found["rows"] if row["row"] == name)


def shown(found):
    console = Console(width=170, record=True, file=StringIO())
    console.print(explanations.table(found))
    return console.export_text()


def test_every_row_and_column_is_there(found):
    assert json.loads(json.dumps(found)) == found
    names = [row["row"] for row in found["rows"]]
    assert names[:4] == METHODS
    paired = {row for row in names if row.endswith(", pairs")}
    assert set(names[4:-1]) == {"random", "all words", "hypothesis", "lexical difference", "α > ½"} | paired
    assert "decision, pairs" in paired
    assert set(row_of(found, "decision, pairs")["figures"]) == set(row_of(found, "people")["figures"])
    assert names[-1] == "people"
    deleted = set(row_of(found, "random")["figures"])
    assert {
        "comprehensiveness",
        "sufficiency, mask",
        "tau_loo",
        "decision flip",
        "auc_tp",
        "deletion auc",
        "insertion auc",
        "comprehensiveness, pad",
        "sufficiency, pad",
        "auprc",
        "iou f1",
    } <= deleted
    assert found["degraded"] is None  # nobody asked for it
    for name in METHODS:
        row = row_of(found, name)
        assert deleted <= set(row["figures"])
        assert ("stability" in row["figures"]) == (name in cases.SEEDED)
        assert ("interactions" in row["figures"]) == (name != "attention")
        assert row["timed pairs"] == 2
        assert row["seconds"] > 0
        assert row["ratio"] is None  # no KernelSHAP in this run
        assert row["forward passes"] >= 1
    for row in found["rows"]:
        for figure in row["figures"].values():
            assert figure["value"] is None or figure["low"] - 1e-9 <= figure["value"] <= figure["high"] + 1e-9


def test_counts_are_reported(found):
    assert found["settings"]["pairs"] == 4
    assert found["people"]["pairs"] == 3
    assert found["people"]["not aligned"] == 1
    assert found["people"]["labels"] == {"entailment": 1, "neutral": 2}
    assert found["missing"] == []
    assert row_of(found, "game")["left out"] == {"pairs": 0, "first reason": None}
    constant = row_of(found, "all words")["figures"]["tau_loo"]
    assert constant == {"value": None, "low": None, "high": None, "cases": 0, "undefined": 4, "pairs": 4}
    assert row_of(found, "decision")["figures"]["stability"]["cases"] == 1
    assert row_of(found, "decision")["figures"]["comprehensiveness"]["cases"] == 4


def test_people_and_constants_are_what_they_must_be(found):
    first = [starred(text, 2).count("*") // 2 for pair in tiny.PAIRS for text in pair]
    words = [len(text.split()) for pair in tiny.PAIRS for text in pair]
    aligned = [i for i in range(8) if i not in (4, 5)]  # sentences of the pairs that fit
    everything = row_of(found, "all words")["figures"]
    shares = [first[i] / words[i] for i in aligned]
    assert everything["auprc"]["value"] == pytest.approx(np.mean([(1 + share) / 2 for share in shares]))
    assert everything["token f1"]["value"] == pytest.approx(np.mean([2 * s / (1 + s) for s in shares]))
    people = row_of(found, "people")["figures"]
    both = [sum(i % 6 == 0 for i in range(words[k])) for k in aligned]
    second = [sum(i % 3 == 0 for i in range(words[k])) for k in aligned]
    expected = np.mean([2 * b / (s + first[k]) for b, s, k in zip(both, second, aligned, strict=True)])
    assert people["token f1"]["value"] == pytest.approx(expected)


def test_enumeration_is_compared(found):
    exact = found["enumeration"]
    assert exact["pairs"] == 1
    assert -1 <= exact["interactions"]["value"] <= 1


def test_it_can_be_shown(found, tmp_path):
    text = shown(found)
    for words in (
        *METHODS,
        "lexical difference",
        "people",
        "τ-LOO 4 (all words)",
        "AUC-TP",
        "insertion AUC ↑",
        "suff, pad ↓",
        "±",
        "are not those of the",
    ):
        assert words in text
    explanations.figure(found, tmp_path / "deep" / "explanations.png")
    assert (tmp_path / "deep" / "explanations.png").stat().st_size > 10_000


def test_inputs_of_a_pair_are_evaluated_in_one_call(nli, monkeypatch):
    calls = []
    real = removal.evaluate
    data = cases.samples_of(load_pairs("toy/dev")[:1], None)
    work = Work(data, ("decision", "game"), limits={"degraded": 1})
    *methods, step = (step for step in work.steps() if step.row not in ("timing", "enumeration"))
    records = {method: explanations.perform(nli, work, method, {}) for method in methods}
    monkeypatch.setattr(removal, "evaluate", lambda r, keep, mode="delete": calls.append(mode) or real(r, keep, mode))
    record = explanations.perform(nli, work, step, explanations.beside(step, records))
    assert calls == ["delete", "mask", "pad"]
    assert json.loads(json.dumps(record)) == record  # it can be kept


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_of(limits, pairs=50):
    data = PairDataset(tuple(Pair("a b c", f"d {i}", "neutral") for i in range(pairs)), "abc")
    return Work(cases.samples_of(data, None), ("decision", "input"), limits=limits).steps()


def test_steps_cover_each_pair_once_and_limits_are_kept():
    steps = steps_of({"input": 30, "left out": 25})
    for row, last in (("decision", 50), ("input", 30), ("deletion", 50)):
        places = [i for step in steps if step.row == row for i in range(step.start, step.stop)]
        assert places == list(range(last))
    deletion = [step for step in steps if step.row == "deletion"]
    assert [step.upto("left out") for step in deletion] == [20, 25, 40]  # in the third, none
    assert [step.upto("input") for step in deletion] == [20, 30, 40]
    assert [step.upto("curve") for step in deletion] == [step.upto("auc") for step in deletion] == [20, 40, 50]
    assert [step.upto("degraded") for step in deletion] == [0, 20, 40]  # in each, none
    copied = [step for step in steps_of({"degraded": 30}) if step.row == "deletion"]
    assert [step.upto("degraded") for step in copied] == [20, 30, 40]
    more = steps_of({"input": 60, "left out": 25})
    assert set(steps) & set(more) >= {step for step in steps if step.row == "decision" or step.start == 0}
    with pytest.raises(ValueError, match="limit of 'inputs'; allowed: decision, game"):
        steps_of({"inputs": 3})


def test_a_limited_row_is_compared_on_its_own_pairs(nli, small):
    found = explanations.run(
        model=nli, data="toy/dev", pairs=4, methods=["game", "attention"], limits={"game": 2, "curve": 1, "mask": 3}
    )
    game, attention = (row_of(found, name)["figures"] for name in ("game", "attention"))
    assert [game[name]["pairs"] for name in ("comprehensiveness", "decision flip", "auc_tp")] == [2, 1, 2]
    assert [attention[name]["pairs"] for name in ("comprehensiveness", "decision flip", "auc_tp")] == [4, 1, 3]
    assert {row["pairs"] for row in found["differences"]} == {2}
    assert "On the first pairs only, to save time: game 2, curve 1, mask 3." in shown(found)


def test_methods_that_are_not_repeated_draw_nothing(nli):
    pair = Pair(*tiny.PAIRS[1])
    for name in cases.chosen(nli, None)[0]:
        if name not in cases.SEEDED:
            one, other = (cases.explain(nli, pair, name, seed).scores for seed in (0, 1))
            assert one == other, name


def test_the_decision_is_not_checked(nli):
    """With check=False: the values of one pass; other methods never hear of it."""
    asked = []

    class Checking(NLI):
        def explain(self, premise, hypothesis, *, check=True, **given):
            asked.append((given["method"], check))
            return super().explain(premise, hypothesis, **given)

    for method in ("decision", "game"):
        model = Checking(nli.model, nli.tokenizer, name="tiny")
        assert cases.explain(model, Pair(*tiny.PAIRS[1]), method, 0).method == method
    assert asked == [("decision", False), ("game", True)]


# --- degraded copies --------------------------------------------------------------------------------------------------


def test_degraded_copies_are_judged_as_their_methods_are(nli, small, targets):
    options = {"model": nli, "data": "toy/dev", "pairs": 4, "methods": ["game", "attention"], "seed": 2}
    plain = explanations.run(**options)
    found = explanations.run(**options, limits={"degraded": 3})
    for row in METHODS[1::2]:
        after, before = (row_of(run, row)["figures"] for run in (found, plain))
        assert after.keys() == before.keys()
        for metric in ("comprehensiveness", "sufficiency, mask", "deletion auc"):  # nothing else changes
            assert after[metric] == pytest.approx(before[metric], abs=1e-5)
    differences = {(one["metric"], one["row"]): one for one in found["degraded"]["differences"]}
    figures = row_of(found, "game")["figures"]
    assert set(differences) == {(m, r) for m in BETTER if m in figures for r in ("game", "attention")}
    assert {one["pairs"] for one in differences.values()} == {3}

    expected = []
    for place, pair in enumerate(cases.draw(load_pairs("toy/dev"), 4, 2)[:3]):
        reading = read(nli, pair.premise, pair.hypothesis, "word")
        whole = np.array([reading.prediction.probabilities[name] for name in nli.labels])
        subject = judging.Subject(whole, work.answers(reading, "delete"))
        scores = np.array(nli.explain(pair.premise, pair.hypothesis, method="game", seed=2).scores)
        both = (judging.by_deletion(s, subject, ("aopc", "auc")) for s in (scores, degraded(scores, (2, place, 1))))
        ours, copy = ({metric: row[0] for metric, row in rows.items()} for rows in both)
        expected.append([ours[metric] - copy[metric] for metric in ("insertion auc", "sufficiency")])
    for metric, mean in zip(("insertion auc", "sufficiency"), np.mean(expected, 0), strict=True):
        assert differences[metric, "game"]["value"] == pytest.approx(mean, abs=1e-5)
        assert mean != 0

    text = shown(found)
    assert "Each method minus its degraded copy" in text
    assert "Degraded copies, of 3 pairs: 50 % of the words, drawn at random, have each other's scores." in text
    page = import_module("explanations_page")
    assert page.copies(plain) == []
    head, table = page.copies(found)
    assert head.startswith("### Each method minus its degraded copy")
    assert table.startswith("|  | game | attention |")
    assert "| insertion AUC ↑ |" in table
    assert "| deletion AUC ↓ | insertion AUC ↑ | comp, pad ↑ | suff, pad ↓ |" in page.curves(found["rows"])[1]
    assert page.curves([]) == []


def test_metrics_that_do_not_see_the_degradation_are_named():
    """By hand: three metrics tell; one is equal, one prefers the copy, one varies too much, one is undefined."""
    data = PairDataset(tuple(Pair("a b", f"c {i}", "neutral") for i in range(6)), "abc")
    work = Work(cases.samples_of(data, None), ("game", "input"), limits={"degraded": 6})
    step = next(step for step in work.steps() if step.row == "deletion")
    values = {  # metric → ours, the copy's
        "comprehensiveness": (0.5, 0.3),
        "sufficiency": (0.1, 0.3),
        "tau_loo": (0.4, 0.4),
        "deletion auc": (0.6, 0.4),
        "insertion auc": (0.5, 0.4),
        "comprehensiveness, pad": (0.5, 0.49),
        "normalised sufficiency": (math.nan, math.nan),
    }
    noise = {"comprehensiveness, pad": [0.9, -0.9, 0.8, -0.8, 0.7, -0.7]}  # of the copy alone

    def line(metric, which, i):
        shared = 0.05 * i  # a difference of pairs, which a paired interval does not see
        return intervals.summands([values[metric][which] + shared + (noise.get(metric, [0] * 6)[i] if which else 0)])

    lines = [
        {
            "place": i,
            "row": "game",
            "lines": {metric: line(metric, 0, i) for metric in values},
            "degraded": {metric: line(metric, 1, i) for metric in values},
        }
        for i in range(6)
    ]
    lines.append(
        {"place": 0, "row": "input", "lines": {"tau_loo": [1.0, 1.0, 0.0]}, "degraded": {"tau_loo": [0, 1, 0]}}
    )
    found = summary.report(work, {step: {"pairs": lines}}, spins=False)["degraded"]
    verdict = {one["metric"]: one["copy ranks lower"] for one in found["differences"] if one["row"] == "game"}
    assert verdict == {
        "comprehensiveness": True,
        "sufficiency": True,
        "insertion auc": True,
        "tau_loo": False,
        "deletion auc": False,
        "comprehensiveness, pad": False,
        "normalised sufficiency": None,
    }
    first = next(one for one in found["differences"] if one["metric"] == "sufficiency")
    assert (first["value"], first["low"], first["high"]) == pytest.approx((-0.2, -0.2, -0.2))
    assert found["not told apart"] == {
        "comprehensiveness, pad": ["game"],
        "tau_loo": ["game"],
        "deletion auc": ["game"],
    }
    said = view._degraded(found)
    assert said[0].startswith("Degraded copies, of 6 pairs")
    assert said[1].endswith(": comp, pad (every method); τ-LOO (game); deletion AUC (every method).")
    head, body = view.degraded({"degraded": found})
    assert head == ["", "game", "input"]
    cells = {title: rest for title, *rest in body}
    assert cells["suff ↓"] == ["−0.200", "–"]
    assert cells["τ-LOO ↑"] == ["[+0.000]", "+1.000"]
    assert cells["norm. suff ↑"] == ["–", "–"]


def test_arrows_say_which_end_is_better():
    for metric, better in BETTER.items():
        assert view._title(metric)[-1] == {"higher": "↑", "lower": "↓"}[better], metric
    judged = {*view.FAITHFULNESS, *view.CURVES}
    assert judged <= set(BETTER)


def test_pairs_are_drawn_as_the_protocol_says():
    data = load_pairs("toy/dev")
    drawn = cases.draw(data, 7, 0)
    assert drawn.pairs == tuple(Random(0).sample(list(data), 7))
    assert sorted(map(hash, cases.draw(data[:5], 7, 0))) == sorted(map(hash, data[:5]))
    with pytest.raises(ValueError, match="nothing has no pairs"):
        cases.draw(PairDataset((), "nothing"), 3, 0)


def test_marks_of_a_file_of_their_own(nli, marked, small):
    found = explanations.run(model=nli, data="toy/dev", pairs=2, methods=["game", "random"], rationales=marked)
    assert found["settings"]["methods"] == ["game"]
    assert (found["settings"]["data"], found["settings"]["pairs"]) == ("toy/dev", 2)
    assert found["people"]["pairs"] + found["people"]["not aligned"] == 2
    assert row_of(found, "game")["figures"]["comprehensiveness"]["cases"] == 2
    assert "comprehensiveness" not in row_of(found, "people")["figures"]
    assert found["enumeration"] is None


def test_a_pair_that_cannot_be_explained_is_counted(nli, marked, small, monkeypatch):
    real = work.explain

    def explain(nli, pair, method, seed, **options):
        if pair.premise == tiny.PAIRS[1][0] and method == "game":
            raise ValueError("no\nword")
        return real(nli, pair, method, seed, **options)

    monkeypatch.setattr(work, "explain", explain)
    found = explanations.run(model=nli, data=str(marked), methods=["game", "attention"])
    game = row_of(found, "game")
    assert game["left out"] == {"pairs": 1, "first reason": "no word"}
    assert game["figures"]["comprehensiveness"]["cases"] == 3
    assert row_of(found, "attention")["figures"]["comprehensiveness"]["cases"] == 4
    assert {row["pairs"] for row in found["differences"] if row["metric"] == "sufficiency"} == {3}
    assert "Pairs left out of game: 1; the first: no word" in shown(found)
    with pytest.raises(ValueError, match="no pair could be explained; the first reason: no word"):
        explanations.run(model=nli, data=str(marked), methods=["game"], pairs=1, seed=first_seed(4, 1))


def first_seed(n, place):
    """The seed whose sample of n pairs begins with a place."""
    return next(seed for seed in range(99) if Random(seed).sample(range(n), 1) == [place])


def test_without_highlights_or_mask_token(small):
    tok = deepcopy(tiny.tokenizer())
    tok.mask_token = None
    nli = NLI(tiny.model(), tok, name="tiny")
    found = explanations.run(model=nli, data="toy/dev", pairs=1, methods=["game"])
    assert "comprehensiveness, mask" not in row_of(found, "game")["figures"]
    text = shown(found)
    assert "No mask columns" in text
    assert "No plausibility" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["nothing"]}, "methods: 'nothing' does not work for tiny; allowed: decision, game"),
        ({"methods": ["random"]}, "methods: none is left to compare"),
        ({"pairs": 0}, "pairs must be at least 1, got 0"),
        ({"rationales": "toy/dev"}, "toy/dev: no pair has marked words; needed: columns Sentence1_marked_1"),
    ],
)
def test_mistakes_are_one_line(nli, options, message):
    with pytest.raises(ValueError, match=message) as error:
        explanations.run(**{"model": nli, "data": "toy/dev", "pairs": 2} | options)
    assert "\n" not in str(error.value)


# --- the verb ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(nli, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    nli.save_pretrained(path)
    return path


@pytest.fixture
def app():
    return import_module("neurogame.cli").app


def test_command_line(app, folder, marked, small, tmp_path):
    options = ["--model", str(folder), "--data", "toy/dev", "--pairs", "2", "--methods", "game,attention"]
    figure = tmp_path / "e.svg"
    result = runner.invoke(app, ["benchmark", "explanations", *options, "--json", "--figure", str(figure)])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["settings"]["methods"] == ["game", "attention"]
    assert figure.exists()
    result = runner.invoke(app, ["benchmark", "explanations", *options, "--rationales", str(marked)])
    assert result.exit_code == 0, result.stderr
    assert "Faithfulness of tiny: 2 pairs of toy/dev" in result.stdout
    assert "Plausibility" in result.stdout


def test_the_verb_resumes_and_says_what_it_does(app, folder, small, tmp_path, monkeypatch):
    """An interrupted run computes only what is missing, and gives what one in a single piece gives."""
    options = ["--model", str(folder), "--data", "toy/dev", "--pairs", "2", "--methods", "game,attention", "--json"]
    verb = ["benchmark", "explanations", *options]
    done, real = [], steps.perform

    def perform(nli, work, step, made):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(step.row)
        return real(nli, work, step, made)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "perform", perform)
        result = runner.invoke(app, [*verb, "--runs", str(tmp_path)])
    assert result.exit_code == 130
    assert done == ["game", "attention"]
    assert "1 of 4: game, drawn 0-2\n2 of 4: attention, drawn 0-2\n3 of 4: deletion" in result.stderr
    resumed = runner.invoke(app, [*verb, "--runs", str(tmp_path)])
    assert "game" not in resumed.stderr
    assert "4 of 4: timing" in resumed.stderr
    once, twice = (json.loads(one.stdout) for one in (runner.invoke(app, verb), resumed))
    assert twice["missing"] == []
    assert [row["figures"] for row in twice["rows"]] == [row["figures"] for row in once["rows"]]


def test_mistakes_on_the_command_line(app, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEUROGAME_DATA", raising=False)
    existing = tmp_path / "there.png"
    existing.touch()
    for options, message in (
        (["--model", str(folder)], "snli/dev was not found in data"),
        (["--data", "toy/dev", "--model", str(folder), "--methods", "magic"], "'magic' does not work for tiny"),
        (["--data", "toy/dev", "--figure", str(existing)], "exists already"),
        (["--data", "toy/dev", "--figure", str(tmp_path / "a.pdf")], "a figure is written as .png or .svg"),
    ):
        result = runner.invoke(app, ["benchmark", "explanations", *options])
        assert result.exit_code == 1
        said = result.stderr.strip()
        assert said.startswith("neurogame benchmark explanations: ")
        assert message in said
        assert len(said.splitlines()) == 1
        assert result.stdout == ""


# --- the targets ------------------------------------------------------------------------------------------------------


@pytest.fixture
def targets(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    return import_module("explanations")


def test_verdicts_are_computed(targets):
    figure = {"low": 0.0, "high": 1.0}
    found = {
        "rows": [
            {"row": "decision", "ratio": 0.015, "timed pairs": 3, "figures": {}},
            {"row": "input", "ratio": 5.0, "figures": {"interactions": {"value": 0.29, **figure}}},
            *({"row": row, "figures": {}} for row in ("kernelshap", "integrated_gradients", "game")),
        ],
        "differences": [
            {"metric": "comprehensiveness", "row": "decision", "against": "kernelshap", "value": -0.01, **figure},
            {"metric": "sufficiency", "row": "decision", "against": "kernelshap", "value": -0.01, **figure},
            {"metric": "auprc", "row": "game", "against": "random", "value": 0.05, **figure},
        ],
        "enumeration": {"pairs": 8, "interactions": {"value": 0.96, **figure}},
    }
    judged = targets.verdicts(found)
    reached = {row["what"]: row["reached"] for row in judged}
    missed = {row["what"]: row["missed by"] for row in judged if row["missed by"] is not None}
    assert missed == {
        "comprehensiveness, decision − kernelshap": pytest.approx(0.01),
        "interactions of input, ρ with second-order effects": pytest.approx(0.01),
    }
    assert len(reached) == 10  # of rows that the model does not have, nothing is said
    assert reached["comprehensiveness, decision − kernelshap"] is False
    assert reached["sufficiency, decision − kernelshap"] is True
    assert reached["seconds, decision / kernelshap"] is True
    assert reached["auprc, game − random"] is True
    assert reached["interactions of input, ρ with second-order effects"] is False
    assert reached["interactions of input, ρ with enumeration"] is True
    unknown = [what for what, verdict in reached.items() if verdict is None]
    assert len(unknown) == 4
    nothing = targets.verdicts({"rows": [], "differences": [], "enumeration": None})
    assert {row["reached"] for row in nothing} == {None}


def test_a_run_goes_on_where_it_stopped(targets, nli, marked, small, tmp_path, capsys, monkeypatch):
    """Only what is missing is computed; what another process has is left to it; the page is made of the results."""
    options = {"model": nli, "data": "toy/dev", "pairs": 3, "seed": 0, "rationales": marked}
    _, work, settings = explanations.prepare(**options, methods=["game", "attention"], limits={"attention": 2})
    study = Study("explanations", {"pairs": 3}, tmp_path / "results", tmp_path / "runs")
    done = []
    real = explanations.perform
    monkeypatch.setattr(steps, "perform", lambda *given: done.append(given[2].row) or real(*given))
    explanations.complete(nli, work, study, only=["game"])
    assert done == ["game", "game"]  # of the drawn pairs, and of the marked ones
    explanations.complete(nli, work, study, only=["deletion"])
    assert done == ["game", "game"]  # deletion waits for attention
    with claimed(study.runs / "explanations" / "claims" / "timing") as mine:
        assert mine
        explanations.complete(nli, work, study)
    assert done[2:] == ["attention", "deletion", "attention"]
    assert "timing: another process is at it" in capsys.readouterr().err
    targets.collect(study, work, settings, tmp_path)
    found = json.loads(study.result.read_text())
    assert found["missing"] == ["timing, drawn 0-2"]
    assert row_of(found, "attention")["figures"]["comprehensiveness"]["pairs"] == 2
    explanations.complete(nli, work, study)
    assert done[5:] == ["timing"]
    targets.collect(study, work, settings, tmp_path)
    _, wider, _ = explanations.prepare(**options, methods=["game", "attention"])
    done.clear()
    explanations.complete(nli, wider, study)
    assert done == ["attention", "deletion"]  # another number of pairs

    page = import_module("explanations_page")
    found = json.loads(study.result.read_text())
    begin, end = pages.markers(page.NAME)
    text = pages.insert(f"by hand\n{begin}\nold\n{end}\nmore\n", page.tables(found), page.NAME)
    assert text.startswith("by hand\n")
    assert text.endswith(f"{end}\nmore\n")
    assert "old" not in text
    assert "| seconds, decision / kernelshap | ≤ 0.02 | – | – | not measured |" in text
    assert pages.insert(text, page.tables(found), page.NAME) == text
    with pytest.raises(SystemExit, match="the page has no"):
        pages.insert("nothing", "tables", page.NAME)


def test_targets_are_about_rows_that_can_exist(targets):
    from neurogame.explanation import METHODS as ALL

    compared = summary.COMPARED
    assert {name for both in compared.values() for rows in both for name in rows} <= {*ALL, "people", "decision, pairs"}
    assert len(steps_of(targets.LIMITS)) > 0  # names are right
