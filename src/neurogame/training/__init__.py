"""Training: a run file, checked; a Trainer with the paper's recipe; a run folder with everything in it.

    config (YAML → RunConfig) ──build──▶ data, tokenizer, model ──trainer──▶ best model ──run──▶ folder, report, card

`trainer` can be used alone, as `transformers.Trainer` is. Needs the extra `neurogame[train]`.
"""

from typing import TYPE_CHECKING

from neurogame._common.lazy import lazy

if TYPE_CHECKING:
    from neurogame.training.config import RunConfig, TrainingError, TrainingSection, read_config
    from neurogame.training.files import ConfigError
    from neurogame.training.run import train
    from neurogame.training.trainer import NeuroGameTrainer

# imported on first use: a missing run file is reported without torch
_LATER = {
    "ConfigError": "files",
    "NeuroGameTrainer": "trainer",
    "RunConfig": "config",
    "TrainingError": "config",
    "TrainingSection": "config",
    "read_config": "config",
    "train": "run",
}

__all__ = ["ConfigError", "NeuroGameTrainer", "RunConfig", "TrainingError", "TrainingSection", "read_config", "train"]

__getattr__, __dir__ = lazy(__name__, _LATER)
