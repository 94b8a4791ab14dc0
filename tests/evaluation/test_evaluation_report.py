"""`evaluate` from end to end on models made of dictionaries: rows, saved folders, tables, figures, refusals."""

import hashlib
import io
import json
import sys
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from rich.console import Console

from neurogame.data import Pair as Sentences
from neurogame.data import PairDataset
from neurogame.evaluation import Report, combine, evaluate, figures, load_predictions, score
from neurogame.evaluation.calibration import fit_temperature
from neurogame.labels import LABELS, NON_ENTAILMENT


@dataclass(frozen=True)
class Pair:
    premise: str
    hypothesis: str
    label: str
    extras: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Data:
    name: str
    pairs: tuple
    source: str = "written for this test"
    without_gold: int = 2
    malformed: tuple = ("line 7",)

    def __len__(self):
        return len(self.pairs)

    def __iter__(self):
        return iter(self.pairs)

    @property
    def fingerprint(self):
        return hashlib.sha256(repr([(p.premise, p.hypothesis, p.label) for p in self.pairs]).encode()).hexdigest()


def data(name, n=60, names=LABELS, seed=0, extras=lambda i: {}):
    rng = np.random.default_rng(seed)
    return Data(
        name, tuple(Pair(f"{name}: {i} crows sit", "Birds sit", str(rng.choice(names)), extras(i)) for i in range(n))
    )


HEURISTICS = ("lexical_overlap", "subsequence", "constituent")


def hans(n=60):
    return data("hans", n, ("entailment", NON_ENTAILMENT), 3, lambda i: {"heuristic": HEURISTICS[i % 3]})


@dataclass
class Model:
    """Random logits that lean towards the gold label; the same for the same pair, whatever the order of labels."""

    name: str
    sets: tuple
    labels: tuple = LABELS
    skill: float = 1.5
    temperature: float = 1.0
    parameters: int = 123
    calls: list = field(default_factory=list)

    def logits(self, pairs, *, batch_size=32, progress=None):
        self.calls.append((len(pairs), batch_size, progress))
        gold = {(p.premise, p.hypothesis): p.label for one in self.sets for p in one}
        return torch.stack([self._row(pair, gold[pair]) for pair in pairs]) if pairs else torch.zeros(0, 3)

    def _row(self, pair, gold):
        seed = int(hashlib.sha256(f"{self.name} {pair}".encode()).hexdigest()[:12], 16)
        z = dict(zip(LABELS, torch.randn(3, generator=torch.Generator().manual_seed(seed)), strict=True))
        z["contradiction" if gold == NON_ENTAILMENT else gold] += self.skill
        return torch.stack([z[label] for label in self.labels])


def several():
    return (data("snli/test", 90), data("mnli/matched", seed=1), data("mnli/mismatched", seed=2), hans())


def text(report, width=200):
    console = Console(width=width, file=io.StringIO())
    console.print(report.table())
    return console.file.getvalue()


def without_time(report):
    return Report(tuple(replace(row, seconds=1.0, pairs_per_second=1.0) for row in report.rows))


def test_rows_are_what_score_says():
    sets = several()
    model = Model("one", sets)
    report = evaluate(model, sets, batch_size=8, progress="a bar")
    assert report.models == ("one",)
    assert report.data == ("snli/test", "mnli/matched", "mnli/mismatched", "hans")
    assert model.calls == [(len(one), 8, "a bar") for one in sets]
    for row, one in zip(report.rows, sets, strict=True):
        logits = model.logits([(p.premise, p.hypothesis) for p in one])
        assert row.scores == score(logits, [p.label for p in one], LABELS)
        assert (row.n, row.without_gold, row.malformed, row.parameters) == (len(one), 2, 1, 123)
        assert row.fingerprint == one.fingerprint
        assert row.pairs_per_second == pytest.approx(row.n / row.seconds)
    assert report.rows[0].calibration.source == "cross-fitted, two halves"
    assert report.rows[3].calibration.after is None
    assert [tuple(row.groups) for row in report.rows] == [(), (), (), ("heuristic × label",)]
    assert sum(g.n for g in report.rows[3].groups["heuristic × label"]) == 60


