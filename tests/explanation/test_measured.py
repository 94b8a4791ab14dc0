"""What is said of each method, and that the figures are those in results/."""

import importlib.util
import sys
from pathlib import Path

import pytest
import tiny

from neurogame.explanation.measured import FILE, about, measured
from neurogame.explanation.methods import METHODS

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def command(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("methods_of_the_page", BENCHMARKS / "methods.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_figures_are_those_of_results(command):
    assert FILE.read_text(encoding="utf-8") == command.text()


@pytest.mark.parametrize("model", [tiny.model(), tiny.game_model()], ids=["head", "readout"])
def test_every_method_is_told_in_a_line_of_its_own(model):
    lines = [about(name, model) for name in METHODS]
    assert len(set(lines)) == len(lines)
    assert all(line.endswith(".") and len(line) < 110 for line in lines)


def test_a_figure_names_its_model():
    grounded, plain = tiny.game_model(), tiny.model()
    assert measured("decision", grounded)["model"] == "the embedded model"
    assert measured("decision", plain)["model"] == "the first model that shipped"
    assert measured("kernelshap", grounded)["model"] == "the embedded model"
    assert measured("attention", grounded)["model"] == "the first model that shipped"  # a readout has no such weights
    for name in METHODS:
        found = measured(name, grounded)
        assert found is not None, name
        assert 0 < found["chance"] < 1, name
        assert found["low"] <= found["faithfulness"] <= found["high"], name
