"""The model card of a run: what was trained, on what, how, and what came out, written from the records of the run."""

import platform
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from neurogame._common.places import is_path
from neurogame.about import version_of
from neurogame.data import PairDataset
from neurogame.evaluation import Report
from neurogame.evaluation.views import percent
from neurogame.training.config import RunConfig, TrainingSection

_LIBRARIES = ("neurogame", "torch", "transformers", "accelerate", "tokenizers")
_EXPOSED = ("MiniLM", "mpnet")  # encoders of sentence-transformers


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that computed the results."""
    return {"python": platform.python_version()} | {name: v for name in _LIBRARIES if (v := version_of(name))}


def describe(data: PairDataset) -> dict[str, Any]:
    """A data set by its counts and fingerprint; never by its sentences."""
    return {
        "name": data.name,
        "pairs": len(data),
        "labels": dict(data.counts),
        "without_gold": data.without_gold,
        "malformed": len(data.malformed),
        "fingerprint": data.fingerprint,
    }


def write(config: RunConfig, metrics: dict[str, Any], report: Report) -> str:
    """The card as Markdown, with the metadata block that model hubs read."""
    model, data = config.model, metrics["data"]
    kinds = {
        "neurogame": f"`{model.head}` head (preset `{model.preset}`) on `{_short(model.encoder)}`",
        "transformers": f"`{_short(model.encoder)}` with the classifier of transformers",
        "dam": "model by decomposable attention (DAM)",
        "esim": "sequential inference model (ESIM)",
    }
    results = [
        {
            "task": {"type": "natural-language-inference"},
            "dataset": {"name": row.data, "type": row.data},
            "metrics": [{"type": "accuracy", "value": round(row.scores.accuracy, 4)}],
        }
        for row in report.rows
    ]
    head: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["natural-language-inference", "neurogame"],
        "model-index": [{"name": config.name, "results": results}],
    }
    if model.encoder and not _is_folder(model.encoder):
        head["base_model"] = model.encoder
    loader = FileSystemLoader(Path(__file__).parent)
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = Environment(loader=loader, undefined=StrictUndefined, **options)  # noqa: S701 — Markdown
    environment.filters["percent"] = percent
    return environment.get_template("card.md.jinja").render(
        head=yaml.safe_dump(head, sort_keys=False),
        config=config,
        kind=kinds[model.kind],
        metrics=metrics,
        report=report,
        grounded=grounded(metrics),
        sets=[("training", data["train"]), ("dev", data["dev"]), *(("test", test) for test in data["test"])],
        default=TrainingSection().model_dump(),
        options={**model.options, **model.attention},
        vectors=_short(model.vectors),
        exposed=[name for name in _EXPOSED if name.lower() in (model.encoder or "").lower().replace("-", "")],
    )


def grounded(metrics: dict[str, Any]) -> str:
    """How well the game of a model with a game readout predicts the model; nothing where that was not measured."""
    if "coalition_r2" not in metrics:
        return ""
    return (
        f"\n\nR² of the game on coalitions of words of dev: {metrics['coalition_r2']:.3f}. It says how far Shapley "
        "values, Banzhaf values and interactions of an explanation are about the decision; 1 is best."
    )


def _short(name: str | None) -> str:
    """A folder or file by its own name: a card does not repeat the paths of a machine."""
    text = name or ""
    return text.rstrip("/").rpartition("/")[2] if _is_folder(text) else text


def _is_folder(name: str) -> bool:
    """Whether a name is one on this machine, not one of the hub or of a package."""
    return is_path(name) or Path(name).exists()