def test_one_data_set_needs_no_list():
    one = data("mine")
    assert without_time(evaluate(Model("m", (one,)), one)) == without_time(evaluate(Model("m", (one,)), [one]))


def test_pair_datasets():
    """The data sets of `neurogame.data` are what `evaluate` takes."""
    made = PairDataset(tuple(map(Sentences, ("Ann sings", "Bo digs"), ("Ann is loud", "Bo digs"), LABELS)), name="made")
    model = Model("m", (made,))
    (row,) = evaluate(model, made).rows
    assert (row.data, row.n, row.fingerprint) == ("made", 2, made.fingerprint)
    (row,) = evaluate(model, made[:1], against=evaluate(model, made[:1]), calibration=made).rows
    assert row.calibration.source == "fitted on made"


def test_labels_of_the_model_in_another_order():
    sets = several()
    other = Model("one", sets, labels=("contradiction", "entailment", "neutral"))
    assert without_time(evaluate(other, sets)) == without_time(evaluate(Model("one", sets), sets))


def test_groups_by_round_and_by_wish():
    anli = data("anli", 30, extras=lambda i: {"round": f"R{i % 3 + 1}", "genre": "wiki"})
    model = Model("m", (anli,))
    (row,) = evaluate(model, anli).rows
    assert [g.key for g in row.groups["round"]] == [{"round": "R1"}, {"round": "R2"}, {"round": "R3"}]
    weighted = sum(g.n * g.accuracy for g in row.groups["round"]) / 30
    assert weighted == pytest.approx(row.scores.accuracy)
    (row,) = evaluate(model, anli, groups=[("genre", "round")]).rows
    assert len(row.groups["genre × round"]) == 3
    with pytest.raises(ValueError, match="no 'heuristic' to group by"):
        evaluate(model, anli, groups=[("heuristic",)])


# Temperature


def test_temperature_of_a_separate_set():
    dev, test, two_way = data("snli/dev", 80, seed=5), data("snli/test", 60, seed=6), hans()
    model = Model("m", (dev, test, two_way), temperature=7.0)
    report = evaluate(model, [test, two_way, dev], calibration=dev)
    logits = model.logits([(p.premise, p.hypothesis) for p in dev])
    T = fit_temperature(logits.double().numpy(), np.array([LABELS.index(p.label) for p in dev]))
    for row in report.rows[:2]:
        assert row.calibration.source == "fitted on snli/dev"
        assert row.calibration.temperatures == (T,)
        assert row.calibration.after.nll != row.calibration.before.nll
    assert report.rows[2].calibration.source == "cross-fitted, two halves"  # never tested where it was fitted
    assert [n for n, _, _ in model.calls] == [80, 60, 60, 80]  # the last is ours: dev ran once
    stored = evaluate(model, [test, two_way])
    assert {row.calibration.source for row in stored.rows} == {"stored in the model"}
    assert {row.calibration.temperatures for row in stored.rows} == {(7.0,)}


def test_two_way_data_cannot_calibrate():
    test, two_way = data("snli/test"), hans()
    model = Model("m", (test, two_way))
    with pytest.raises(ValueError, match="hans has two-way gold labels and cannot fit"):
        evaluate(model, test, calibration=two_way)
    assert model.calls == []  # refused before the model ran


# Refusals


