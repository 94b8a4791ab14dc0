"""Files and folders are whole or not there: killed at any moment, on a full disk, into a device, against a rival."""

import json
import os
import shutil
from pathlib import Path

import faults
import pytest
import tiny
import torch
from typer.testing import CliRunner

from neurogame._common.writing import atomic_file, atomic_folder, save_figure, write_text
from neurogame.cli import app
from neurogame.data import Pair, PairDataset
from neurogame.evaluation import Report, evaluate
from neurogame.explanation import collection
from neurogame.nli import NLI, load

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="faults are made with what Linux has")
DISK_FULL = ("No space left on device", "File too large")


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


@pytest.fixture(scope="module")
def why(nli):
    return nli.explain(*tiny.PAIRS[0], method="decision")


@pytest.fixture(scope="module")
def report(nli):
    return evaluate(nli, [PairDataset(tuple(Pair(p, h, "entailment") for p, h in tiny.PAIRS), "animals")])


def content(folder):
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def one_line(outcome, *parts):
    """The child failed, and said why in one line that names what it could not write."""
    assert outcome.code == 1, outcome.err
    last = outcome.err.strip().splitlines()[-1]
    for part in parts:
        assert part in last, outcome.err
    assert any(reason in last for reason in DISK_FULL), outcome.err


# A file, a folder


def test_a_file_is_the_old_one_or_the_new_one(tmp_path):
    path = tmp_path / "a.txt"

    def write():
        write_text(path, "new" * 1000)

    for at in range(1, faults.changes(write) + 1):
        path.write_text("old")
        assert faults.run(write, at=at).killed
        assert path.read_text() in ("old", "new" * 1000)
    path.write_text("old")
    one_line(faults.run(write, file_size=1000), f"OSError: {path} cannot be written: File too large")
    assert path.read_text() == "old"
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    one_line(faults.run(write, file_size=1000), str(path))
    assert not list(tmp_path.iterdir())


def test_a_new_file_is_nobody_elses(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "mine", new=True)
    with pytest.raises(FileExistsError, match="exists already"), atomic_file(path, new=True) as fresh:
        fresh.write_text("yours")
    assert content(tmp_path) == {"a.txt": b"mine"}


def test_a_device_is_written_to_as_it_is(tmp_path):
    write_text("/dev/null", "nothing")
    with pytest.raises(OSError, match="/dev/full cannot be written: No space left on device"):
        write_text("/dev/full", "x")
    assert Path("/dev/full").is_char_device()


