"""Examples in docstrings print what they say; the public functions say what they take and give."""

import doctest
import importlib
import inspect
import re

import pytest
import torch
from test_public_api import members, things

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
    assert "Example:" in inspect.getdoc(VERBS[name])
    assert undocumented(VERBS[name]) == []


def parameters(function) -> list[str]:
    return [name for name in inspect.signature(inspect.unwrap(function)).parameters if name not in ("self", "cls")]


def undocumented(function) -> list[str]:
    """Parameters that the section Args of a docstring does not have."""
    documented = (inspect.getdoc(function) or "").partition("Args:")[2]
    return [name for name in parameters(function) if not re.search(rf"(^|, |\s){name}(, \w+)*: ", documented)]


def overrides(kind: type, name: str) -> bool:
    """Whether a method is that of another library's class, which documents it."""
    return any(hasattr(base, name) for base in kind.__mro__[1:] if not base.__module__.startswith("neurogame"))


def test_public_functions_of_three_or_more_parameters_explain_each_and_what_they_return():
    known = dict(things())
    classes = {name: kind for name, kind in known.items() if inspect.isclass(kind)}
    known |= {f"{n}.{m}": x for n, kind in classes.items() for m, x in members(kind) if not overrides(kind, m)}
    many = {name: x for name, x in known.items() if inspect.isfunction(x) and len(parameters(x)) > 2}
    assert len(many) > 30
    assert {name: lacking for name, thing in many.items() if (lacking := undocumented(thing))} == {}
    functions = {name: x for name, x in many.items() if "." not in x.__qualname__}
    assert [name for name, x in functions.items() if not {"Returns:", "Raises:"} & set(x.__doc__.split())] == []