def test_refusals_come_before_the_model_runs():
    good = data("mine", 5)
    model = Model("m", (good,))
    foreign = Data("theirs", (Pair("It rains", "It is wet", "sarcasm"),))
    unlabelled = Data("theirs", (Pair("It rains", "It is wet", None),))
    for sets, message in [
        ([], "no data sets"),
        ([good, Data("empty", ())], "empty has no pairs"),
        ([good, foreign], "theirs: the data have the label 'sarcasm'"),
        ([good, unlabelled], "theirs: 1 of 1 pairs have no gold label"),
        ([good, good], "several data sets are called 'mine'"),
    ]:
        with pytest.raises(ValueError, match=message):
            evaluate(model, sets)
    for wrong in ({"batch_size": 0}, {"bins": 0}, {"resamples": 0}):
        with pytest.raises(ValueError, match="must be at least 1"):
            evaluate(model, good, **wrong)
    assert model.calls == []


# Several models


def test_combine():
    sets = several()[:2]
    one, two = (evaluate(Model(name, sets), sets) for name in ("one", "two"))
    both = combine([one, two])
    assert both.models == ("one", "two")
    assert both.rows == one.rows + two.rows
    with pytest.raises(ValueError, match="one on snli/test appears twice"):
        combine([one, one])
    assert combine([one, evaluate(Model("one", sets), sets, name="one, seed 2")]).models == ("one", "one, seed 2")
    other = data("snli/test", 91)
    with pytest.raises(ValueError, match="not run on the same pairs: snli/test"):
        combine([one, evaluate(Model("three", (other,)), other)])
    with pytest.raises(ValueError, match="no reports"):
        combine([])


def test_against_a_report_and_a_saved_folder(tmp_path):
    sets = several()
    first = evaluate(Model("first", sets), sets)
    first.save(tmp_path)
    other = Model("second", sets[1:], labels=("neutral", "contradiction", "entailment"), skill=0.5)
    live, saved = evaluate(other, sets[1:], against=first), evaluate(other, sets[1:], against=tmp_path)
    assert without_time(live) == without_time(saved)
    for row in saved.rows:
        (found,) = row.comparisons
        theirs = next(r for r in first.rows if r.data == row.data)
        assert (found.model, found.against) == ("second", "first")
        assert found.difference == pytest.approx(row.scores.accuracy - theirs.scores.accuracy)
        assert found.both_right + found.only_model == round(row.scores.accuracy * row.n)
    assert "first" in text(saved).split("Compared on the same pairs")[1]


def test_against_other_data():
    one, same_name, elsewhere = data("mine"), data("mine", seed=8), data("theirs", seed=9)
    report = evaluate(Model("a", (one,)), one)
    model = Model("b", (same_name, elsewhere))
    with pytest.raises(ValueError, match="not run on the same pairs: mine has fingerprint"):
        evaluate(model, same_name, against=report)
    with pytest.raises(ValueError, match="has predictions on mine, none on theirs"):
        evaluate(model, elsewhere, against=report)
    assert model.calls == []
    renamed = replace(one, name="the same pairs by another name")
    (row,) = evaluate(Model("b", (one,)), renamed, against=report).rows
    assert len(row.comparisons) == 1


# Saved results


def test_json_round_trip():
    sets = several()
    report = evaluate(Model("b", sets), sets, against=evaluate(Model("a", sets), sets))
    described = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert described == report.to_dict()
    assert Report.from_dict(described) == report
    emptied, without = (  # found by the fuzzer: a breakdown into no groups is none
        Report.from_dict({**described, "rows": [{**row, "groups": groups} for row in described["rows"]]}).to_markdown()
        for groups in ({"label": []}, {})
    )
    assert emptied == without
    with pytest.raises(ValueError, match="Report record lacks rows"):
        Report.from_dict({})


