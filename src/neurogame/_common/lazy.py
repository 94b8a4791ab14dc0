"""Names of a package that are imported when they are asked for: torch and transformers take seconds to import."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        names: name → the module below the package that defines it; a module maps to itself.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{names[name]}")
        return module if names[name] == name else getattr(module, name)

    return get, lambda: sorted({*vars(sys.modules[package]), *names})
