"""Optional packages, imported where they are needed, with one line that says how to get them."""

from importlib import import_module
from types import ModuleType


def need(module: str, extra: str) -> ModuleType:
    """An optional package, or one line on how to get it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise ImportError(f"this needs {module.split('.')[0]}: pip install 'neurogame[{extra}]'") from missing
