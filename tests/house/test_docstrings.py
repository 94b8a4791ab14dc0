"""Examples in docstrings print what they say; the public functions say what they take and give."""

import doctest
import importlib
import inspect

import pytest
import torch

import neurogame
from neurogame import exact, explanation, grounding, ising, nli

MODULES = (
    "attention",
    "exact",
    "explanation.methods",
    "game",
    "grounding.coalitions",
    "hamiltonian",
    "ising",
    "outputs",
    "readout",
    "values",
)
VERBS = {
    f"{module.__name__}.{name}": value
    for module, names in (
        (exact, ("value_table", "shapley", "banzhaf", "interactions", "gibbs", "marginals")),
        (ising, ("energy", "solve")),
        (neurogame, ("estimate", "estimate_game", "load", "ground")),
        (explanation, ("explain", "methods_for", "best", "named")),
        (grounding, ("draw", "tokens_of", "centred", "r_squared", "observe", "fit_games", "fit_quality")),
        (nli.NLI, ("predict", "explain", "save_pretrained")),
    )
    for name in names
    for value in (getattr(module, name),)
}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"neurogame.{name}")
    names = {"exact": exact, "ising": ising, "neurogame": neurogame, "torch": torch}
    failed, tried = doctest.testmod(module, extraglobs=names)
    assert tried > 0
    assert not failed


@pytest.mark.parametrize("name", VERBS)
def test_public_functions_say_what_they_take(name):
    text = inspect.getdoc(VERBS[name])
    assert "Args:" in text
    assert "Example:" in text
    documented = text.split("Args:")[1]
    for parameter in inspect.signature(VERBS[name]).parameters:
        assert parameter == "self" or f"{parameter}: " in documented, parameter
