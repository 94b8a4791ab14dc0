"""Predictions that are killed, run out of disk, or are dealt out: the bytes are those of one undisturbed run."""

import gzip
import io
import json
import os
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path

import faults
import pytest
from test_prediction import PAIRS, Stub, lines_of, model, write_csv, write_jsonl  # noqa: F401  model: a fixture
from typer.testing import CliRunner

from neurogame.cli import app
from neurogame.data import formats
from neurogame.data.pairs import DataError
from neurogame.jobs import parts
from neurogame.modeling.dam import DamForSequenceClassification
from neurogame.nli import NLI, Prediction
from neurogame.prediction import PartError, Shard, check, predict_file
from neurogame.prediction.file import fingerprint

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


class Dying:
    """A model that fails in its k-th call, from 0."""

    def __init__(self, nli, fatal, error=KeyboardInterrupt):
        self.nli, self.left, self.error = nli, fatal, error
        self.fingerprint = fingerprint(nli)

    def predict(self, pairs, **options):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.nli.predict(pairs, **options)


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


def test_links_in_the_place_of_what_is_joined(model, source, whole, tmp_path):  # noqa: F811
    precious, out = tmp_path / "precious", tmp_path / "out.csv"
    precious.write_text("do not touch")
    (tmp_path / f"out.csv.{parts._process()}.joined").symlink_to(precious)
    for number in (1, 2):
        run(model, source, out, shard=Shard(number, 2))
    assert precious.read_text() == "do not touch"
    assert out.read_bytes() == whole["out.csv"][0]


def test_two_processes_do_not_write_one_part(model, source, tmp_path):  # noqa: F811
    out = tmp_path / "out.jsonl"

    class Meddling(Dying):
        def predict(self, pairs, **options):
            with pytest.raises(PartError, match="is being written by another process"):
                run(self.nli, source, out, resume=True)
            return super().predict(pairs, **options)

    assert run(Meddling(model, 99), source, out).pairs == 34


# --- SIGKILL ----------------------------------------------------------------------------------------------------


