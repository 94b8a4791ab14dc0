"""The installation in a few lines: versions, machine, extras, embedded model. Read by `neurogame info`."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape
from rich.table import Table

import neurogame
from neurogame import embedded, kernels
from neurogame._common.extras import EXTRAS, install_line, installed
from neurogame._common.printing import printable

_LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


def machine() -> dict[str, Any]:
    """Processor, threads and versions: recorded beside measured figures."""
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "neurogame": neurogame.__version__,
        "compiled kernels": kernels.library() is not None,
    }


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return name or platform.processor() or platform.machine()


def describe() -> dict[str, Any]:
    """Everything `neurogame info` says; a damaged model is a line of it, not an error."""
    return {
        "neurogame": neurogame.__version__,
        "machine": machine(),
        "loops": kernels.state(),
        "libraries": {name: version_of(name) for name in _LIBRARIES},
        "extras": {extra: installed(extra) for extra in EXTRAS},
        "model": _model(),
    }


def _model() -> dict[str, Any]:
    try:
        folder = embedded.folder()
    except embedded.DamagedError as error:
        return {"problem": str(error)}
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = folder / embedded.WEIGHTS
    return {
        "head": config["head"],
        "preset": config["preset"],
        "labels": [config["id2label"][key] for key in sorted(config["id2label"])],
        "temperature": config["temperature"],
        "megabytes": round(weights.stat().st_size / 1e6, 1),
        "sha256": embedded.digest(weights),
    }


def version_of(name: str) -> str | None:
    """Of an installed library; None where it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def render(facts: dict[str, Any]) -> Table:
    """The facts as a table of two columns."""
    out = Table(show_header=False, box=None, pad_edge=False)
    on, model = facts["machine"], facts["model"]
    out.add_row("neurogame", f"{facts['neurogame']}, Python {on['python']}")
    out.add_row("libraries", ", ".join(f"{name} {number}" for name, number in facts["libraries"].items()))
    out.add_row("machine", f"{on['processor']}, {on['threads']} threads, loops: {printable(facts['loops'])}")
    extras = (f"{name} {'installed' if has else 'not installed'}" for name, has in facts["extras"].items())
    out.add_row("extras", ", ".join(extras))
    missing = [name for name, has in facts["extras"].items() if not has]
    if missing:
        out.add_row("", f"a missing one: {escape(printable(install_line(missing[0])))}")
    if "problem" in model:
        out.add_row("model", model["problem"])
    else:
        about = f"{model['head']} head, {model['preset']} preset, {model['megabytes']} MB, temperature"
        out.add_row("model", f"{about} {model['temperature']:.3g}: {', '.join(model['labels'])}")
        out.add_row("", f"SHA-256 {model['sha256']}")
    return out
