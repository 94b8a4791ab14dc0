"""`train`: one run from its YAML file to a folder with the model, its figures, and a card that says what it is.

    run folder/
      config.yaml          every setting, defaults written out
      checkpoints/         what --resume needs; each is also a model to use
      best/                the model with the best dev accuracy so far
      model/               the result: weights, tokenizer, README.md
      metrics.json         dev and test, time, data, versions
      report.md            the same as tables
      curves.png, confusion.png, tensorboard/

The folder belongs to one run: another run with the same name is refused, and a resumed one must have
the same configuration.
"""

import atexit
import gc
import json
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset
from transformers import EvalPrediction, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from neurogame._common.extras import need
from neurogame._common.writing import write_text
from neurogame.data.batching import encode, sorted_batches
from neurogame.evaluation import Report, evaluate, figures, fit_temperature
from neurogame.grounding.texts import CollateWords, as_pairs
from neurogame.modeling import NeuroGameForSequenceClassification
from neurogame.nli import NLI
from neurogame.training import card, curves
from neurogame.training.build import Splits, build, read_splits, training_rows
from neurogame.training.callbacks import METRIC, Bar, BestModel, is_out_of_patience
from neurogame.training.checkpoints import checkpoints, delete_unfinished
from neurogame.training.config import RunConfig, TrainingError, dump_config
from neurogame.training.files import ConfigError
from neurogame.training.grounding import coalition_r2
from neurogame.training.randomness import generator
from neurogame.training.trainer import NeuroGameTrainer, readable
from neurogame.training.warm_start import polish, warm_start


def train(config: RunConfig, *, resume: bool = False, end: bool = False, show_progress: bool = True) -> dict[str, Any]:
    """Train a model as a run file says; everything is in the run's folder afterwards.

    Args:
        config: the checked run file.
        resume: continue from the last complete checkpoint in the run's folder.
        end: with `resume`: take no further step; the best model so far is the result.
        show_progress: bars on stderr.

    Returns:
        The content of metrics.json; empty in all processes but the first.

    Raises:
        ConfigError: the folder holds another run, or none that can be resumed or ended.
        TrainingError: training diverged, or a checkpoint cannot be read or written.

    Example:
        >>> train(read_config("configs/toy.yaml", ["training.epochs=1"]))["temperature"]  # doctest: +SKIP
    """
    if end and not (resume and checkpoints(config.folder / "checkpoints")):
        raise ConfigError(f"nothing to end: {config.folder} holds no checkpoint of a run to resume")
    first = int(os.environ.get("RANK", "0")) == 0
    if first:
        _claim(config.folder, config, resume=resume)
    start = time.perf_counter()
    try:
        splits = read_splits(config.data)
        model, tokenizer = build(config, splits)
        if not (resume and checkpoints(config.folder / "checkpoints")):
            warm_start(config, model, tokenizer, splits.train, show_progress=show_progress)
        trainer = make_trainer(config, model, tokenizer, splits, show_progress=show_progress)
        atexit.register(_leave_group)
    except BaseException:
        if first and not resume:
            shutil.rmtree(config.folder)  # no step was taken: the next try finds no folder
        raise
    _run(trainer, resume=resume, end=end)
    if not trainer.is_world_process_zero():
        return {}
    nli = finish(config, trainer, splits, show_progress=show_progress)
    # Dev is cross-fitted: no temperature is judged on the pairs it was fitted on.
    calibration = splits.dev if config.training.calibrate else None
    size = config.training.eval_batch_size
    report = evaluate(nli, [splits.dev, *splits.test], calibration=calibration, batch_size=size)
    return _write(config, splits, trainer, nli, report, time.perf_counter() - start)


def _leave_group() -> None:
    """Ends the process group that accelerate opened: threads of it that live at exit can abort the process."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        gc.collect()  # what still holds the group: the wrapped model of the trainer
        torch.distributed.destroy_process_group()


def _claim(folder: Path, config: RunConfig, *, resume: bool) -> None:
    """Make the folder, or check that it is this run's."""
    written = folder / "config.yaml"
    text = dump_config(config)
    if resume:
        if not written.exists():
            raise ConfigError(f"nothing to resume: {folder} holds no run")
        if written.read_text(encoding="utf-8") != text:
            raise ConfigError(f"{written} differs from this configuration; a run is resumed as it was started")
        _tidy(folder)
        if (folder / "metrics.json").exists():
            raise ConfigError(f"nothing to resume: the run in {folder} has ended")
        delete_unfinished(folder / "checkpoints")
        return
    taken = f"{folder} already holds a run; give this one another name, or continue it with --resume"
    if folder.exists() and (not folder.is_dir() or any(path.suffix != ".new" for path in folder.iterdir())):
        raise ConfigError(taken)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_text(written, text, new=True)  # of two runs that start at once one gets it
    except FileExistsError:
        raise ConfigError(taken) from None


