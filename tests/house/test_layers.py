"""Which room may import which: imports inside functions count too, imports for type checkers do not.

Data flows down `ROOMS`: a module may import from its own room and from rooms above it in the list. `DEBTS` names the
imports that still break this rule, or that stand inside a function to hide a circle. It may only shrink: an entry that
is no longer needed fails the test.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from shapes import CHECKED

import neurogame

SOURCE = Path(neurogame.__file__).parent
ROOMS = (
    ("_common", "labels", "embedded"),  # tools
    ("game", "sampling", "kernels", "marginals", "couplings", "interactions", "values", "exact"),  # the paper: games
    ("spectrum", "implicit_gradient", "ising", "attention"),  # and spins
    ("query_game", "players", "self_attention"),
    ("readout", "hamiltonian", "example", "outputs"),
    ("modeling",),
    ("",),  # neurogame/__init__.py: all names, imported when they are asked for
    ("data",),
    ("classifier",),
    ("export",),
    ("opening",),
    ("grounding",),
    ("jobs",),
    ("explanation",),
    ("grounding.passes",),  # kept by a journal of `jobs`
    ("grounding.explainer",),  # a game that was fitted, and explains by itself
    ("nli",),
    ("about", "batch", "prediction", "evaluation"),
    ("training", "serving"),
    ("faithfulness",),  # the former name of a part of neurogame_bench
    ("cli", "__main__"),
)
BENCH = ("cli", "faithfulness")  # what alone may import the sibling package
DEBTS: set[str] = set()
Import = tuple[str, bool]  # a module of ours, and whether it is imported inside a function


def modules() -> dict[str, Path]:
    """Path of each module by its name without "neurogame."; "" is the package itself."""
    paths = (path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")))
    return {".".join(path.with_suffix("").parts).removesuffix("__init__").rstrip("."): SOURCE / path for path in paths}


MODULES = modules()


def imports(tree: ast.AST, *, lazy: bool = False) -> Iterator[Import]:
    """All imports of our own modules below a node."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((name, lazy) for alias in node.names if (name := _ours(alias.name)) is not None)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if (package := _ours(node.module or "")) is not None:
                names = (f"{package}.{alias.name}".removeprefix(".") for alias in node.names)
                yield from ((name if name in MODULES else package, lazy) for name in names)
        yield from imports(node, lazy=lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _packages(tree: ast.AST) -> set[str]:
    """All packages that a module imports by name, also those for `import_module`."""
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {
        ast.unparse(node.args[0]).lstrip("f").strip("'")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module"
    }
    return {module.split(".")[0] for module in modules}


def _ours(name: str) -> str | None:
    """The name of a module of ours without "neurogame."; None for others."""
    return name.removeprefix("neurogame").removeprefix(".") if name.split(".")[0] == "neurogame" else None


def graph() -> dict[str, list[Import]]:
    return {name: list(imports(ast.parse(path.read_text(encoding="utf-8")))) for name, path in MODULES.items()}


def room(module: str) -> int:
    """The room of a module: that of the longest name in `ROOMS` which it starts with."""
    fits = [
        (len(name), i) for i, names in enumerate(ROOMS) for name in names if module == name or _within(module, name)
    ]
    assert fits, f"{module} has no room: add it to ROOMS"
    return max(fits)[1]


def _within(module: str, package: str) -> bool:
    return bool(package) and module.startswith(f"{package}.")


def broken() -> set[str]:
    """Imports that go down the list of rooms, and those inside functions that close a circle."""
    edges = graph()
    reach = {module: {target for target, _ in targets} for module, targets in edges.items()}
    return {
        f"{module or 'neurogame'} → {target or 'neurogame'}"
        for module, targets in edges.items()
        for target, lazy in targets
        if room(target) > room(module) or (lazy and target != module and module in _reachable(reach, target))
    }


def _reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    """All modules that an import of `start` may import."""
    found, left = {start}, [start]
    while left:
        fresh = edges[left.pop()] - found
        found |= fresh
        left += fresh
    return found


def test_every_import_goes_up_the_list_but_for_the_debts():
    found = broken()
    assert not (new := found - DEBTS), f"imports against the order of rooms: {sorted(new)}"
    assert not (paid := DEBTS - found), f"no longer needed, remove from DEBTS: {sorted(paid)}"


def test_only_the_command_line_and_the_former_name_import_the_sibling_package():
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    assert {name for name, tree in trees.items() if "neurogame_bench" in _packages(tree)} == set(BENCH)


def test_lazy_imports_are_seen():
    text = """
from typing import TYPE_CHECKING
import torch, neurogame.labels
from neurogame import exact, game as g
from neurogame.data.words import Level
if TYPE_CHECKING:
    from neurogame.nli import NLI
def f():
    from neurogame.explanation import explain, removal
    import neurogame
"""
    assert list(imports(ast.parse(text))) == [
        ("labels", False),
        ("exact", False),
        ("game", False),
        ("data.words", False),
        ("explanation", True),
        ("explanation.removal", True),
        ("", True),
    ]


def test_the_modules_whose_shapes_are_checked_exist():
    """A name that is none would switch its checks off without a word."""
    assert set(CHECKED) <= set(MODULES)
