"""The model card of a run: what was trained, on what, how, and what came out, written from the records of the run."""

import platform
from pathlib import Path
from typing import Any

import yaml

from neurogame.about import version_of
from neurogame.data import PairDataset
from neurogame.evaluation import Report
from neurogame.places import is_path
from neurogame.training.config import RunConfig, TrainingSection

_LIBRARIES = ("neurogame", "torch", "transformers", "accelerate", "tokenizers")
_EXPOSURE = {
    "minilm": "all-MiniLM saw SNLI and MNLI training pairs in its contrastive training.",
    "mpnet": "all-mpnet saw SNLI and MNLI training pairs in its contrastive training.",
}


def versions() -> dict[str, str]:
    """Of Python and the libraries that computed the figures."""
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
    rows = report.rows
    head = {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["natural-language-inference", "neurogame"],
        "model-index": [
            {
                "name": config.name,
                "results": [
                    {
                        "task": {"type": "natural-language-inference"},
                        "dataset": {"name": row.data, "type": row.data},
                        "metrics": [{"type": "accuracy", "value": round(row.scores.accuracy, 4)}],
                    }
                    for row in rows
                ],
            }
        ],
    }
    if config.model.encoder and not _is_folder(config.model.encoder):
        head["base_model"] = config.model.encoder
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---",
        f"# {config.name}",
        _what(config, metrics),
        _use(config),
        f"## Results\n\n{_results(report)}{grounded(metrics)}",
        f"## Data\n\n{_data(metrics)}",
        f"## Training\n\n{_training(config, metrics)}",
        f"## Limits\n\n{_limits(config)}",
        "Cite the NeuroGame paper and this library as CITATION.cff in the library's repository says.",
    ]
    return "\n\n".join(parts) + "\n"


def _what(config: RunConfig, metrics: dict[str, Any]) -> str:
    model = config.model
    kinds = {
        "neurogame": f"`{model.head}` head (preset `{model.preset}`) on `{_short(model.encoder)}`",
        "transformers": f"`{_short(model.encoder)}` with the classifier of transformers",
        "dam": "model by decomposable attention (DAM)",
        "esim": "sequential inference model (ESIM)",
    }
    return (
        f"Natural-language inference: does a premise entail a hypothesis, contradict it, or neither? "
        f"A {kinds[model.kind]}, {metrics['parameters']:,} parameters, trained with neurogame."
    )


def _use(config: RunConfig) -> str:
    return (
        "```python\nimport neurogame\n\n"
        f'nli = neurogame.load("{config.name}/model")  # this folder\n'
        'nli.predict("A man is asleep.", "Nobody is awake.").probabilities\n```'
    )


def _results(report: Report) -> str:
    lines = [
        "| data | pairs | accuracy (95 % interval) | macro-F1 | ECE before → after temperature |",
        "|---|---|---|---|---|",
    ]
    for row in report.rows:
        s, c = row.scores, row.calibration
        low, high = s.interval
        after = "–" if c.after is None else f"{100 * c.after.ece:.1f}"
        lines.append(
            f"| {row.data} | {row.n} | {100 * s.accuracy:.2f} ({100 * low:.2f}–{100 * high:.2f}) "
            f"| {100 * s.macro_f1:.2f} | {100 * c.before.ece:.1f} → {after} |"
        )
    return (
        "\n".join(lines)
        + "\n\nThe first row is the data the model was chosen on; its temperature is cross-fitted there, each half with"
        " that of the other. See `report.md` in the folder of the run for the rest."
    )


def grounded(metrics: dict[str, Any]) -> str:
    """How well the game of a model with a game readout predicts the model; nothing where that was not measured."""
    if "coalition_r2" not in metrics:
        return ""
    return (
        f"\n\nR² of the game on coalitions of words of dev: {metrics['coalition_r2']:.3f}. It says how far Shapley "
        "values, Banzhaf values and interactions of an explanation are about the decision; 1 is best."
    )


def _data(metrics: dict[str, Any]) -> str:
    lines = ["| for | set | pairs | labels | without gold label | malformed |", "|---|---|---|---|---|---|"]
    data = metrics["data"]
    for role, about in (("training", data["train"]), ("dev", data["dev"]), *(("test", test) for test in data["test"])):
        labels = ", ".join(f"{label} {count}" for label, count in about["labels"].items())
        counts = f"{about['pairs']} | {labels} | {about['without_gold']} | {about['malformed']}"
        lines.append(f"| {role} | {about['name']} | {counts} |")
    return "\n".join(lines)


def _training(config: RunConfig, metrics: dict[str, Any]) -> str:
    """Settings that differ from the defaults are the ones a reader looks for."""
    default = TrainingSection().model_dump()
    lines = [
        f"- {name}: {value}" + ("" if value == default[name] else " (not the default)")
        for name, value in config.training.model_dump().items()
    ]
    model = config.model
    lines += [f"- model: {name}: {value}" for name, value in {**model.options, **model.attention}.items()]
    if model.vectors:
        lines.append(f"- word vectors: {_short(model.vectors)}")
    about = f"Seed {config.seed}, {metrics['steps']} optimiser steps, {metrics['seconds'] / 60:.1f} minutes in all."
    libraries = ", ".join(f"{name} {number}" for name, number in metrics["versions"].items())
    return (
        f"{about}\n\n" + "\n".join(lines) + f"\n\nWith {libraries}. `config.yaml` in the folder of the run repeats it."
    )


def _limits(config: RunConfig) -> str:
    exposure = [text for key, text in _EXPOSURE.items() if key in (config.model.encoder or "").lower().replace("-", "")]
    lines = [
        "English only; sentence pairs of the length and kind it was trained on.",
        f"Pairs are cut to {config.data.max_length} tokens; predictions say when that happened.",
        "NLI data sets carry annotation artefacts; accuracy on them is not a measure of reasoning.",
        "The licences of the training data apply to what is made from them.",
        *exposure,
    ]
    return "\n".join(f"- {line}" for line in lines)


def _short(name: str | None) -> str:
    """A folder or file by its own name: a card does not repeat the paths of a machine."""
    text = name or ""
    return text.rstrip("/").rpartition("/")[2] if _is_folder(text) else text


def _is_folder(name: str) -> bool:
    """Whether a name is one on this machine, not one of the hub or of a package."""
    return is_path(name) or Path(name).exists()
