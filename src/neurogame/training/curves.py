"""The curves of a run as a figure: loss and learning rate over the steps, dev accuracy at the evaluations."""

from pathlib import Path
from typing import Any

from neurogame._common.extras import need
from neurogame._common.writing import save_figure
from neurogame.training.callbacks import METRIC


def draw(history: list[dict[str, Any]], path: str | Path) -> None:
    """From the log of the trainer; parts that were not logged are left out."""
    figure = need("matplotlib.figure", "train").Figure(figsize=(8.0, 6.0), layout="constrained")
    loss, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    trained = [entry for entry in history if "loss" in entry]
    evaluated = [entry for entry in history if METRIC in entry]
    accuracy = loss.twinx()
    rated = [entry for entry in trained if "learning_rate" in entry]
    dev_loss = {"color": "#56B4E9", "label": "dev loss", "linestyle": "--", "marker": "o", "markersize": 3}
    dev_accuracy = {"color": "#D55E00", "label": "dev accuracy", "marker": "s", "markersize": 4}
    for axes, entries, name, factor, style in (
        (loss, trained, "loss", 1, {"color": "#0072B2", "label": "training loss"}),
        (loss, evaluated, "eval_loss", 1, dev_loss),
        (accuracy, evaluated, METRIC, 100, dev_accuracy),
        (rate, rated, "learning_rate", 1, {"color": "#555555"}),
    ):
        axes.plot([e["step"] for e in entries], [factor * e[name] for e in entries], **style)
    for axes, label in ((loss, "cross-entropy"), (accuracy, "accuracy (%)"), (rate, "learning rate")):
        axes.set_ylabel(label)
    loss.grid(alpha=0.3)
    rate.grid(alpha=0.3)
    rate.set_xlabel("optimiser step")
    lines = [*loss.get_lines(), *accuracy.get_lines()]
    figure.legend(lines, [str(line.get_label()) for line in lines], loc="outside upper center", ncols=3)
    save_figure(figure, path, dpi=120)
