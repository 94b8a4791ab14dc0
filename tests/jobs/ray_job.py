"""A job of two workers on a local Ray, one of which is killed when it meets row 100; for `test_batch.py`.

python ray_job.py MODEL ROWS.parquet OUT MARK
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import ray

from neurogame.batch import Predict

PATIENCE = 300  # seconds, until the second worker is there


class Mortal(Predict):
    """Kills its own process once, when there are two, in the middle of a batch; says which process labelled a row."""

    def __init__(self, *arguments, mark, **options):
        super().__init__(*arguments, **options)
        self.mark = Path(mark)
        self.mark.with_name(f"worker-{os.getpid()}").touch()

    def __call__(self, batch):
        found = super().__call__(batch)
        if 100 in batch["id"] and not self.mark.exists():
            for _ in range(PATIENCE):
                if len(list(self.mark.parent.glob("worker-*"))) >= 2:
                    break
                time.sleep(1)
            else:
                raise RuntimeError("there is no second worker")
            self.mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return {**found, "process": [os.getpid()] * len(batch["id"])}


def main(model, source, goal, mark):
    # workers hold their cores to the end: with as many cores as workers nobody would ever read a row
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    rows = ray.data.read_parquet(source, override_num_blocks=8)
    options = {"model": model, "mark": mark}
    said = rows.map_batches(Mortal, fn_constructor_kwargs=options, batch_size=8, concurrency=2).materialize()
    processes = sorted(set(said.unique("process")))
    said.drop_columns(["process"]).repartition(1).write_parquet(goal)
    print(json.dumps({"processes": processes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