def test_what_goes_wrong_while_writing_leaves_nothing(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("old")

    def half(place):
        place.write_text("new")
        raise KeyError

    for goal in ("there", "new"):
        with pytest.raises(KeyError), atomic_folder(tmp_path / goal, last="a") as fresh:
            half(fresh / "a")
    with pytest.raises(KeyError), atomic_file(tmp_path / "b") as fresh:
        half(fresh)
    assert content(tmp_path) == {"there/a": b"old"}


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_whole_where_its_last_file_is(tmp_path, there):
    goal = tmp_path / "made" / "here"
    old = {"end": b"old", "a": b"old", "theirs": b"kept"} if there else {}
    new = {"end": b"new", "a": b"new", "deep/b": b"new"}

    def write():
        with atomic_folder(goal, last="end") as fresh:
            (fresh / "end").write_text("new")
            (fresh / "deep").mkdir()
            for name in ("a", "deep/b"):
                (fresh / name).write_text("new")

    for at in range(1, faults.changes(write) + 1):
        shutil.rmtree(tmp_path / "made", ignore_errors=True)
        for name, text in old.items():
            goal.mkdir(parents=True, exist_ok=True)
            (goal / name).write_bytes(text)
        assert faults.run(write, at=at).killed
        found = {name: text for name, text in content(goal).items() if ".new/" not in name}
        if "end" in found:
            assert found in (old, {**old, **new})
        write()  # what was left behind is in nobody's way
        assert content(tmp_path / "made") == {f"here/{name}": text for name, text in {**old, **new}.items()}


def test_two_who_write_at_once_do_not_mix(tmp_path):
    """One of them wins, whole; and nothing is taken for a leftover that is not one."""
    theirs = tmp_path / "goal.new"
    theirs.mkdir()
    (theirs / "precious").write_text("kept")
    other = tmp_path / f"goal.{os.getpid()}.0123abcd.new"  # of a process that runs
    other.mkdir()

    def write(text, meanwhile):
        with atomic_folder(tmp_path / "goal", last="end") as fresh:
            (fresh / "end").write_text(text)
            meanwhile()

    with pytest.raises(OSError, match="goal cannot be written"):
        write("second", meanwhile=lambda: write("first", meanwhile=lambda: None))
    assert content(tmp_path) == {"goal/end": b"first", "goal.new/precious": b"kept"}
    assert other.is_dir()


def test_a_link_stays_and_leads_to_the_new_file(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_what_is_open_already_is_written_to(tmp_path):
    """/dev/stdout, when it goes to a file, is a link to a file, and must not be replaced by one."""
    with (tmp_path / "out").open("w") as file:
        place = f"/proc/self/fd/{file.fileno()}"
        write_text(place, "page")
        assert Path(place).resolve() == tmp_path / "out"
    assert content(tmp_path) == {"out": b"page"}


def test_a_figure_is_of_the_kind_its_suffix_says(tmp_path):
    from matplotlib.figure import Figure

    for name, start in (("a.png", b"\x89PNG"), ("b.SVG", b"<?xml")):
        save_figure(Figure(), tmp_path / "made" / name)
        assert (tmp_path / "made" / name).read_bytes().startswith(start)
    failed = faults.run(lambda: save_figure(Figure(), tmp_path / "c.png"), file_size=100)
    one_line(failed, "c.png cannot be written")
    assert {path.name for path in tmp_path.iterdir()} == {"made"}


# What is written with them


def test_a_model_that_is_saved_over_another(nli, tmp_path):
    goal, other = tmp_path / "model", NLI(tiny.model(seed=1), tiny.tokenizer(), name="other")
    old, new = nli.logits(tiny.PAIRS), other.logits(tiny.PAIRS)
    last = faults.changes(lambda: other.save_pretrained(tmp_path / "elsewhere"))
    for at in [None, *faults.moments(0, 4, last)]:
        shutil.rmtree(goal, ignore_errors=True)
        nli.save_pretrained(goal)
        (goal / "README.md").write_text("mine")
        outcome = faults.run(lambda: other.save_pretrained(goal), at=at, file_size=None if at else 20_000)
        if at is None:
            one_line(outcome, f"OSError: {goal} cannot be written")
        if (goal / "config.json").exists():
            found = load(goal).logits(tiny.PAIRS)
            assert torch.equal(found, old) or (at is not None and torch.equal(found, new))
        other.save_pretrained(goal)
        assert torch.equal(load(goal).logits(tiny.PAIRS), new)
        assert (goal / "README.md").read_text() == "mine"
        assert not list(goal.glob("*.new"))


def test_a_model_on_a_full_disk(nli, tmp_path):
    with faults.small_disk(tmp_path / "disk", 65536) as disk:
        one_line(faults.run(lambda: nli.save_pretrained(disk / "model")), "cannot be written")
        assert not list(disk.iterdir())


def test_a_page_on_a_full_disk(why, tmp_path):
    page = tmp_path / "why.html"
    page.write_text("old")
    one_line(faults.run(lambda: why.to_html(page), file_size=1000), f"OSError: {page} cannot be written")
    assert content(tmp_path) == {"why.html": b"old"}
    with pytest.raises(OSError, match="/dev/full cannot be written: No space left"):
        why.to_html("/dev/full")


def test_a_report_on_a_full_disk(report, tmp_path):
    folder = tmp_path / "results"
    report.save(folder)
    before = content(folder)
    assert set(before) == {"report.json", "report.md", "predictions-animals.jsonl"}
    one_line(faults.run(lambda: report.save(folder, overwrite=True), file_size=300), f"OSError: {folder} cannot be")
    assert content(folder) == before
    one_line(faults.run(lambda: report.save(tmp_path / "new"), file_size=300), "new cannot be written")
    assert {path.name for path in tmp_path.iterdir()} == {"results"}

    def again():
        report.save(folder, overwrite=True, sentences=True)

    for at in faults.moments(1, 4, faults.changes(again)):
        assert faults.run(again, at=at).killed
        if (folder / "report.json").exists():
            assert Report.load(folder).rows[0].scores == report.rows[0].scores
        report.save(folder, overwrite=True)


def test_a_file_that_is_explained_on_a_full_disk_goes_on(nli, tmp_path):
    nli.save_pretrained(tmp_path / "model")
    source = tmp_path / "pairs.jsonl"
    source.write_text("".join(json.dumps({"premise": p, "hypothesis": h}) + "\n" for p, h in tiny.PAIRS * 2))
    folder = tmp_path / "out"
    common = ["explain", str(source), "--model", str(tmp_path / "model"), "-o", str(folder)]
    failed = faults.run(lambda: app(common), file_size=16_000)
    one_line(failed, f"neurogame explain: {folder / collection.LINES}.part cannot be written")
    assert not (folder / collection.LINES).exists()
    done = (folder / f"{collection.LINES}.part").read_bytes().count(b"\n")
    assert 0 < done < 8
    result = CliRunner().invoke(app, [*common, "--resume", "--json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {"explained": 8, "failed": 0, "first_failure": None, "resumed": done}
    rows = [json.loads(line) for line in (folder / collection.LINES).read_text().splitlines()]
    assert [row["row"] for row in rows] == list(range(1, 9))
    for row, again in zip(rows[:4], rows[4:], strict=True):
        assert row["scores"] == again["scores"]
    names = {path.name for path in folder.iterdir()}
    assert names == {collection.LINES, "index.html", "pairs"}