def _tidy(folder: Path) -> None:
    """Remove temporary files of a killed run, and `best/` of a run that has ended, now in `model/`."""
    if (folder / "metrics.json").exists() and (folder / "best").exists():
        (folder / "best").rename(folder / "best.new")  # in one step, so that no half of it has its name
    for left in folder.glob("*.new"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def _run(trainer: NeuroGameTrainer, *, resume: bool, end: bool) -> None:
    """Train to the end; a resumed run that is to end here, or had run out of patience, takes no step."""
    whole = checkpoints(Path(trainer.args.output_dir)) if resume else []
    if whole:
        with readable(whole[-1]):
            state = TrainerState.load_from_json(str(whole[-1] / "trainer_state.json"))
        if end or is_out_of_patience(state.log_history, trainer.recipe.patience):
            trainer.state = state
            return
    try:
        trainer.train(resume_from_checkpoint=str(whole[-1]) if whole else None)
    finally:
        for bar in (each for each in trainer.callback_handler.callbacks if isinstance(each, Bar)):
            bar.close()


def arguments(config: RunConfig) -> TrainingArguments:
    """The run file in the words of transformers."""
    t = config.training
    cuda, several = torch.cuda.is_available(), int(os.environ.get("WORLD_SIZE", "1")) > 1
    schedules = {"multistep": "constant", "constant": "constant_with_warmup", "plateau": "reduce_lr_on_plateau"}
    plateau = {"mode": "max", "factor": t.decay, "patience": 0} if t.schedule == "plateau" else None
    return TrainingArguments(
        optim={"adamw": "adamw_torch_fused", "adagrad": "adagrad"}[t.optimizer],
        output_dir=str(config.folder / "checkpoints"),
        num_train_epochs=t.epochs,
        max_steps=-1 if t.max_steps is None else t.max_steps,
        per_device_train_batch_size=t.batch_size,
        per_device_eval_batch_size=t.eval_batch_size,
        gradient_accumulation_steps=t.accumulation,
        learning_rate=t.learning_rate,
        weight_decay=t.weight_decay,
        lr_scheduler_type=schedules.get(t.schedule, t.schedule),
        lr_scheduler_kwargs=plateau,
        metric_for_best_model=METRIC if t.schedule == "plateau" else None,
        warmup_steps=t.warmup,
        max_grad_norm=t.clip,
        bf16=t.bf16,
        gradient_checkpointing=t.gradient_checkpointing,
        logging_steps=0.01,  # of the run
        logging_first_step=True,
        logging_nan_inf_filter=False,  # the trainer stops there
        disable_tqdm=True,  # `Bar` is the bar
        report_to=[],
        seed=config.seed,
        use_cpu=not cuda,
        ddp_backend="gloo" if several and not cuda else None,
        dataloader_pin_memory=cuda,
        remove_unused_columns=False,
        eval_strategy="epoch" if t.evaluate_every is None else "steps",
        eval_steps=t.evaluate_every,
        save_strategy="epoch" if t.checkpoint_every is None else "steps",
        save_steps=t.checkpoint_every or 500,
    )


def make_trainer(
    config: RunConfig, model: Any, tokenizer: Any, splits: Splits, *, show_progress: bool = True
) -> NeuroGameTrainer:
    """The trainer of a run, with its data encoded and its callbacks in place; `trainer.train()` starts it.

    `model` and `tokenizer` are what `build` returns. A dev set that lacks labels of the model is a ConfigError.
    """

    def measure_dev(answers: EvalPrediction) -> dict[str, float]:
        r2 = {} if config.training.grounding is None else {"coalition_r2": _r2(config, model, tokenizer, splits)}
        return {**measure(answers), **r2}

    dev = encode(splits.dev, tokenizer, max_length=config.data.max_length, label2id=model.config.label2id)
    if dev.labels is None:
        raise ConfigError(f"data.dev: {splits.dev.name} cannot choose a model: {dev.without_labels}")
    trainer = NeuroGameTrainer(
        model,
        arguments(config),
        config.training,
        train_dataset=training_rows(config, splits, tokenizer, model),
        eval_dataset=Subset(dev, [row for batch in sorted_batches(dev.lengths, 1) for row in batch]),  # little padding
        data_collator=CollateWords(tokenizer),
        processing_class=tokenizer,
        compute_metrics=measure_dev,
    )
    trainer.remove_callback(PrinterCallback)  # prints the log to stdout, which is for results
    if show_progress:
        trainer.add_callback(Bar())
    trainer.add_callback(BestModel(trainer, config.folder / "best", config.training.patience))
    need("matplotlib", "train")  # for the figures at the end: better missed now than then
    if config.training.tensorboard and trainer.is_world_process_zero():
        need("tensorboard", "train")
        from torch.utils.tensorboard import SummaryWriter
        from transformers.integrations import TensorBoardCallback

        trainer.add_callback(TensorBoardCallback(SummaryWriter(str(config.folder / "tensorboard"))))
    return trainer


def _r2(config: RunConfig, model: Any, tokenizer: Any, splits: Splits) -> float:
    """How well the game predicts the model on coalitions of `dev_pairs` of dev, the same every time."""
    section = config.training.grounding
    assert section is not None
    chosen = torch.randperm(len(splits.dev), generator=generator(config.seed, "dev pairs"))[: section.dev_pairs]
    pairs = as_pairs(splits.dev[i] for i in chosen.tolist())
    options = {"batch_size": config.training.eval_batch_size, "seed": config.seed}
    return coalition_r2(model, tokenizer, pairs, section, config.data.max_length, **options)


def measure(answers: EvalPrediction) -> dict[str, float]:
    """Accuracy and mean cross-entropy of the rows; the Trainer's own loss is a mean over batches."""
    logits = answers.predictions[0] if isinstance(answers.predictions, tuple) else answers.predictions
    z, gold = np.asarray(logits, dtype=np.float64), answers.label_ids
    losses = np.logaddexp.reduce(z, axis=-1) - z[np.arange(len(gold)), gold]
    return {"accuracy": float((z.argmax(-1) == gold).mean()), "loss": float(losses.mean())}


def finish(config: RunConfig, trainer: NeuroGameTrainer, splits: Splits, *, show_progress: bool = True) -> NLI:
    """The best model, polished, its temperature fitted on dev and folded into the weights, saved as `model/`.

    A best model that has been deleted is a TrainingError.
    """
    best = config.folder / "best"
    if not (best / "config.json").is_file():
        raise TrainingError(f"{best} is missing: the best model of this run has been deleted")
    model = type(trainer.model).from_pretrained(best, dtype=torch.float32, use_safetensors=True)
    tokenizer = trainer.processing_class
    nli = NLI(model, tokenizer, name=config.name)
    if config.training.grounding is not None:
        polish(config, model, tokenizer, splits.train, show_progress=show_progress)
        r2 = _r2(config, model, tokenizer, splits)
        model.config.readout_r2 = r2 if math.isfinite(r2) else None
    if config.training.calibrate:
        pairs = [(pair.premise, pair.hypothesis) for pair in splits.dev]
        logits = nli.logits(pairs, batch_size=config.training.eval_batch_size).double().numpy()
        gold = np.array([nli.labels.index(str(pair.label)) for pair in splits.dev])
        nli.temperature = round(fit_temperature(logits, gold), 4)
    if isinstance(model, NeuroGameForSequenceClassification):
        model.fold_temperature()
    nli.save_pretrained(config.folder / "model")
    return nli


def _write(
    config: RunConfig, splits: Splits, trainer: NeuroGameTrainer, nli: NLI, report: Report, seconds: float
) -> dict[str, Any]:
    """metrics.json, the figures and the card."""
    folder, history = config.folder, trainer.state.log_history
    r2 = getattr(nli.model.config, "readout_r2", None)
    metrics = {
        "name": config.name,
        "seed": config.seed,
        "parameters": nli.parameters,
        "trained_parameters": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
        "temperature": nli.temperature,
        **({} if r2 is None else {"coalition_r2": r2}),
        "seconds": round(seconds, 1),
        "steps": trainer.state.global_step,
        "data": {
            "train": card.describe(splits.train),
            "dev": card.describe(splits.dev),
            "test": [card.describe(data) for data in splits.test],
        },
        "evaluation": report.to_dict(),
        "history": history,
        "versions": card.versions(),
    }
    curves.draw(history, folder / "curves.png")
    figures.confusion(report, folder / "confusion.png")
    write_text(folder / "report.md", report.to_markdown() + card.grounded(metrics))
    write_text(folder / "model" / "README.md", card.write(config, metrics, report))
    # last: its presence says that the run has ended
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False) + "\n")
    _tidy(folder)
    return metrics