@pytest.fixture
def forks(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    return [f"out.{kind}" for kind in ("jsonl", "csv", "csv.gz")]


@linux
@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_times(model, source, whole, tmp_path, forks, count):  # noqa: F811
    """So many kills of each kind of file; one that is done before it is hit begins anew."""
    for seed, name in enumerate(forks):
        out, draw, hit = tmp_path / name, random.Random(seed), 0
        usual = faults.run(lambda: run(model, source, out)).seconds  # noqa: B023
        while hit < count or not out.exists():
            if out.exists():  # perhaps with its journal: then it was hit between its last two steps
                assert run(model, source, out, resume=True).already
                assert out.read_bytes() == whole[name][0]
                assert names(tmp_path) == [name]
                out.unlink()
            moment = draw.uniform(0, usual) if hit < count else None
            outcome = faults.run(lambda: run(model, source, out, resume=True), after=moment)  # noqa: B023
            assert outcome.killed or outcome.code == 0, outcome.err
            hit += outcome.killed
        assert out.read_bytes() == whole[name][0]
        out.unlink()


@linux
@pytest.mark.parametrize("shard", [Shard(), Shard(2, 2)], ids=str)
def test_killed_at_every_change_of_the_file_system(model, source, whole, tmp_path, forks, shard):  # noqa: F811
    """Where the files are made, cut, renamed and deleted; and where the parts of two are put together."""
    out = tmp_path / "out.csv"

    def rest():
        run(model, source, out, resume=True, shard=shard)

    def first():
        if shard.count > 1:
            run(model, source, out, shard=Shard(1, 2))

    first()
    count = faults.changes(rest)
    assert count >= 4
    for at in range(1, count + 1):
        for left in tmp_path.iterdir():
            left.unlink()
        first()
        assert faults.run(rest, at=at).killed
        rest()
        assert out.read_bytes() == whole["out.csv"][0]
        assert names(tmp_path) == ["out.csv"] or (shard.count > 1 and at >= count - 4)  # killed while parts are deleted


@linux
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_killed_while_it_writes(model, source, whole, tmp_path, forks, share, monkeypatch):  # noqa: F811
    """At every write of data and of the journal, before it, half-way and after it."""
    real, out = parts._write, tmp_path / "out.csv"
    for fatal in range(0, 1 + 2 * 12 + 2, 5 if share == 0.5 else 9):  # the job; chunk and line, twelve times; the end
        left = fatal

        def write(file, data, **options):
            nonlocal left
            left -= 1
            if left < 0:
                real(file, data[: int(share * len(data))])
                os.kill(os.getpid(), signal.SIGKILL)
            real(file, data, **options)

        with monkeypatch.context() as patched:
            patched.setattr(parts, "_write", write)
            assert faults.run(lambda: run(model, source, out, resume=True)).killed
        assert not out.exists()
        run(model, source, out, resume=True)
        assert out.read_bytes() == whole["out.csv"][0]
        out.unlink()
    assert names(tmp_path) == []


# --- a full disk ------------------------------------------------------------------------------------------------


@linux
@pytest.mark.parametrize("name", ["out.jsonl", "out.csv.gz"])
def test_a_full_disk(model, tmp_path, forks, name):  # noqa: F811
    """One line, exit 1, nothing under the name, and what fitted is not computed again."""
    found = [row for row in rows(60) if row["premise"]]
    source = write_csv(tmp_path / "rows.csv", [row.values() for row in found], tuple(found[0]))
    model.save_pretrained(tmp_path / "model")
    out, expected = tmp_path / name, tmp_path / f"whole-{name}"
    chunked = {"chunk": 8, "batch_size": 32}
    predict_file(model, source, expected, **chunked)
    size = expected.stat().st_size
    part = f"{name}.part"
    for limit, left in ((8, False), (size // 2, True)):
        outcome = faults.run(lambda: run(model, source, out, **chunked), file_size=limit)
        assert outcome.code == 1
        message = outcome.err.strip().splitlines()[-1]
        assert f"{part}" in message
        assert "cannot be written: File too large" in message
        assert ("--resume continues behind them" in message) == left
        assert not out.exists()
        assert (tmp_path / part).exists() == left
    done = predict_file(model, source, out, resume=True, **chunked)
    assert 0 < done.resumed < done.pairs
    assert out.read_bytes() == expected.read_bytes()


@linux
def test_a_full_disk_on_the_command_line(model, tmp_path, forks):  # noqa: F811
    """1200 pairs are two chunks there, and the first fits."""
    source = write_csv(tmp_path / "rows.csv", [PAIRS[i % len(PAIRS)] for i in range(1200)])
    model.save_pretrained(tmp_path / "model")
    predict_file(model, source, tmp_path / "whole.jsonl")
    out, size = tmp_path / "out.jsonl", (tmp_path / "whole.jsonl").stat().st_size
    arguments = ["predict", str(source), "-m", str(tmp_path / "model"), "-o", str(out)]
    outcome = faults.run(lambda: app(arguments), file_size=int(size * 0.95))
    assert outcome.code == 1
    assert outcome.err == (
        f"neurogame predict: {out}.part cannot be written: File too large; complete chunks are kept, "
        "--resume continues behind them\n"
    )
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"neurogame predict: {out}.part holds an interrupted run; --resume continues it, or delete it and its journal\n"
    )
    done = CliRunner().invoke(app, [*arguments, "--resume", "--json"])
    assert done.exit_code == 0
    assert {name: json.loads(done.stdout)[name] for name in ("pairs", "resumed")} == {"pairs": 1200, "resumed": 1024}
    assert done.stderr == "1200 pairs labelled (1024 of them before)\n"
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert names(tmp_path) == ["model", "out.jsonl", "rows.csv", "whole.jsonl"]
    for more, message in (
        (["--resume"], "the output exists already"),
        (["--shard", "3/2"], "part 3/2 does not exist; allowed: 1/2 to 2/2"),
        (["--shard", "two"], "allowed: I/N, as in 2/4"),
    ):
        assert message in CliRunner().invoke(app, [*arguments, *more]).stderr


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
    source = write_jsonl(tmp_path / "a.jsonl", found)
    alone = run(Stub(), source, tmp_path / "alone.csv", chunk=1)
    run(Stub(), source, tmp_path / "out.csv", chunk=1, shard=Shard(1, 2))
    done = run(Stub(), source, tmp_path / "out.csv", chunk=1, shard=Shard(2, 2))
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
