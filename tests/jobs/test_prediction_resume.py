"""Predictions that are killed, run out of disk, or are dealt out: the bytes are those of one undisturbed run."""

import gzip
import io
import json
import os
import random
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_prediction import PAIRS, Stub, lines_of, model, write_csv, write_jsonl  # noqa: F401  model: a fixture
from typer.testing import CliRunner

from neurogame.cli import app
from neurogame.data import formats
from neurogame.data.pairs import DataError
from neurogame.jobs import parts
from neurogame.jobs.source import fingerprint
from neurogame.modeling.baselines.dam import DamForSequenceClassification
from neurogame.modeling.checking import ModelError
from neurogame.nli import NLI
from neurogame.prediction import PartError, Shard, check, predict_file

NAMES = ["out.jsonl", "out.csv", "out.jsonl.gz", "out.csv.gz"]
CHUNK = 4
WORDS = sorted({word for pair in PAIRS for text in pair for word in text.split()})
STATM = Path("/proc/self/statm")
linux = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def rows(count, seed=0):
    """Sentences of different lengths, with a column of their own; every seventh row is none, the first five neither."""
    draw = random.Random(seed)

    def text():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 12)))

    found = [{"id": i, "premise": text() + ("\nand more" if i % 3 else ""), "hypothesis": text()} for i in range(count)]
    return [{**row, "premise": ""} if i < 5 or not i % 7 else row for i, row in enumerate(found)]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """45 rows, 34 of them pairs, in twelve chunks; the first chunk has none."""
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    found = rows(45)
    return write_csv(path, [row.values() for row in found], tuple(found[0]))


@pytest.fixture(scope="module")
def whole(model, source, tmp_path_factory):  # noqa: F811
    """What an undisturbed run writes and counts, by name."""
    folder = tmp_path_factory.mktemp("whole")
    done = {name: predict_file(model, source, folder / name, batch_size=2, chunk=CHUNK) for name in NAMES}
    return {name: ((folder / name).read_bytes(), done[name]) for name in NAMES}


def run(nli, source, output, **options):
    return predict_file(nli, source, output, **{"batch_size": 2, "chunk": CHUNK, **options})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


class Dying(NLI):
    """A model that fails in its k-th call, from 0."""

    def __init__(self, nli, fatal, error=KeyboardInterrupt):
        super().__init__(nli.model, nli.tokenizer, name=nli.name)
        self.left, self.error = fatal, error

    def predict(self, pairs, **options):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().predict(pairs, **options)


def die(nli, fatal, source, output, **options):
    with pytest.raises(KeyboardInterrupt):
        run(Dying(nli, fatal), source, output, **options)


# --- going on ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_was_interrupted_goes_on(model, source, whole, tmp_path, name):  # noqa: F811
    expected, counted = whole[name]
    for fatal in (1, 2, 5, 11):
        out, told = tmp_path / name, []
        die(model, fatal, source, out)
        assert not out.exists()
        done = run(model, source, out, resume=True, progress=told.append)
        assert out.read_bytes() == expected
        assert names(tmp_path) == [name]
        assert done.resumed > 0 or fatal == 1  # the first chunk has no pair
        assert done == replace(counted, resumed=done.resumed)
        assert sum(told) == counted.pairs == 34
        assert f"34 pairs labelled ({done.resumed} of them before)" in done.summary() or not done.resumed
        out.unlink()


def test_gzipped_output_is_the_same_text(whole):
    for name in ("out.jsonl", "out.csv"):
        assert gzip.decompress(whole[f"{name}.gz"][0]) == whole[name][0]


def test_every_row_once_and_in_order(whole):
    found = [row["id"] for row in lines_of(whole["out.jsonl"][0].decode())]
    assert found == [str(i) for i in range(45) if i >= 5 and i % 7]


