import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import neurogame
from neurogame.cli import app

runner = CliRunner()


def test_example_prints_the_tables():
    result = runner.invoke(app, ["example"])
    assert result.exit_code == 0
    for words in ("Shapley", "algorithm1", "paired", "TAP", "0.7667", "0.711", "0.7858", "0.721"):
        assert words in result.stdout


def test_example_as_json():
    result = runner.invoke(app, ["example", "--json"])
    found = json.loads(result.stdout)
    assert found["exact"]["shapley"] == pytest.approx([31 / 60, 46 / 60, 31 / 60])
    assert [(row["estimator"], row["requested_samples"]) for row in found["estimates"]] == [
        (name, K) for name in ("algorithm1", "paired") for K in (3, 25, 1000)
    ]
    last = {row["estimator"]: row for row in found["estimates"] if row["requested_samples"] == 1000}
    assert last["paired"]["shapley_error"] < 0.01 < 0.05 < last["algorithm1"]["shapley_error"]


def test_narrow_terminals(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert runner.invoke(app, ["example"]).exit_code == 0


def test_usage():
    assert runner.invoke(app, ["--version"]).stdout.strip() == f"neurogame {neurogame.__version__}"
    assert runner.invoke(app, ["nothing"]).exit_code == 2
    assert runner.invoke(app, ["example", "--nothing"]).exit_code == 2
    assert "example" in runner.invoke(app, ["--help"]).stdout


def test_the_command_is_installed():
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "neurogame", "--version"], capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_import_is_light():
    """Nothing of the test or benchmark extras is imported."""
    heavy = ("scipy", "shapiq", "matplotlib", "transformers", "rich", "typer")
    code = f"import sys, neurogame; print(*[m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
