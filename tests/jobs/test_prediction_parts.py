"""Prediction jobs in several parts: the last process joins them, in constant memory."""

import gzip
import json
import os
import random

import pytest
from test_prediction import PAIRS, Stub, model, write_jsonl  # noqa: F401  model: a fixture
from test_prediction_resume import NAMES, STATM, Dying, die, names, run, source, whole  # noqa: F401  fixtures

from neurogame.jobs import parts
from neurogame.nli import Prediction
from neurogame.prediction import PartError, Shard, predict_file

# --- parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [2, 3, 17])
def test_parts_make_the_file_that_one_would_have_made(model, source, whole, tmp_path, name, count):  # noqa: F811
    """In any order, with more parts than there are chunks, and one of them interrupted."""
    expected, counted = whole[name]
    order = random.Random(count).sample(range(1, count + 1), count)
    waiting = {f"{number}/{count}" for number in order}
    for number in order:
        options = {"shard": Shard(number, count)}
        if number == 2:
            die(model, 0 if count == 17 else 1, source, tmp_path / name, **options)
            options["resume"] = True
        done = run(model, source, tmp_path / name, **options)
        waiting.discard(f"{number}/{count}")
        assert set(done.missing) == waiting
        assert (done.shard is None) == (not waiting)
        if waiting:
            assert not (tmp_path / name).exists()
            assert f"part {number}/{count}: " in done.summary()
            assert "the file waits for part" in done.summary()
    assert (tmp_path / name).read_bytes() == expected
    assert names(tmp_path) == [name]
    assert (done.pairs, done.truncated, done.malformed) == (counted.pairs, counted.truncated, counted.malformed)


def test_columns_that_come_late_are_named_whichever_part_they_are_in(tmp_path):
    found = [
        {"premise": p, "hypothesis": h, **({"id": 1} if i < 2 else {f"late{i}": 1})} for i, (p, h) in enumerate(PAIRS)
    ]
    file = write_jsonl(tmp_path / "a.jsonl", found)
    alone = run(Stub(), file, tmp_path / "alone.csv", chunk=1)
    run(Stub(), file, tmp_path / "out.csv", chunk=1, shard=Shard(1, 2))
    done = run(Stub(), file, tmp_path / "out.csv", chunk=1, shard=Shard(2, 2))
    assert set(done.left_out) == set(alone.left_out) == {"late2", "late3", "late4", "late5"}
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()


def test_parts_that_do_not_belong_together(model, source, tmp_path):  # noqa: F811
    out, changed = tmp_path / "out.jsonl", tmp_path / "changed.csv"
    run(model, source, out, shard=Shard(1, 2))
    with pytest.raises(PartError, match=r"out\.jsonl\.1-of-2\.part is of a run in 2 part\(s\), this one has 3"):
        run(model, source, out, shard=Shard(1, 3))
    with pytest.raises(PartError, match="this one has 1"):
        run(model, source, out)
    changed.write_bytes(source.read_bytes().replace(b"tailor", b"TAILOR"))
    with pytest.raises(PartError, match=r"2-of-2\.part is of a source with 45 rows, .* of one with 45, and others"):
        run(model, changed, out, shard=Shard(2, 2))
    assert not out.exists()
    for left in tmp_path.glob("out.jsonl.2-of-2*"):
        left.unlink()
    with pytest.raises(PartError, match=r"another batch_size \(2, now 3\) unlike out\.jsonl\.1-of-2\.part"):
        run(model, source, out, shard=Shard(2, 2), batch_size=3)
    assert names(tmp_path) == ["changed.csv", *(f"out.jsonl.{n}-of-2.part{s}" for n in "12" for s in ("", ".journal"))]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3", "", "½/2"])
def test_parts_that_do_not_exist(text):
    with pytest.raises(ValueError, match="part "):
        Shard.parse(text)


def test_two_processes_that_put_the_parts_together_at_once(model, source, whole, tmp_path, monkeypatch):  # noqa: F811
    """One of them is faster and deletes the parts while the other reads them."""
    out, real = tmp_path / "out.csv", parts._join
    run(model, source, out, shard=Shard(1, 2))

    def late(*arguments):
        monkeypatch.setattr(parts, "_join", real)
        kept, missing = parts.finish(out, 2)
        assert len(kept) == 2
        assert not missing
        real(*arguments)

    monkeypatch.setattr(parts, "_join", late)
    done = run(model, source, out, shard=Shard(2, 2))
    assert (done.shard, done.missing) == ("2/2", ())
    assert out.read_bytes() == whole["out.csv"][0]
    assert names(tmp_path) == ["out.csv"]
    assert run(model, source, out, shard=Shard(1, 2), resume=True).already  # started when all was done


def test_parts_brought_together_from_two_machines(model, source, whole, tmp_path):  # noqa: F811
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        run(model, source, tmp_path / str(number) / "out.csv", shard=Shard(number, 2))
    for path in (tmp_path / "2").iterdir():
        path.rename(tmp_path / "1" / path.name)
    done = run(
        Dying(model, 0), source, tmp_path / "1" / "out.csv", shard=Shard(1, 2), resume=True
    )  # nothing to predict
    assert (done.pairs, done.missing) == (34, ())
    assert (tmp_path / "1" / "out.csv").read_bytes() == whole["out.csv"][0]


# --- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not STATM.exists(), reason="no /proc here")
@pytest.mark.parametrize(("name", "out"), [("rows.csv.gz", "out.jsonl"), ("rows.jsonl", "out.csv.gz")])
def test_memory_does_not_grow_with_the_file(tmp_path, name, out):
    """From row 5 000 to row 50 000 the process stays as large as it is; the rows themselves would be 30 MB more."""
    opened = gzip.open if name.endswith(".gz") else open
    text = "The ferry leaves at noon, and two goats are on it, whoever may have invited them, and whatever for"
    with opened(tmp_path / name, "wt") as file:
        if ".csv" in name:
            file.write("id,premise,hypothesis\n")
        for i in range(50_000):
            row = (str(i), f"{text}, {i}.", f"Row {i}.")
            keys = ("id", "premise", "hypothesis")
            line = json.dumps(dict(zip(keys, row, strict=True))) if "jsonl" in name else f'{i},"{row[1]}",{row[2]}'
            file.write(line + "\n")
    sizes = []

    class Measuring(Stub):
        def predict(self, pairs, **options):
            sizes.append(int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
            said = Prediction("neutral", {"neutral": 1.0}, {"neutral": 0.0})
            return [said for _ in pairs]

    done = predict_file(Measuring(), tmp_path / name, tmp_path / out)
    assert done.pairs == 50_000
    assert max(sizes[5:]) - sizes[4] < 4e6
