"""Prediction jobs whose process is killed, or whose disk is full: what is written stays, and is resumed."""

import json
import os
import random
import signal

import faults
import pytest
from test_prediction import PAIRS, model, write_csv  # noqa: F401  model: a fixture
from test_prediction_resume import linux, names, rows, run, source, whole  # noqa: F401  fixtures
from typer.testing import CliRunner

from neurogame.cli import app
from neurogame.jobs import parts
from neurogame.prediction import Shard, predict_file

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
    file = write_csv(tmp_path / "rows.csv", [row.values() for row in found], tuple(found[0]))
    model.save_pretrained(tmp_path / "model")
    out, expected = tmp_path / name, tmp_path / f"whole-{name}"
    chunked = {"chunk": 8, "batch_size": 32}
    predict_file(model, file, expected, **chunked)
    size = expected.stat().st_size
    part = f"{name}.part"
    for limit, left in ((8, False), (size // 2, True)):
        outcome = faults.run(lambda: run(model, file, out, **chunked), file_size=limit)
        assert outcome.code == 1
        message = outcome.err.strip().splitlines()[-1]
        assert f"{part}" in message
        assert "cannot be written: File too large" in message
        assert ("--resume continues behind them" in message) == left
        assert not out.exists()
        assert (tmp_path / part).exists() == left
    done = predict_file(model, file, out, resume=True, **chunked)
    assert 0 < done.resumed < done.pairs
    assert out.read_bytes() == expected.read_bytes()


@linux
def test_a_full_disk_on_the_command_line(model, tmp_path, forks):  # noqa: F811
    """1200 pairs are two chunks there, and the first fits."""
    file = write_csv(tmp_path / "rows.csv", [PAIRS[i % len(PAIRS)] for i in range(1200)])
    model.save_pretrained(tmp_path / "model")
    predict_file(model, file, tmp_path / "whole.jsonl")
    out, size = tmp_path / "out.jsonl", (tmp_path / "whole.jsonl").stat().st_size
    arguments = ["predict", str(file), "-m", str(tmp_path / "model"), "-o", str(out)]
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
