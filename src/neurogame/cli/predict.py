"""`neurogame predict`: a label for every pair of a file."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neurogame.cli import common

if TYPE_CHECKING:
    from neurogame.prediction import Shard


def predict(
    file: str,
    model: str | None = None,
    output: Path | None = None,
    resume: bool = False,
    shard: str | None = None,
    batch_size: int = 32,
    model_labels: str | None = None,
    device: str | None = None,
    backend: str = "torch",
    columns: list[str] | None = None,
    strict: bool = False,
    as_json: bool = False,
) -> None:
    """Label every pair of a file, in order and in constant memory; malformed rows are skipped and counted.

    To stdout go label, probability, premise and hypothesis, tab-separated. JSON lines and CSV also have all
    probabilities and the file's other columns (an id …); its own label becomes `gold`. The processes that torchrun
    or accelerate launch start share a file; --resume continues a job that was killed.
    """
    mapping = common.parse_columns(columns)
    common.check_source(file, mapping)
    common.check_model(model, backend)
    from neurogame import prediction
    from neurogame.nli import load

    common.begin()
    part = _part(shard)
    prediction.check(file, output, mapping, resume=resume, shard=part)
    done = prediction.already(output, part) if resume and output is not None else None
    if done is None:
        device = device or (_device() if backend == "torch" else None)
        nli = load(model, **common.load_options(model_labels, device, backend))
        # a bar and lines of results would write over each other in one terminal, and so would several bars
        alone = os.environ.get("LOCAL_RANK", "0") == "0"
        with common.progress("predict", shown=alone and (output is not None or not sys.stdout.isatty())) as advance:
            done = prediction.predict_file(
                nli,
                file,
                output,
                columns=mapping,
                on_error="raise" if strict else "skip",
                batch_size=batch_size,
                as_json=as_json,
                progress=advance,
                resume=resume,
                shard=part,
            )
    typer.echo(done.summary(), err=True)
    # of several processes, the one that has completed the file, or the first
    if as_json and output is not None and (part.number == 1 if done.already else done.shard is None):
        common.print_json(done.to_dict())


def _part(option: str | None) -> "Shard":
    """The part of this process: as given, or its rank among those that torchrun or accelerate has started."""
    from neurogame.prediction import Shard

    rank, world = (int(os.environ.get(name) or default) for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))
    if option is None:
        return Shard(rank + 1, world) if world > 1 else Shard()
    if world > 1:
        raise ValueError(f"--shard {option}: the {world} processes of this launch share the file by themselves")
    return Shard.parse(option)


def _device() -> str | None:
    """The GPU of this process among several on a machine; None: what `load` chooses."""
    import torch

    local = os.environ.get("LOCAL_RANK")
    return f"cuda:{int(local) % torch.cuda.device_count()}" if local and torch.cuda.is_available() else None
