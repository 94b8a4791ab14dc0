"""What happens between the steps of a run: averaging, temperature, the log, the best model, progress."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from neurogame.attention import NeuroGameAttention
from neurogame.training.config import GammaSection
from neurogame.writing import atomic_folder

if TYPE_CHECKING:
    from neurogame.training.trainer import NeuroGameTrainer

METRIC = "eval_accuracy"


class AverageWeights(TrainerCallback):
    """After each optimiser step the average moves towards the weights."""

    def __init__(self, trainer: "NeuroGameTrainer") -> None:
        self.trainer = trainer

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """The parameters have just been updated."""
        assert self.trainer.averaged is not None
        self.trainer.averaged.update_parameters(self.trainer.model)


class Epochs(TrainerCallback):
    """Tells the sampler and the data set which epoch it is.

    accelerate sets the epoch of the data set only where the sampler has no `set_epoch`, and of neither in an epoch that
    several processes resume.
    """

    def __init__(self, trainer: "NeuroGameTrainer") -> None:
        self.trainer = trainer

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """`state.epoch` counts finished epochs, with a fraction where one is resumed."""
        parts: list[Any] = [self.trainer.sampler, self.trainer.train_dataset]
        for part in parts:
            if hasattr(part, "set_epoch"):
                part.set_epoch(int(state.epoch or 0))


class TemperatureSchedule(TrainerCallback):
    """γ learned, held at a value, or moved geometrically from `start` to `end` over the run."""

    def __init__(self, trainer: "NeuroGameTrainer", section: GammaSection) -> None:
        self.trainer, self.section = trainer, section
        if section.start is not None:
            self._set(section.start)
        if section.schedule != "learned":
            for layer in self._layers():
                layer.log_gamma.requires_grad = False

    def _layers(self) -> list[NeuroGameAttention]:
        models = [self.trainer.model]
        if self.trainer.averaged is not None:  # a schedule is not averaged: what is evaluated has today's γ
            models.append(self.trainer.averaged.module)
        return [layer for model in models for layer in model.modules() if isinstance(layer, NeuroGameAttention)]

    def _set(self, gamma: float) -> None:
        with torch.no_grad():
            for layer in self._layers():
                layer.log_gamma.fill_(math.log(gamma))

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """γ_t = start^(1−t) · end^t with t the share of the run that is done."""
        section = self.section
        if section.schedule == "annealed":
            assert section.start is not None
            assert section.end is not None
            t = state.global_step / max(1, state.max_steps - 1)
            self._set(section.start ** (1.0 - t) * section.end**t)


class LogWithCheckpoints(TrainerCallback):
    """The log is written out with each checkpoint: what has been summed up since the last entry is not in one."""

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """A checkpoint within an epoch is due."""
        control.should_log |= control.should_save

    on_epoch_end = on_step_end


def is_out_of_patience(log: list[dict[str, Any]], patience: int | None) -> bool:
    """Whether the last `patience` evaluations were no better than the best before them."""
    history = [entry[METRIC] for entry in log if METRIC in entry]
    return patience is not None and len(history) > 0 and len(history) - 1 - history.index(max(history)) >= patience


class BestModel(TrainerCallback):
    """Keeps the model with the best dev accuracy, and stops when it has not improved for `patience` evaluations.

    Both are read off the log of the run, which a checkpoint carries: nothing else to resume.
    """

    def __init__(self, trainer: "NeuroGameTrainer", folder: Path, patience: int | None) -> None:
        self.trainer, self.folder, self.patience = trainer, folder, patience

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The evaluation has been logged."""
        history = [entry[METRIC] for entry in state.log_history if METRIC in entry]
        if len(history) == 1 or history[-1] > max(history[:-1]):
            if args.should_save:
                self._keep()
        elif is_out_of_patience(state.log_history, self.patience):
            control.should_training_stop = True

    def _keep(self) -> None:
        """Written aside, then put in the place of the old one."""
        with atomic_folder(self.folder, last="config.json") as fresh:
            self.trainer.save_model(str(fresh), _internal_call=True)


class Bar(ProgressCallback):
    """transformers' progress bar with the log beside it, on stderr: stdout is for results."""

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ) -> None:
        """The latest figures follow the bar."""
        if state.is_world_process_zero and self.training_bar is not None and logs is not None:
            names = {"loss": "loss", "learning_rate": "lr", METRIC: "dev", "eval_coalition_r2": "R²"}
            shown = {short: f"{logs[name]:.4g}" for name, short in names.items() if name in logs}
            self._shown = {**getattr(self, "_shown", {}), **shown}
            self.training_bar.set_postfix(self._shown)

    def close(self) -> None:
        """However the run has ended: the next output begins on a line of its own."""
        for bar in (self.prediction_bar, self.training_bar):
            if bar is not None:
                bar.close()
