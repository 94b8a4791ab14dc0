"""The curves of a run as a figure: loss and learning rate over the steps, dev accuracy at the evaluations."""

from pathlib import Path
from typing import Any

from neurogame.extras import need
from neurogame.writing import save_figure


def draw(history: list[dict[str, Any]], path: str | Path) -> None:
    """From the log of the trainer; parts that were not logged are left out."""
    figure = need("matplotlib.figure", "train").Figure(figsize=(8.0, 6.0), layout="constrained")
    loss, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    trained = [entry for entry in history if "loss" in entry]
    evaluated = [entry for entry in history if "eval_accuracy" in entry]
    loss.plot([e["step"] for e in trained], [e["loss"] for e in trained], color="#0072B2", label="training loss")
    loss.plot(
        [e["step"] for e in evaluated],
        [e["eval_loss"] for e in evaluated],
        color="#56B4E9",
        linestyle="--",
        marker="o",
        markersize=3,
        label="dev loss",
    )
    loss.set_ylabel("cross-entropy")
    loss.grid(alpha=0.3)
    accuracy = loss.twinx()
    accuracy.plot(
        [e["step"] for e in evaluated],
        [100 * e["eval_accuracy"] for e in evaluated],
        color="#D55E00",
        marker="s",
        markersize=4,
        label="dev accuracy",
    )
    accuracy.set_ylabel("accuracy (%)")
    lines = [*loss.get_lines(), *accuracy.get_lines()]
    figure.legend(lines, [str(line.get_label()) for line in lines], loc="outside upper center", ncols=3)
    rated = [entry for entry in trained if "learning_rate" in entry]
    rate.plot([e["step"] for e in rated], [e["learning_rate"] for e in rated], color="#555555")
    rate.set_ylabel("learning rate")
    rate.set_xlabel("optimiser step")
    rate.grid(alpha=0.3)
    save_figure(figure, path, dpi=120)
