"""What happens between the steps of a run: averaging, temperature, the log, the best model, progress."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_callback import ProgressCallback

from neurogame._common.writing import atomic_folder
from neurogame.attention import NeuroGameAttention

if TYPE_CHECKING:
    from neurogame.training.trainer import NeuroGameTrainer

METRIC = "eval_accuracy"


class FollowRecipe(TrainerCallback):
    """Averaged weights, γ, the number of the epoch, and a log entry with each checkpoint, as the recipe has them."""

    def __init__(self, trainer: "NeuroGameTrainer") -> None:
        self.trainer, self.gamma = trainer, trainer.recipe.gamma
        if self.gamma.start is not None:
            self._set_gamma(self.gamma.start)
        if self.gamma.schedule != "learned":
            for layer in self._layers():
                layer.log_gamma.requires_grad = False

    def _layers(self) -> list[NeuroGameAttention]:
        models = [self.trainer.model]
        if self.trainer.averaged is not None:  # a schedule is not averaged: the averaged model has the γ of this step
            models.append(self.trainer.averaged.module)
        return [layer for model in models for layer in model.modules() if isinstance(layer, NeuroGameAttention)]

    @torch.no_grad()
    def _set_gamma(self, gamma: float) -> None:
        for layer in self._layers():
            layer.log_gamma.fill_(math.log(gamma))

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Tell the sampler and the data set which epoch it is.

        accelerate sets the epoch of the data set only where the sampler has no `set_epoch`, and of neither in an epoch
        that several processes resume. `state.epoch` counts finished epochs, with a fraction where one is resumed.
        """
        parts: list[Any] = [self.trainer.sampler, self.trainer.train_dataset]
        for part in parts:
            if hasattr(part, "set_epoch"):
                part.set_epoch(int(state.epoch or 0))

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """γ_t = start^(1−t) · end^t with t the share of the run that is done."""
        start, end = self.gamma.start, self.gamma.end
        if start is not None and end is not None:
            t = state.global_step / max(1, state.max_steps - 1)
            self._set_gamma(start ** (1.0 - t) * end**t)

    def on_optimizer_step(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Update the moving average of the weights."""
        if self.trainer.averaged is not None:
            self.trainer.averaged.update_parameters(self.trainer.model)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Log with each checkpoint: a checkpoint does not hold the loss summed up since the last log entry."""
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

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Save the model if it is the best so far; stop the run if it is out of patience."""
        history = [entry[METRIC] for entry in state.log_history if METRIC in entry]
        if len(history) == 1 or history[-1] > max(history[:-1]):
            if args.should_save:
                with atomic_folder(self.folder, last="config.json") as fresh:
                    self.trainer.save_model(str(fresh), _internal_call=True)
        elif is_out_of_patience(state.log_history, self.patience):
            control.should_training_stop = True


class Bar(ProgressCallback):
    """transformers' progress bar with the log beside it, on stderr: stdout is for results."""

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any) -> None:
        """Show the latest figures beside the bar."""
        if state.is_world_process_zero and self.training_bar is not None and logs is not None:
            names = {"loss": "loss", "learning_rate": "lr", METRIC: "dev", "eval_coalition_r2": "R²"}
            shown = {short: f"{logs[name]:.4g}" for name, short in names.items() if name in logs}
            self._shown = {**getattr(self, "_shown", {}), **shown}
            self.training_bar.set_postfix(self._shown)

    def close(self) -> None:
        """Close the bars, also after an error, so that the next output starts on a new line."""
        for bar in (self.prediction_bar, self.training_bar):
            if bar is not None:
                bar.close()