def test_what_a_killed_process_wrote_beyond_its_last_chunk_is_cut_off(model, source, whole, tmp_path):  # noqa: F811
    for torn in (b'{"chunk": 3, "rows"', b"\0" * 40, b"\n", b"[]\n{}\n", b""):
        out = tmp_path / "out.csv"
        die(model, 4, source, out)
        for suffix, left in ((".part", b"half a li"), (".part.journal", torn)):
            with (tmp_path / f"out.csv{suffix}").open("ab") as file:
                file.write(left)
        run(model, source, out, resume=True)
        assert out.read_bytes() == whole["out.csv"][0]
        out.unlink()


def test_resume_begins_where_nothing_was_begun_and_ends_where_all_is_done(model, source, whole, tmp_path):  # noqa: F811
    out = tmp_path / "out.jsonl"
    assert run(model, source, out, resume=True).resumed == 0
    assert out.read_bytes() == whole["out.jsonl"][0]
    done = run(model, source, out, resume=True)
    assert done.already
    assert done.summary() == "the output exists already, nothing to do"
    assert out.read_bytes() == whole["out.jsonl"][0]
    assert names(tmp_path) == ["out.jsonl"]


def test_refused_without_resume(model, source, tmp_path):  # noqa: F811
    out = tmp_path / "out.csv"
    die(model, 3, source, out)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for ask in (run, lambda nli, *paths: check(*paths)):
        with pytest.raises(PartError, match=r"out\.csv\.part holds an interrupted run; --resume continues it"):
            ask(model, source, out)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def other_model(nli):
    """The same but for one weight."""
    made = DamForSequenceClassification(nli.model.config)
    state = {name: tensor.clone() for name, tensor in nli.model.state_dict().items()}
    next(tensor for tensor in state.values() if tensor.is_floating_point()).view(-1)[0] += 1e-3
    made.load_state_dict(state)
    return NLI(made, nli.tokenizer)


def test_another_job_is_not_gone_on_with(model, source, tmp_path):  # noqa: F811
    out, copy = tmp_path / "out.csv", tmp_path / "rows.csv"
    text = source.read_text()
    copy.write_text(text)
    die(model, 6, copy, out)
    before = (tmp_path / "out.csv.part").read_bytes()
    named = NLI(model.model, model.tokenizer)
    named.labels = ("a", "b", "c")
    for nli, options, message in (
        (other_model(model), {}, "begun with another model; choose another name for the output, or delete it"),
        (named, {}, "another model"),
        (model, {"batch_size": 3}, r"another batch_size \(2, now 3\)"),
        (model, {"chunk": 5}, r"another chunk \(4, now 5\)"),
        (model, {"on_error": "raise"}, "another on_error"),
        (model, {"columns": {"premise": "hypothesis", "hypothesis": "premise"}}, "another columns"),
        (other_model(model), {"chunk": 5}, r"another chunk \(4, now 5\) and another model"),
    ):
        with pytest.raises(PartError, match=message):
            run(nli, copy, out, resume=True, **options)
    copy.write_text(text + "x,y,z\n")
    with pytest.raises(PartError, match="another source: the file has changed since"):
        run(model, copy, out, resume=True)
    for place in (len(text) // 6, len(text) - 9):  # of a row that has been done, and of one that has not
        copy.write_text(text[:place] + "X" + text[place + 1 :])
        with pytest.raises(PartError, match="another source: the file has changed since"):
            run(model, copy, out, resume=True)
    assert (tmp_path / "out.csv.part").read_bytes() == before
    copy.write_text(text)
    assert run(model, copy, out, resume=True).resumed > 0


def test_the_fingerprint_of_a_model_is_of_what_it_says(model, tmp_path):  # noqa: F811
    model.save_pretrained(tmp_path / "here")
    model.save_pretrained(tmp_path / "there")
    from neurogame import load

    first, second = load(tmp_path / "here"), load(tmp_path / "there")
    before = fingerprint(first)
    assert before == fingerprint(second) != fingerprint(other_model(first))
    first.predict(PAIRS, batch_size=2)  # which leaves its options in the tokenizer
    assert fingerprint(first) == before
    second.temperature = 1.5
    assert fingerprint(second) != before


def test_what_is_no_part_is_refused_and_stays(model, source, tmp_path):  # noqa: F811
    out, part, journal = (tmp_path / f"out.jsonl{suffix}" for suffix in ("", ".part", ".part.journal"))
    part.write_text("mine")
    for resume in (False, True):
        with pytest.raises(PartError, match="has no journal beside it"):
            run(model, source, out, resume=resume)
    assert part.read_text() == "mine"
    part.unlink()
    die(model, 5, source, out)
    kept = part.read_bytes()
    part.write_bytes(kept[:-1])
    with pytest.raises(PartError, match="is shorter than its journal says"):
        run(model, source, out, resume=True)
    part.write_bytes(kept)
    with journal.open("a") as file:
        file.write('{"chunk": 99, "invented": 1}\n')
    with pytest.raises(PartError, match="is no journal that can be read here"):
        run(model, source, out, resume=True)


def test_only_a_file_can_be_gone_on_with(source, tmp_path):
    for arguments in (("-", tmp_path / "out.csv"), (source, None)):
        for options in ({"resume": True}, {"shard": Shard(1, 2)}):
            with pytest.raises(DataError, match=r"read only once|need -o FILE"):
                check(*arguments, **options)


def test_of_a_pipe_nothing_is_kept(tmp_path, monkeypatch):
    lines = "".join(json.dumps({"premise": p, "hypothesis": h}) + "\n" for p, h in PAIRS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))

    def crash(calls):
        if calls == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Stub(crash), "-", tmp_path / "out.jsonl", chunk=1)
    assert names(tmp_path) == []


