"""Training: a run file, checked; a Trainer with the paper's recipe; a run folder with everything in it.

    config (YAML → RunConfig) ──build──▶ data, tokenizer, model ──trainer──▶ best model ──run──▶ folder, report, card

`trainer` can be used alone, as `transformers.Trainer` is. Needs the extra `neurogame[train]`.
"""

from neurogame.training.config import ConfigError, RunConfig, TrainingError, TrainingSection, read_config
from neurogame.training.run import train
from neurogame.training.trainer import NeuroGameTrainer

__all__ = ["ConfigError", "NeuroGameTrainer", "RunConfig", "TrainingError", "TrainingSection", "read_config", "train"]
