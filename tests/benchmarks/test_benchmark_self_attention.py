"""The learning study: tasks without shortcuts, runs that repeat, a page that says what the numbers say."""

import json
from dataclasses import replace
from importlib import import_module

import pytest
import torch
from pages import ROOT


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("self_attention")


def test_recall_asks_for_a_key_that_is_there_once(study):
    ids, labels = study.sequences("recall", 8, 200, torch.Generator().manual_seed(0))
    keys, values = ids[:, 1:, 0], ids[:, 1:, 1] - 4 - study.KEYS
    asked = keys == ids[:, :1, 0]
    assert (asked.sum(-1) == 1).all()
    assert torch.equal(values[asked], labels)


@pytest.mark.parametrize("length", [8, 32])
def test_twice_is_told_by_pairs_of_keys_alone(study, length):
    """Every value occurs twice, one key does, with the value of the label; the first token is always the same."""
    ids, labels = study.sequences("twice", length, 200, torch.Generator().manual_seed(0))
    keys, values = ids[:, 1:, 0], ids[:, 1:, 1] - 4 - study.KEYS
    assert len(ids[:, 0].unique(dim=0)) == 1
    counts = torch.nn.functional.one_hot(values, study.VALUES).sum(1)
    assert set(counts.unique().tolist()) <= {0, 2}
    same = keys[:, :, None] == keys[:, None, :]
    partner = same.sum(-1) == 2
    assert (partner.sum(-1) == 2).all()
    assert torch.equal(values[partner].view(-1, 2), labels[:, None].expand(-1, 2))


def test_runs_are_records_that_repeat(study):
    """The same seed gives the same batches and curve; every attention trains."""
    setting = replace(study.TASKS["twice"], steps=6, batch=4, width=8, heads=2, lengths=(4, 8))
    for kind in study.KINDS:
        one, two = (study.Job("twice", kind, 0, "", setting)() for _ in range(2))
        assert one == two
        json.dumps(one)
        assert [point[0] for point in one["curve"]] == [1, 2, 3, 4, 5, 6]
        assert set(one["lengths"]) == {"4", "8"}
        assert len(one["strength"]) == (1 if kind in ("values", "couplings", "couplings, normalised") else 0)


def test_the_terms_of_an_attention_learn_faster_than_its_weights(study):
    """In one step of Adam a parameter moves by its rate, whatever its gradient."""
    setting = replace(study.TASKS["twice"], steps=6, batch=4, width=8, heads=2, lengths=(4,))
    torch.manual_seed(0)
    job = study.Job("twice", "couplings", 0, "", setting)
    before = {name: p.detach().clone() for name, p in job.network.named_parameters()}
    job()
    moved = {name: float((p.detach() - before[name]).abs().max()) for name, p in job.network.named_parameters()}
    weights = max(moved[name] for name in moved if "proj" in name)
    assert max(moved[name] for name in moved if name.endswith("background")) > 3 * weights


def test_fragments_are_judged_by_what_was_held_out(study):
    kinds = study.held_out()
    assert {"forms", "words"} <= set(kinds)
    assert sum(map(len, kinds.values())) == len(study.load("fragments/dev"))


def test_text_becomes_words_and_sides(study):
    setting = replace(study.TASKS["toy"], steps=2, pairs=24)
    (ids, labels), (dev, _), symbols, number = study.texts("toy", setting.pairs, "")
    assert ids.shape[0] == len(labels) == 24
    assert len(dev) == study.DEV
    assert int(ids.max()) < symbols == 6 + len(number)
    assert ids[0, 0].tolist() == [study.FIRST, 4]
    assert set(ids[..., 1].unique().tolist()) == {study.PAD, 4, 5}
    assert study.shorter(ids[:1]).shape[1] == int((ids[0, :, 0] != study.PAD).sum())


def test_the_page_says_who_wins(study, monkeypatch, tmp_path):
    """Above and below only where the interval over seeds excludes 0; the figure is drawn."""
    gain = {"softmax": 0.0, "sigmoid": -0.2, "values": 0.001, "couplings": 0.3, "couplings, normalised": 0.0}
    runs = [
        {
            "row": f"{task}: {kind}",
            "seed": seed,
            "accuracy": 0.5 + gain[kind] + 0.01 * seed * (-1) ** len(kind),
            "curve": [[1, 1.0, 0.4], [2, 0.9, 0.5 + gain[kind]]],
            "lengths": dict.fromkeys(map(str, setting.lengths), 0.5),
            "strength": [[-0.1, 0.2]] if kind.startswith("couplings") else [],
            "parameters": 10,
            "processor_seconds": 1.0,
            **({"held": {"nothing": 0.7, "forms": 0.625}} if task == "fragments" else {}),
        }
        for task, setting in study.TASKS.items()
        for kind in study.KINDS
        for seed in range(3)
    ]
    rows = study.summary(runs)
    tasks = {name: study.asdict(setting) for name, setting in study.TASKS.items()}
    protocol = study._plain({"tasks": tasks, "faster": study.FASTER})
    text = import_module("results_page").section_inside({"rows": rows, "runs": runs, "protocol": protocol})
    of_values = "`couplings` above `values` and `sigmoid` below `values`"
    assert f"`twice`: `couplings` above `softmax` and `sigmoid` below `softmax`; {of_values}." in " ".join(text.split())
    assert "| 70.0 | 62.5 |" in text
    assert "-0.10 … +0.20" in text
    assert "3 seeds (0, 1, 2)" in text
    study.figure(runs, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
