"""Optional packages: which extra brings which, whether they are installed, and the command that installs them."""

import json
import shlex
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

EXTRAS: dict[str, tuple[str, ...]] = {  # modules that each brings, as pyproject.toml has them
    "train": ("accelerate", "entmax", "matplotlib", "pydantic", "yaml", "tensorboard"),
    "explain": ("captum", "matplotlib", "sklearn", "scipy", "shap"),
    "serve": ("fastapi", "prometheus_client", "uvicorn"),
    "export": ("onnx", "onnxruntime", "onnxscript"),
    "hub": ("datasets",),
    "parquet": ("pyarrow",),
    "cluster": ("ray",),
    "bench": ("lime", "shapiq"),
}


def need(module: str, extra: str) -> ModuleType:
    """Import an optional package; an ImportError says how to install it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise ImportError(f"this needs {module.split('.')[0]}: {install_line(extra)}") from missing


def check(extra: str, *modules: str) -> None:
    """Raise the ImportError of `need` where a module is not installed, without importing any."""
    for module in modules or EXTRAS[extra]:
        if find_spec(module) is None:
            raise ImportError(f"this needs {module}: {install_line(extra)}")


def installed(extra: str) -> bool:
    """Whether all packages of an extra are installed."""
    return all(find_spec(module) is not None for module in EXTRAS[extra])


def install_line(extra: str) -> str:
    """The command that adds an extra to this installation: from a clone, from a wheel file, or from the index."""
    origin, source = _origin(), "neurogame"
    places = [Path(__file__).resolve().parents[3], *([origin] if origin else [])]
    clone = next((place for place in places if (place / "pyproject.toml").is_file()), None)
    if clone is not None:
        source = "." if clone == Path.cwd() else str(clone)
    elif origin is not None and origin.suffix == ".whl" and origin.is_file():
        source = str(origin)
    return f"pip install {shlex.quote(f'{source}[{extra}]')}"


def _origin() -> Path | None:
    """What pip was given instead of a name: a folder or a file, as it keeps it in direct_url.json (PEP 610)."""
    try:
        installed_as = distribution("neurogame")
        if not Path(__file__).resolve().is_relative_to(Path(str(installed_as.locate_file(""))).resolve()):
            return None  # the metadata are those of another copy
        url = urlsplit(json.loads(installed_as.read_text("direct_url.json") or "{}").get("url", ""))
    except (PackageNotFoundError, OSError, ValueError):
        return None
    return Path(unquote(url.path)) if url.scheme == "file" else None
