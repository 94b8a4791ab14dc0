"""Lazy imports: names of a package that are imported on first use, since torch and transformers take seconds."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    `names` maps each name to the submodule that defines it, a submodule to itself.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{names[name]}")
        return module if names[name] == name else getattr(module, name)

    return get, lambda: sorted({*vars(sys.modules[package]), *names})