def test_saved_folder(tmp_path):
    sets = several()
    report = evaluate(Model("one", sets), sets)
    folder = report.save(tmp_path / "new" / "run")
    assert sorted(path.name for path in folder.iterdir()) == [
        "predictions-hans.jsonl",
        "predictions-mnli-matched.jsonl",
        "predictions-mnli-mismatched.jsonl",
        "predictions-snli-test.jsonl",
        "report.json",
        "report.md",
    ]
    lines = [json.loads(line) for line in (folder / "predictions-snli-test.jsonl").read_text().splitlines()]
    assert len(lines) == 90
    for line, pair in zip(lines, sets[0], strict=True):
        assert set(line) == {"gold", "predicted", "logits"}  # no sentences
        assert line["gold"] == pair.label
        assert line["predicted"] == max(line["logits"], key=line["logits"].get)
    two_way = json.loads((folder / "predictions-hans.jsonl").read_text().splitlines()[0])
    assert set(two_way["logits"]) == set(LABELS)
    assert two_way["predicted"] in ("entailment", NON_ENTAILMENT)
    loaded = Report.load(folder)
    assert loaded == report
    for ours, theirs in zip(report.rows, loaded.rows, strict=True):
        assert np.array_equal(ours.predictions.aligned.logits, theirs.predictions.aligned.logits)
        assert ours.predictions.predicted == theirs.predictions.predicted
    assert (folder / "report.md").read_text() == report.to_markdown()


def test_results_are_not_overwritten(tmp_path):
    sets = several()[:2]
    first, second = evaluate(Model("one", sets), sets), evaluate(Model("two", sets[:1]), sets[0])
    first.save(tmp_path)
    (tmp_path / "notes.txt").write_text("not a result")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    with pytest.raises(FileExistsError, match=r"already holds results \(report.json, report.md, predictions-mnli"):
        second.save(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    second.save(tmp_path, overwrite=True)
    assert Report.load(tmp_path) == second
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"notes.txt", "report.json", "report.md", "predictions-snli-test.jsonl"}  # nothing stale
    (tmp_path / "report.json").unlink()  # one result is enough to refuse
    with pytest.raises(FileExistsError):
        first.save(tmp_path)


def test_sentences_are_saved_when_asked(tmp_path):
    one = data("mine", 4)
    evaluate(Model("m", (one,)), one).save(tmp_path, sentences=True)
    line = json.loads((tmp_path / "predictions-mine.jsonl").read_text().splitlines()[2])
    assert (line["premise"], line["hypothesis"]) == ("mine: 2 crows sit", "Birds sit")
    with pytest.raises(ValueError, match="no sentences to write"):
        Report.load(tmp_path).save(tmp_path / "again", sentences=True)
    assert not (tmp_path / "again").exists()


def test_names_that_would_meet_in_one_file(tmp_path):
    """Slashes, case and several models: every row has a file of its own."""
    sets = (data("a/b", 4), data("a b", 5), data("A-B", 6), data("../up", 7))
    report = combine([evaluate(Model(name, sets), sets) for name in ("x", "y/z")])
    folder = report.save(tmp_path / "run")
    assert len({path.name.lower() for path in folder.glob("predictions-*.jsonl")}) == 8
    assert Report.load(folder) == report
    assert [len(p) for p in load_predictions(folder)] == [4, 5, 6, 7] * 2
    assert list(tmp_path.iterdir()) == [folder]  # nothing was written outside


