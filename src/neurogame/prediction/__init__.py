"""Predictions for a file of pairs of any size: in constant memory, resumed after a crash, sharded over many machines.

`predict_file` is in `file`; the formats of its lines in `lines`, chunks and resuming in `neurogame.jobs`. How a file
becomes pairs is in `data.reading`.

What a line of output holds: the row's own columns under their own names (an id, a genre …), premise and
hypothesis, `gold` where the row has a label, and what the model says: `label`, `probabilities`,
`logits`, `truncated`. Of two columns with the same name the model's is written.
"""

from neurogame.jobs import parts as parts
from neurogame.jobs.parts import PartError, Shard
from neurogame.prediction.file import CHUNK, FORMATS, Done, already, check, predict_file

__all__ = ["CHUNK", "FORMATS", "Done", "PartError", "Shard", "already", "check", "predict_file"]
