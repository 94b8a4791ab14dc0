"""The benchmarks run, count right and draw; no assertion about time."""

import json
import sys
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from neurogame import about
from neurogame.cli import app
from neurogame_bench import attention, couplings, self_attention, timing

runner = CliRunner()


def shown(renderable):
    console = Console(width=200, record=True, file=StringIO())
    console.print(renderable)
    return console.export_text()


def test_contestants_take_turns():
    calls = []
    found = timing.interleaved({name: lambda name=name: calls.append(name) for name in "ab"}, 3)
    assert calls == ["a", "b"] * 4  # one warm-up round
    assert set(found) == {"a", "b"}
    assert all(seconds >= 0 for seconds in found.values())


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from Linux's /proc")
def test_peak_memory_sees_what_is_allocated():
    setup = "def run(size):\n    return len(bytearray(size))\nwarm, real = (1000,), (50_000_000,)"
    assert 45e6 < timing.peak_memory(setup) < 70e6


def test_machine_is_described():
    assert {"processor", "threads", "torch", "neurogame", "compiled kernels"} <= set(about.machine())


def test_attention_benchmark(monkeypatch, tmp_path):
    monkeypatch.setattr(attention, "DIM", 16)
    monkeypatch.setattr(attention, "HEADS", 2)
    monkeypatch.setattr(attention, "CASES", ((2, 8, "linear", False, 0.6), (2, 8, "pairs", True, 1.5)))
    monkeypatch.setattr(attention, "_memory", lambda _: {"a": 1, "b": 2, "c": 3})
    monkeypatch.setattr(self_attention, "DIM", 16)
    monkeypatch.setattr(self_attention, "HEADS", 2)
    monkeypatch.setattr(self_attention, "CASES", ((2, 8, False), (2, 8, True)))
    monkeypatch.setattr(self_attention, "peak_memory", lambda setup: len(setup))
    steps = []
    found = attention.run(repetitions=2, lengths=(16, 32), progress=steps.append)
    json.dumps(found)
    assert len(found["cases"]) == 2
    assert found["long"][1]["growth"] > 0
    assert found["model"]["ratio"] > 0
    assert len(steps) >= 5
    text = shown(attention.table(found))
    assert "MHA, one query ratio" in text
    assert "Inside a transformer" in text
    inside = found["self_attention"]
    assert [row["pass"] for row in inside["cases"]] == ["forward", "forward + backward"]
    assert all(row[name] > 0 for row in inside["cases"] for name in (*self_attention.KINDS, "SDPA alone"))
    assert len(inside["memory"]) == len(inside["operations"]) == 1
    attention.figure(found, tmp_path / "figures" / "attention.png")
    assert (tmp_path / "figures" / "attention.png").stat().st_size > 1000


def test_operations_are_counted():
    """MHA: four projections and two n²·d products; ours: one projection and the rest."""
    found = attention.operations(8, 128)
    assert found["MHA"] == pytest.approx((4 * 8 * 128 * 768 * 768 + 2 * 8 * 12 * 128 * 128 * 64) / 1e6)
    assert found["linear: W_v"] == pytest.approx(8 * 128 * 768 * 768 / 1e6)
    assert found["linear"] < 0.5 * found["MHA"]


def test_operations_of_self_attention_are_counted():
    """Four projections and two n²·d products for each update; the backward pass of one update has five more."""
    found = self_attention.operations(8, 128)
    unit, project = 8 * 12 * 128 * 128 * 64 / 1e6, 8 * 128 * 768 * 768 / 1e6
    assert found["MHA, forward"] == pytest.approx(4 * project + 2 * unit)
    assert found["MHA, forward"] == pytest.approx(attention.operations(8, 128)["MHA"])
    assert found["couplings, forward"] == pytest.approx(4 * project + 4 * unit)
    assert found["no couplings, ratio forward + backward"] == 1.0
    assert found["MHA, forward + backward"] == pytest.approx(12 * project + 7 * unit)


def test_couplings_benchmark(tmp_path):
    found = couplings.run(lengths=(8, 32), repetitions=2, progress=lambda _: None)
    json.dumps(found)
    by_length = {row["tokens"]: row["linear form"] for row in found["rows"] if not row["anchor"]}
    assert by_length[32] < by_length[8]
    assert "sampling" in shown(couplings.table(found))
    couplings.figure(found, tmp_path / "couplings.png")
    assert (tmp_path / "couplings.png").exists()


def test_command_line(monkeypatch, tmp_path):
    fast = couplings.run
    monkeypatch.setattr(couplings, "run", lambda **options: fast(lengths=(8,), repetitions=1, **options))
    result = runner.invoke(app, ["benchmark", "couplings", "--json", "--figure", str(tmp_path / "c.svg")])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["rows"][0]["tokens"] == 8
    assert (tmp_path / "c.svg").exists()
    assert "Relative error" in runner.invoke(app, ["benchmark", "couplings"]).stdout


def test_a_figure_of_another_kind_is_refused_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(couplings, "run", None)
    result = runner.invoke(app, ["benchmark", "couplings", "--figure", "c.pdf"])
    assert result.exit_code == 1
    assert "written as .png or .svg, got 'c.pdf'" in result.stderr


def test_missing_extras_are_one_line(monkeypatch):
    def run(**_):
        raise ImportError("matplotlib is missing: pip install 'neurogame[bench]'")

    monkeypatch.setattr(couplings, "run", run)
    result = runner.invoke(app, ["benchmark", "couplings"])
    assert result.exit_code == 1
    assert result.stderr.strip().endswith(
        "neurogame benchmark couplings: matplotlib is missing: pip install 'neurogame[bench]'"
    )
    assert "Traceback" not in result.stderr


def test_throughput_runs_and_draws(tmp_path, monkeypatch):
    """On a tiny scale: every head is trained and evaluated, mean is the unit."""
    from neurogame_bench import throughput

    monkeypatch.setattr(throughput, "BATCH", 2)
    monkeypatch.setattr(throughput, "SIZES", {**throughput.SIZES, "num_hidden_layers": 1, "vocab_size": 2000})
    found = throughput.run(repetitions=1, heads=("neurogame", "cls"))
    assert [row["head"] for row in found["rows"]] == ["mean", "neurogame", "cls"]
    assert found["rows"][0]["training ratio"] == found["rows"][0]["evaluation ratio"] == 1.0
    assert all(row["training pairs/s"] > 0 for row in found["rows"])
    assert "neurogame" in shown(throughput.table(found))
    throughput.figure(found, tmp_path / "throughput.png")
    assert (tmp_path / "throughput.png").stat().st_size > 1000
