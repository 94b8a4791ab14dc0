"""NeuroGameTrainer: transformers.Trainer with what the paper's recipe needs and the Trainer lacks.

A multi-step schedule, mixup, averaged weights that are evaluated and saved, a temperature schedule, a
learning rate of its own for the head, and randomness that depends on (seed, step, micro-batch) alone.
Any model goes through it: ours take `generator` and `mixup`; others (BERT and its relatives) are
trained on mixed embeddings or without. The run folder and its report are in `training.run`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import Dataset, Sampler
from transformers import Trainer, TrainingArguments

from neurogame._common.writing import UNWRITABLE, reason
from neurogame.attention import NeuroGameAttention
from neurogame.data.removal import Removal
from neurogame.grounding.texts import WORDS
from neurogame.modeling.checking import UNLOADABLE, WEIGHTS, short
from neurogame.modeling.losses import Mixup, classification_loss
from neurogame.training.callbacks import FollowRecipe
from neurogame.training.checkpoints import UNFINISHED, checkpoints, delete_unfinished, publish
from neurogame.training.config import TrainingError, TrainingSection
from neurogame.training.grounding import grounding_loss
from neurogame.training.randomness import LengthGroupedSampler, derive, generator

TRAINING_WEIGHTS = "training_weights.safetensors"  # beside model.safetensors, which holds the averaged ones


class NeuroGameTrainer(Trainer):
    """`transformers.Trainer` under a `TrainingSection`; arguments as there.

    Args:
        model: ours, or any sequence classifier of transformers.
        args: `TrainingArguments`; its seed is the run's seed.
        recipe: the training section of a run file.
        options: everything else that `Trainer` takes (data sets, collator, processing class, callbacks).

    Example:
        >>> trainer = NeuroGameTrainer(model, args, TrainingSection(ema=0.999), train_dataset=rows)  # doctest: +SKIP
        >>> trainer.train()  # doctest: +SKIP
    """

    lr_scheduler: Any

    def __init__(self, model: nn.Module, args: TrainingArguments, recipe: TrainingSection, **options: Any) -> None:
        super().__init__(model=model, args=args, **options)
        self.recipe = recipe
        self.model_accepts_loss_kwargs = False  # the loss below is a mean over rows; see `compute_loss`
        self.averaged: AveragedModel | None = None
        if recipe.ema:
            self.averaged = AveragedModel(self.model, avg_fn=_moving_average(recipe.ema, warmup=recipe.ema_warmup))
        self.sampler: LengthGroupedSampler | None = None
        self.add_callback(FollowRecipe(self))
        self._freeze()
        if recipe.encoder_dropout is not None:  # of the encoder alone; the head's is an option of the model
            for module in _encoder(self.model).modules():
                if isinstance(module, nn.Dropout):
                    module.p = recipe.encoder_dropout
        self._step, self._micro = -1, 0  # optimiser step, micro-batch of this process in it
        self._rows: list[int] = []  # that count, of each micro-batch of this process
        self._total = 0  # of all processes

    def _freeze(self) -> None:
        """Word embeddings, the lowest layers with all that is below them, or the whole encoder stay as they are."""
        encoder, count = _encoder(self.model), self.recipe.freeze_layers
        frozen = {"nothing": [], "embeddings": [self.model.get_input_embeddings()], "encoder": [encoder]}
        for module in (*frozen[self.recipe.freeze], *(_lowest(encoder, count) if count else ())):
            module.requires_grad_(requires_grad=False)

    # Optimiser and schedule

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Matrices decay; biases, norms and the scalars of the heads (log γ, μ, coupling strength) do not."""
        matrices = {name for name, parameter in model.named_parameters() if parameter.dim() > 1}
        return [name for name in super().get_decay_parameter_names(model) if name in matrices]

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """As the Trainer's, with everything outside the encoder at `head_multiplier` times the rate."""
        made = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if made and self.recipe.head_multiplier != 1.0:
            inside = {id(p) for p in _encoder(self.model).parameters()}
            groups = []
            for group in optimizer.param_groups:
                head = [p for p in group["params"] if id(p) not in inside]
                groups.append({**group, "params": [p for p in group["params"] if id(p) in inside]})
                groups.append({**group, "params": head, "lr": group["lr"] * self.recipe.head_multiplier})
            optimizer.param_groups[:] = [group for group in groups if group["params"]]
        return optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Linear warm-up, then × decay after each milestone; the other schedules are transformers' own.

        A milestone is one of the `epochs` that the run is divided into, also where `max_steps` says how long it is.
        """
        if self.lr_scheduler is None and self.recipe.schedule == "multistep":
            warmup = int(self.recipe.warmup * num_training_steps)
            epoch = num_training_steps / self.args.num_train_epochs
            factors = multistep(warmup, [m * epoch for m in self.recipe.milestones], self.recipe.decay)
            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, factors)
            self._created_lr_scheduler = True
        return super().create_scheduler(num_training_steps, optimizer)

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[int] | None:
        """Rows of similar length beside each other, the same for any number of processes."""
        dataset = self.train_dataset if train_dataset is None else train_dataset
        lengths = getattr(dataset, "lengths", None)
        if lengths is None:
            return super()._get_train_sampler(train_dataset)
        args = self.args
        together = 1 if args.world_size == 1 else args.train_batch_size * args.world_size
        self.sampler = LengthGroupedSampler(lengths, self.get_total_train_batch_size(args), args.seed, together)
        return self.sampler

    # One step

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The micro-batches of a step, which are weighted by their rows."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        self._rows = [len(batch["labels"]) for batch in batches]
        if self.args.world_size > 1:
            if self.sampler is not None and self.accelerator.gradient_state.end_of_dataloader:
                last = self._rows[-1]
                repeated = self.sampler.repeated - (self.args.world_size - 1 - self.args.process_index) * last
                self._rows[-1] = last - min(max(repeated, 0), last)
                batches[-1] = first_rows(batches[-1], max(1, self._rows[-1]))
            rows = torch.tensor(sum(self._rows), device=self.args.device)
            self._total = int(self.accelerator.reduce(rows, "sum"))
        else:
            self._total = sum(self._rows)
        return batches, items

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Seed dropout and mixup by the place of the micro-batch, then do as the Trainer does."""
        step = self.state.global_step
        self._micro = self._micro + 1 if step == self._step else 0
        self._step = step
        self._place = self._micro * self.args.world_size + self.args.process_index
        torch.manual_seed(derive(self.args.seed, "dropout", step, self._place))
        try:
            loss = super().training_step(model, inputs, num_items_in_batch)
        except ValueError as error:  # the layer refuses what is not finite
            raise TrainingError(f"training stopped at step {step + 1}: {error}") from error
        self._check_finite("loss", loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Check the gradient norm before the optimiser step."""
        norm = super()._get_grad_norm(model, grad_norm)
        self._check_finite("gradient", norm)
        return norm

    def _check_finite(self, what: str, value: Any) -> None:
        if not math.isfinite(float(value)):
            raise TrainingError(
                f"the {what} is {float(value)} at step {self.state.global_step + 1}: training has diverged; "
                "try a lower training.learning_rate or a longer training.warmup"
            )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As the Trainer's; the mean temperature of the heads stands beside the loss."""
        layer = next((module for module in self.model.modules() if isinstance(module, NeuroGameAttention)), None)
        if layer is not None and "loss" in logs:
            logs["gamma"] = layer.gamma.detach().mean().item()
        super().log(logs, start_time)

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Cross-entropy; in training with label smoothing and mixup, and coalitions drawn for the step.

        All micro-batches of a step share their draws, and each counts with its rows, so that
        accumulated gradients are those of the whole batch.
        """
        inputs = dict(inputs)
        labels = inputs.pop("labels")
        words = inputs.pop(WORDS, None)
        if not model.training:
            outputs = model(**inputs)
            loss = classification_loss(outputs["logits"], labels)
            return (loss, outputs) if return_outputs else loss
        mixup = None
        if self.recipe.mixup > 0:
            draw = generator(self.args.seed, "mixup", self.state.global_step, self._place)
            mixup = Mixup.draw(len(labels), self.recipe.mixup, draw)
            if self.recipe.mixup_on == "embeddings":
                inputs = self._mix_embeddings(inputs, mixup)
            else:
                inputs["mixup"] = mixup
        if type(self.model).__module__.startswith("neurogame."):
            inputs["generator"] = derive(self.args.seed, "coalitions", self.state.global_step)
        section = self.recipe.grounding
        outputs = model(**inputs) if section is None else model(**inputs, output_game=True)
        loss = classification_loss(outputs["logits"], labels, mixup, self.recipe.label_smoothing)
        if section is not None:  # its coalitions belong to the place of the micro-batch in the step
            removal = Removal.of(self.processing_class, section.removal)
            draws = generator(self.args.seed, "grounding", self.state.global_step, self._place)
            masked, grounded = grounding_loss(model, inputs, words, outputs, section, removal, draws)
            loss = loss + (section.masked * masked + section.weight * grounded)
        share = self._rows[self._micro] / self._total
        # Gradients are averaged over the processes, and the Trainer divides by the micro-batches.
        loss = loss * (share * self.args.world_size * self.current_gradient_accumulation_steps)
        return (loss, outputs) if return_outputs else loss

    def _mix_embeddings(self, inputs: dict[str, Any], mixup: Mixup) -> dict[str, Any]:
        """Word embeddings of a row and its partner, mixed; a token is real where either has one."""
        ids = inputs.pop("input_ids")
        words = self.model.get_input_embeddings()(ids)
        partner, weight = mixup
        mask = inputs["attention_mask"]
        inputs["inputs_embeds"] = weight * words + (1.0 - weight) * words[partner]
        inputs["attention_mask"] = torch.maximum(mask, mask[partner])
        special = getattr(self.model.config, "special_token_ids", None)
        if special:
            mark = torch.isin(ids, torch.tensor(special, device=ids.device))
            inputs["special_tokens_mask"] = mark & mark[partner]
        return inputs

    # Averaged weights: evaluated, saved, and resumed beside the weights that are trained

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Inside, the model holds the averaged weights (if there are any)."""
        if self.averaged is None:
            yield
            return
        kept = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        self.model.load_state_dict(self.averaged.module.state_dict())
        try:
            yield
        finally:
            self.model.load_state_dict(kept)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the averaged weights, which are also those that are saved."""
        with self.averaged_weights():
            return super().evaluation_loop(*args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """model.safetensors holds the averaged weights, so that any checkpoint is a model to use."""
        with self.averaged_weights():
            super()._save(output_dir, state_dict)
        folder = Path(output_dir or self.args.output_dir)
        if self.averaged is not None and folder.name.startswith("checkpoint-"):
            weights = {name: tensor.contiguous().clone() for name, tensor in self.model.state_dict().items()}
            save_file(weights, folder / TRAINING_WEIGHTS, {"averaged": str(int(self.averaged.n_averaged))})

    def _get_output_dir(self, trial: Any) -> str:
        """Where the Trainer writes checkpoints: see `training.checkpoints`."""
        return str(Path(self.args.output_dir) / UNFINISHED)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Atomic: the folder gets its name when all files are on disk."""
        folder, step = Path(self.args.output_dir), self.state.global_step
        try:
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()  # each process has written a file of its own
            if self.args.should_save:
                publish(folder, step, self.recipe.keep)
        except UNWRITABLE as error:
            if self.args.should_save:
                delete_unfinished(folder)
            last = next((path.name for path in reversed(checkpoints(folder))), "the start")
            what = f"{folder}: the checkpoint of step {step} cannot be written"
            raise TrainingError(f"{what}: {reason(error)}; --resume continues from {last}") from error

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """The averaged weights go to the average, the trained ones to the model; all must be there, as safetensors."""
        folder = Path(resume_from_checkpoint)
        tied = getattr(self.model, "all_tied_weights_keys", None) or {}
        with readable(folder):
            with safe_open(folder / WEIGHTS, framework="pt") as file:
                missing = self.model.state_dict().keys() - tied.keys() - set(file.keys())
            if missing:  # the Trainer would leave them as they are, silently
                raise TrainingError(f"{len(missing)} weights are missing, {min(missing)} among them")
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            if self.averaged is None:
                return
            path = folder / TRAINING_WEIGHTS
            self.averaged.module.load_state_dict(self.model.state_dict())
            with safe_open(path, framework="pt") as file:
                self.averaged.n_averaged.fill_(int(file.metadata()["averaged"]))
            self.model.load_state_dict(load_file(path))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """As the Trainer's, which reads tensors and plain values only (`weights_only`)."""
        if checkpoint is None:
            return
        if self.is_fsdp_enabled:
            raise TrainingError(f"{checkpoint} cannot be resumed from under FSDP: it would read a pickle")
        with readable(checkpoint):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with readable(checkpoint):
            super()._load_rng_state(checkpoint)

    def _load_scaler(self, checkpoint: str | None) -> None:
        with readable(checkpoint):
            super()._load_scaler(checkpoint)


@contextmanager
def readable(folder: str | Path | None) -> Iterator[None]:
    """Errors of reading a checkpoint (damaged, of another model, other objects than tensors) as a TrainingError."""
    advice = "delete it to resume from the one before"
    try:
        yield
    except UnpicklingError as error:
        raise TrainingError(f"{folder} holds a pickle of other than tensors, which was not run; {advice}") from error
    except (EOFError, *UNLOADABLE) as error:
        raise TrainingError(f"{folder} cannot be resumed from: {short(error)}; {advice}") from error


def first_rows(batch: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """The first rows of a padded batch, as if the others had never been in it."""
    used = batch["attention_mask"][:count].bool().any(dim=0)
    whole = {name for name, column in batch.items() if name == "labels" or column.dim() == 1}
    return {name: column[:count] if name in whole else column[:count, used] for name, column in batch.items()}


def multistep(warmup: int, milestones: list[float], decay: float) -> Any:
    """step ↦ factor of the learning rate: (step + 1)/(warmup + 1) up to 1, times decay^(milestones passed).

    Step 0 is the first; step `warmup` is the first at the full rate.
    """

    def factor(step: int) -> float:
        rise = min(1.0, (step + 1) / (warmup + 1))
        return float(rise * decay ** sum(step >= m for m in milestones))

    return factor


def _moving_average(decay: float, *, warmup: bool) -> Any:
    """w̄ ← d·w̄ + (1 − d)·w, with d = min(decay, (1 + t)/(10 + t)) while the average is young."""

    def average(mean: Tensor, new: Tensor, count: Tensor | int) -> Tensor:
        t = int(count)
        d = min(decay, (1.0 + t) / (10.0 + t)) if warmup else decay
        return torch.lerp(new, mean, d) if mean.is_floating_point() else new

    return average


def _encoder(model: Any) -> Any:
    """The pretrained part: transformers' base model, or the word vectors of DAM and ESIM."""
    base: Any = getattr(model, "base_model", model)
    return base.get_input_embeddings() if base is model else base


def _lowest(encoder: nn.Module, count: int) -> list[nn.Module]:
    """The embeddings of an encoder and its lowest layers; TrainingError where it has no more layers than that."""
    total = getattr(encoder.config, "num_hidden_layers", 0)
    stacks = [m for m in encoder.modules() if isinstance(m, nn.ModuleList) and len(m) == total]
    embeddings = [module for name, module in encoder.named_children() if "embed" in name]
    if not stacks or count >= total:
        name = type(encoder).__name__
        raise TrainingError(f"training.freeze_layers = {count}: {name} has {total} layers; one must be left")
    return [*embeddings, *list(stacks[0])[:count]]
