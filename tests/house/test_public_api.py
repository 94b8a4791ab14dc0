"""The public contract: names and signatures, compared with `public_api.txt`.

A change that is meant is written there by `python tests/house/test_public_api.py`, so that a review sees it as a line.
"""

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import neurogame

SNAPSHOT = Path(__file__).with_name("public_api.txt")
MODULES = {  # beyond `neurogame` itself: what API.md and the docs import by module; None: all names of `__all__`
    "neurogame.exact": ("value_table", "shapley", "banzhaf", "interactions", "gibbs", "marginals"),
    "neurogame.values": ("estimate", "estimate_game", "GameValues"),
    "neurogame.ising": ("energy", "solve", "SpinState"),
    "neurogame.attention": ("AttentionConfig", "NeuroGameAttention", "NeuroGameOutput"),
    "neurogame.modeling": None,
    "neurogame.nli": ("NLI", "ModelError", "Prediction", "load"),
    "neurogame.batch": ("Predict",),
    "neurogame.data": None,
    "neurogame.grounding": None,
    "neurogame.explanation": None,
    "neurogame.explanation.what_if": ("explain",),
    "neurogame.evaluation": None,
    "neurogame_bench.faithfulness.correlation": ("kendall",),
    "neurogame.prediction": None,
    "neurogame.training": None,
    "neurogame.export": None,
    "neurogame.serving.app": ("create_app",),
    "neurogame.serving.settings": ("Settings",),
}


PLAIN = (bool, int, float, str, tuple, type(None))  # defaults that are shown


def things() -> Iterator[tuple[str, object]]:
    """Every public name with what it names."""
    yield from ((f"neurogame.{name}", getattr(neurogame, name)) for name in sorted(neurogame.__all__))
    for place, names in MODULES.items():
        module = importlib.import_module(place)
        names = sorted(module.__all__ if names is None else names)
        yield from ((f"{place}.{name}", getattr(module, name)) for name in names)


def described() -> Iterator[str]:
    """A line per name: its signature, its fields, or its type."""
    known: dict[int, str] = {}
    for name, thing in things():
        if (inspect.isroutine(thing) or inspect.isclass(thing)) and known.setdefault(id(thing), name) != name:
            yield f"{name} = {known[id(thing)]}"
            continue
        yield from _class(name, thing) if inspect.isclass(thing) else _one(name, thing)


def _one(name: str, thing: object) -> Iterator[str]:
    if inspect.isroutine(thing):
        yield f"def {name}{_signature(thing)}"
    else:
        yield f"module {name}" if inspect.ismodule(thing) else f"{name}: {type(thing).__name__}"


def _class(name: str, kind: type) -> Iterator[str]:
    """Fields or arguments, then public members, inherited ones too; what other libraries add is theirs."""
    yield f"class {name}({', '.join(base.__name__ for base in kind.__bases__)})"
    ours = _ours(kind)
    if dataclasses.is_dataclass(kind):
        declared = {field for base in ours for field in vars(base).get("__annotations__", ())}
        yield f"    fields: {' '.join(field.name for field in dataclasses.fields(kind) if field.name in declared)}"
    elif any("__init__" in vars(base) for base in ours):
        yield f"    __init__{_signature(kind.__init__)}"
    for member, value in members(kind):
        if isinstance(value, property | cached_property):
            yield f"    {member}"
        elif inspect.isfunction(value):
            yield f"    {member}{_signature(value)}"


def _ours(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__.startswith("neurogame")]


def members(kind: type) -> Iterator[tuple[str, object]]:
    """Public members of a class that are defined here, by name."""
    defined = {name: value for base in reversed(_ours(kind)) for name, value in vars(base).items()}
    for name, value in sorted(defined.items()):
        if not name.startswith("_") or name == "__call__":
            yield name, value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _signature(function: object) -> str:
    """Names, order and defaults; annotations are the type checker's business."""
    shown = []
    for parameter in inspect.signature(inspect.unwrap(function)).parameters.values():
        given = parameter.default is not parameter.empty
        default = parameter.default if not given or isinstance(parameter.default, PLAIN) else ...
        shown.append(parameter.replace(annotation=parameter.empty, default=default))
    return str(inspect.Signature(shown))


def test_public_names_and_signatures_are_those_of_the_snapshot():
    expected = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    found = list(described())
    gone, new = ([line for line in a if line not in b] for a, b in ((expected, found), (found, expected)))
    assert found == expected, f"gone: {gone}; new: {new}; meant? python {Path(__file__).name} writes the snapshot"


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(described()) + "\n", encoding="utf-8")