def test_broken_folders(tmp_path):
    one = data("mine", 4)
    evaluate(Model("m", (one,)), one).save(tmp_path)
    file = tmp_path / "predictions-mine.jsonl"
    whole = file.read_text()
    for broken, message in [
        (whole.replace('"gold"', '"silver"', 1), "line 1: not a prediction"),
        (whole[:-20], "line 4: not a prediction"),
        ("".join(whole.splitlines(keepends=True)[:3]), "has 3 predictions, its report says 4"),
        ("", "holds no predictions"),
    ]:
        file.write_text(broken)
        with pytest.raises(ValueError, match=message):
            load_predictions(tmp_path)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"predictions-mine\.jsonl is missing"):
        load_predictions(tmp_path)
    for broken in ("{", "[]", '{"rows": [{"n": 3}]}', '{"other": 1}'):
        (tmp_path / "report.json").write_text(broken)
        with pytest.raises(ValueError, match="is not a saved report"):
            load_predictions(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"has no report\.json"):
        load_predictions(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no predictions on mine to save"):
        Report.from_dict(evaluate(Model("m", (one,)), one).to_dict()).save(tmp_path / "new")


# How it looks


def test_markdown_and_terminal_have_the_numbers():
    sets = several()
    report = combine([evaluate(Model(name, sets), sets) for name in ("one", "two|three [bold]")])
    shown, written = text(report), report.to_markdown()
    for row in report.rows:
        for number in (f"{100 * row.scores.accuracy:.2f} [", f"{100 * row.scores.classes['entailment'].f1:.1f}"):
            assert number in shown
            assert number in written
    assert "two|three [bold]" in shown  # rich takes no markup from a name
    assert "two\\|three [bold]" in written  # and a name does not break a Markdown table
    assert "15 bins" in shown
    assert "15 bins" in written
    matched, mismatched = (report.rows[k].scores.accuracy for k in (1, 2))
    assert f"one: MNLI m/mm {100 * matched:.2f} / {100 * mismatched:.2f}" in written
    assert shown.count("lexical_overlap") == 2  # by heuristic × label, both models in one table
    overview = written.split("\n\n")[1].splitlines()
    assert len(overview) == 2 + 8
    assert {line.replace("\\|", "").count("|") for line in overview} == {13}
    hans_line = next(line for line in overview if "| hans |" in line)
    assert hans_line.count("| – ") == 3  # neutral, contradiction, temperature


def test_a_label_without_gold_has_no_f1_in_the_tables():
    one = data("mine", 30, names=("entailment", "contradiction"))
    line = evaluate(Model("m", (one,)), one).to_markdown().split("\n\n")[1].splitlines()[2]
    assert line.count("| – ") == 1


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_figures(tmp_path, suffix):
    sets = several()[2:]
    report = combine([evaluate(Model(name, sets), sets) for name in ("one", "two")])
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    for name, figure, of in [
        ("all", figures.draw, report),
        ("accuracy", figures.accuracy, report),
        ("confusion", figures.confusion, report.rows[1]),
        ("reliability", figures.reliability, report.rows[:2]),
    ]:
        path = tmp_path / "figures" / f"{name}.{suffix}"
        figure(of, path)
        assert path.read_bytes().startswith(start)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_figures_show_the_numbers():
    sets = several()
    report = evaluate(Model("one", sets), sets)
    (axes,) = figures.confusion(report.rows[0]).axes
    row = report.rows[0].scores
    shown = [t.get_text() for t in axes.texts]
    shares = [(count, 100 * count / sum(line)) for line in row.confusion for count in line]
    assert shown == [f"{count}\n{share:.0f} %" for count, share in shares]
    assert [t.get_text() for t in axes.get_xticklabels()] == list(LABELS)
    panel = figures.reliability(report.rows).axes[0]
    legend = [t.get_text() for t in panel.get_legend().get_texts()]
    assert legend[0] == f"T = 1: ECE {100 * row.ece:.1f} %"
    assert len(legend) == 2
    points = panel.lines[1].get_xydata()
    assert points.tolist() == [[b.confidence, b.accuracy] for b in row.reliability if b.count]
    marked = {t.get_text() for t in figures.accuracy(report).axes[0].texts}
    assert marked == {f"{100 * r.scores.accuracy:.1f}" for r in report.rows}


def test_figure_refusals(tmp_path, monkeypatch):
    one = data("mine", 5)
    report = evaluate(Model("m", (one,)), one)
    with pytest.raises(ValueError, match=r"\.png or \.svg, got 'report\.gif'"):
        figures.draw(report, tmp_path / "report.gif")
    with pytest.raises(ValueError, match="no rows to draw"):
        figures.confusion([])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"matplotlib: pip install '.*\[train\]'"):
        figures.draw(report)