def test_a_row_that_ends_everything_leaves_nothing(tmp_path):
    """The row has to change, and with it the source: there would be nothing to resume."""
    source = write_jsonl(tmp_path / "a.jsonl", [*({"premise": p, "hypothesis": h} for p, h in PAIRS), "{\n"])
    with pytest.raises(DataError, match="not valid JSON"):
        run(Stub(), source, tmp_path / "out.jsonl", on_error="raise", chunk=2)
    assert names(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize("shard", [Shard(), Shard(1, 2)])
@pytest.mark.parametrize("on_error", ["skip", "raise"])
def test_a_source_that_breaks_off_is_no_malformed_row(tmp_path, shard, on_error, monkeypatch):
    """Nobody knows how many rows are missing: no file appears, what was labelled stays, and it can be gone on with."""
    source = write_jsonl(tmp_path / "a.jsonl", [{"premise": p, "hypothesis": h} for p, h in PAIRS * 9])
    run(Stub(), source, tmp_path / "whole.jsonl")
    read, lines = formats.Lines.__next__, []

    def fails(self):
        lines.append(1)
        if len(lines) > 15:
            raise OSError(5, "Input/output error")
        return read(self)

    with monkeypatch.context() as patch:
        patch.setattr(formats.Lines, "__next__", fails)
        with pytest.raises(DataError, match=r"truncated or damaged.*Input/output error"):
            run(Stub(), source, tmp_path / "out.jsonl", shard=shard, on_error=on_error)
    assert not (tmp_path / "out.jsonl").exists()
    assert [path.stat().st_size > 0 for path in tmp_path.glob("out.jsonl*.part")] == [True]
    for number in range(1, shard.count + 1):
        options = {"resume": True, "shard": Shard(number, shard.count), "on_error": on_error}
        done = run(Stub(), source, tmp_path / "out.jsonl", **options)
        assert number > 1 or done.resumed > 0
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_source_that_is_cut_gives_no_file(model, source, tmp_path):  # noqa: F811
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(source.read_bytes())[:-300])
    with pytest.raises(DataError, match="truncated or damaged"):
        run(model, cut, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    with pytest.raises(DataError, match="truncated or damaged"):
        run(model, cut, None)


@pytest.mark.attack(point=4)
@pytest.mark.parametrize("on_error", ["skip", "raise"])
@pytest.mark.parametrize("closed", [False, True], ids=["never closed", "closed by another quote"])
def test_a_quote_that_swallows_rows_is_an_error_and_can_be_repaired(tmp_path, on_error, closed):
    """It once made one malformed row of 100 000, with exit 0."""
    rows = [f"{i},A goat.,Row {i}.\n" for i in range(120)]
    whole = "id,premise,hypothesis\n" + "".join(rows)
    rows[20] = '20,"A goat.,Row 20.\n'
    if closed:
        rows[100] = '100,"A goat.",Row 100.\n'
    source, out = tmp_path / "rows.csv", tmp_path / "out.jsonl"
    source.write_text("id,premise,hypothesis\n" + "".join(rows))
    options = {"on_error": on_error, "chunk": 4}
    with pytest.raises(DataError, match=r"rows\.csv:22: .*a double quote that opens here is not closed by line 1\d\d"):
        run(Stub(), source, out, **options)
    assert not out.exists()
    done = CliRunner().invoke(app, ["predict", str(source), "-o", str(tmp_path / "other.csv")])
    assert done.exit_code == 1
    assert "rows.csv:22:" in done.stderr
    with pytest.raises(DataError, match="not closed"):  # as it is, it can be read no further
        run(Stub(), source, out, resume=True, **options)
    source.write_text(whole.replace("0,A goat.", "0,A  goat."))
    with pytest.raises(PartError, match="its first 20 rows differ"):
        run(Stub(), source, out, resume=True, **options)
    source.write_text(whole.replace("Row 50", "Row fifty"))  # repaired, behind what is done
    done = run(Stub(), source, out, resume=True, **options)
    assert (done.pairs, done.resumed) == (120, 20)
    assert [row["id"] for row in lines_of(out.read_text())] == [str(i) for i in range(120)]
    assert names(tmp_path) == ["out.jsonl", "rows.csv"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_pair_over_which_the_model_fails_is_skipped_and_counted(tmp_path, name, count):
    """It failed its whole chunk, and so did every --resume."""

    class Failing(Stub):
        def predict(self, pairs, **options):
            if any("dragon" in premise for premise, _ in pairs):
                raise ModelError("the tokenizer fails")
            return super().predict(pairs, **options)

    rows = [{"premise": f"Goat {i}.", "hypothesis": "b", "id": str(i)} for i in range(20)]
    for i in (3, 4, 19):
        rows[i]["premise"] = f"A dragon {i}."
    source, out = write_jsonl(tmp_path / "a.jsonl", [*rows, "{}\n"]), tmp_path / name
    for number in range(1, count + 1):
        done = run(Failing(), source, out, chunk=4, shard=Shard(number, count))
    assert (done.pairs, done.malformed_count) == (17, 4)
    assert sum("A dragon" in line and "the tokenizer fails" in line for line in done.malformed) == 3
    if name == "out.jsonl":
        assert [row["id"] for row in lines_of(out.read_text())] == [
            row["id"] for row in rows if "Goat" in row["premise"]
        ]
    with pytest.raises(ModelError, match="the tokenizer fails"):
        run(Failing(), source, tmp_path / "strict.jsonl", on_error="raise")
    for row in rows:
        row["premise"] = "A dragon."
    for goal in (tmp_path / f"none-{name}", None):
        with pytest.raises(ValueError, match="the tokenizer fails"):
            run(Failing(), write_jsonl(tmp_path / "b.jsonl", rows), goal)


def test_a_model_that_fails_over_every_pair_ends_the_run(tmp_path):
    calls = []

    class Broken(Stub):
        def predict(self, pairs, **options):
            calls.append(len(pairs))
            raise ModelError("logits that are NaN")

    source = write_jsonl(tmp_path / "a.jsonl", [{"premise": p, "hypothesis": h} for p, h in PAIRS * 9])
    with pytest.raises(ModelError, match="NaN"):
        run(Broken(), source, tmp_path / "out.jsonl")
    assert len(calls) == 2


def test_a_repaired_source_may_follow_a_damaged_one_in_any_part(tmp_path):
    """Parts that were complete before the repair, or begun after it, still belong together if all rows are the same."""
    good = write_jsonl(tmp_path / "good.jsonl", [{"premise": p, "hypothesis": h} for p, h in PAIRS * 3])
    source, out = tmp_path / "rows.jsonl.gz", tmp_path / "out.csv"
    packed = gzip.compress(good.read_bytes(), compresslevel=0)  # stored as it is: the first rows can be read
    source.write_bytes(packed[:-200])
    with pytest.raises(DataError, match="truncated or damaged"):
        run(Stub(), source, out, chunk=2, shard=Shard(1, 2))
    source.write_bytes(packed)
    for number in (2, 1):
        run(Stub(), source, out, chunk=2, shard=Shard(number, 2), resume=True)
    run(Stub(), good, tmp_path / "whole.csv", chunk=2)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.attack(point=7)
@linux
@pytest.mark.parametrize("suffix", [".part.journal", ".part", ".2-of-2.part.journal"])
@pytest.mark.parametrize("target", ["precious", "absent"])
def test_links_are_not_followed(model, source, tmp_path, monkeypatch, suffix, target):  # noqa: F811
    out, precious = tmp_path / "out.jsonl", tmp_path / "precious"
    precious.write_text("do not touch\n")
    shard = Shard(2, 2) if "of" in suffix else Shard()
    (tmp_path / f"out.jsonl{suffix}").symlink_to(tmp_path / target)
    for resume in (True, False):
        with pytest.raises(PartError, match="is a link or no file"):
            run(model, source, out, resume=resume, shard=shard)
    assert names(tmp_path) == sorted(["precious", f"out.jsonl{suffix}"])
    monkeypatch.setattr(parts, "check", lambda *_, **__: None)  # as if it were made after the check
    with pytest.raises(PartError, match=r"is a link|a part that was lost"):
        run(model, source, out, resume=True, shard=shard)
    assert precious.read_text() == "do not touch\n"


@pytest.mark.attack(point=7)
@pytest.mark.parametrize("content", [b"my notes\n", b"{}\n", b'{"a": 1}\n{"b": 2}\n', b"\0\0\0\0", b"[1]\n"])
def test_a_file_that_is_no_journal_is_not_overwritten(model, source, tmp_path, content):  # noqa: F811
    out, journal, part = (tmp_path / f"out.jsonl{suffix}" for suffix in ("", ".part.journal", ".part"))
    journal.write_bytes(content)
    with pytest.raises(PartError, match="is no journal of ours"):
        run(model, source, out, resume=True)
    assert journal.read_bytes() == content
    for torn in (b"", b'{"ver', b'{"version": "0.'):  # but this one is, of a process that was killed at once
        journal.write_bytes(torn)
        part.write_bytes(b"mine")
        with pytest.raises(PartError, match="a part that was lost"):
            run(model, source, out, resume=True)
        assert part.read_bytes() == b"mine"
        part.unlink()
        assert run(model, source, out, resume=True).pairs == 34
        out.unlink()


@pytest.mark.attack(point=7)
def test_links_in_the_place_of_what_is_joined(model, source, whole, tmp_path):  # noqa: F811
    precious, out = tmp_path / "precious", tmp_path / "out.csv"
    precious.write_text("do not touch")
    (tmp_path / f"out.csv.{socket.gethostname()}-{os.getpid()}.joined").symlink_to(precious)
    for number in (1, 2):
        run(model, source, out, shard=Shard(number, 2))
    assert precious.read_text() == "do not touch"
    assert out.read_bytes() == whole["out.csv"][0]


def test_two_processes_do_not_write_one_part(model, source, tmp_path):  # noqa: F811
    out = tmp_path / "out.jsonl"

    class Meddling(Dying):
        def predict(self, pairs, **options):
            with pytest.raises(PartError, match="is being written by another process"):
                run(model, source, out, resume=True)
            return super().predict(pairs, **options)

    assert run(Meddling(model, 99), source, out).pairs == 34
