"""A million rows through `neurogame predict`: how much memory it takes as it goes on, and what safety costs.

    python benchmarks/predict.py                  # 1 000 000 rows, some minutes; results/predict.json
    python benchmarks/predict.py --rows 20000     # a try, which stores nothing

One process labels one kind of file after the other with a tiny model (DAM, 8 numbers wide, random weights): the first
has all the rows, the others a fiftieth. Speed is compared with a plain loop over the same model: csv, `nli.predict`,
json; no journal, no waiting for the disk.
"""

import argparse
import csv
import gzip
import itertools
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import Clock, progress, save, show

from neurogame.modeling.baselines.dam import DamForSequenceClassification
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.nli import NLI
from neurogame.prediction import CHUNK, predict_file

KINDS = (("csv.gz", "jsonl"), ("csv", "csv"), ("jsonl", "jsonl.gz"), ("jsonl.gz", "csv.gz"))
WORDS = ("a", "the", "no", "old", "woman", "man", "goat", "tailor", "ferry", "sleeps", "sings", "mends", "coat", "in")
BATCH = 1024
COMPARED = 4 * CHUNK  # rows of a comparison with the plain loop
POINTS = 20  # at which memory is looked at


def sentences(count: int) -> Iterator[tuple[str, str, str]]:
    """(id, premise, hypothesis), always the same; no two rows are."""
    draw = random.Random(0)
    pool = [" ".join(draw.choices(WORDS, k=draw.randint(2, 5))) for _ in range(1000)]
    for i in range(count):
        yield str(i), pool[i % 997], pool[i // 997 % 1000]


def written(path: Path, count: int) -> Path:
    """A file of so many rows."""
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        if ".csv" in path.name:
            out = csv.writer(file)
            out.writerow(("id", "premise", "hypothesis"))
            out.writerows(sentences(count))
        else:
            for i, premise, hypothesis in sentences(count):
                file.write(json.dumps({"id": i, "premise": premise, "hypothesis": hypothesis}) + "\n")
    return path


def megabytes() -> float:
    """What the process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Watch:
    """Memory at some rows."""

    def __init__(self, rows: int) -> None:
        self.done, self.step, self.seen = 0, max(rows // POINTS, 1), list[tuple[int, float]]()

    def __call__(self, more: int) -> None:
        """So many rows more are done."""
        self.done += more
        if self.done // self.step > (self.done - more) // self.step:
            self.seen.append((self.done, round(megabytes(), 1)))


def plain(nli: NLI, source: Path, output: Path) -> None:
    """What one would write oneself."""
    with source.open() as rows, output.open("w") as out:
        reader = csv.DictReader(rows)
        while chunk := list(itertools.islice(reader, CHUNK)):
            pairs = [(row["premise"], row["hypothesis"]) for row in chunk]
            for row, said in zip(chunk, nli.predict(pairs, batch_size=BATCH, show_progress=False), strict=True):
                out.write(json.dumps({**row, **said.to_dict()}) + "\n")


def ratio(nli: NLI, folder: Path, rows: int) -> list[float]:
    """Rows per second of `predict_file` over those of the plain loop, some times."""
    source, found = written(folder / "compared.csv", rows), []
    for repetition in range(6):
        seconds = []
        for job in (plain, lambda *paths: predict_file(*paths, batch_size=BATCH)):
            began = time.perf_counter()
            job(nli, source, folder / "compared.jsonl")
            seconds.append(time.perf_counter() - began)
            (folder / "compared.jsonl").unlink()
        if repetition:  # the first warms up
            found.append(seconds[0] / seconds[1])
    return found


def measured(nli: NLI, folder: Path, kind: str, output: str, rows: int) -> dict[str, Any]:
    """One kind of file."""
    source, watch = written(folder / f"rows.{kind}", rows), Watch(rows)
    before = megabytes()
    done = predict_file(nli, source, folder / f"out.{output}", batch_size=BATCH, progress=watch)
    memory = [size for _, size in watch.seen]
    return {
        "source": kind,
        "output": output,
        "rows": done.pairs,
        "source_megabytes": round(source.stat().st_size / 1e6, 1),
        "output_megabytes": round((folder / f"out.{output}").stat().st_size / 1e6, 1),
        "before": round(before, 1),
        "memory": watch.seen,
        "growth": round(max(memory) - memory[0], 1),  # beyond what the first twentieth of the rows needs
        "peak": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),  # so far
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    clock, found = Clock(), []
    words = build_tokenizer(WORDS, max_length=40)
    nli = NLI(DamForSequenceClassification.from_words(words, embedding_size=8, hidden_size=8, seed=0), words)
    with tempfile.TemporaryDirectory() as name:
        for i, (kind, output) in enumerate(KINDS):
            rows = args.rows if i == 0 else args.rows // 50
            progress(f"{rows} rows, {kind} to {output}")
            found.append(measured(nli, Path(name), kind, output, rows))
            progress(f"memory grew by {found[-1]['growth']} MB after the first twentieth")
        rates = ratio(nli, Path(name), min(args.rows, COMPARED))
    columns = ("source", "output", "rows", "source_megabytes", "output_megabytes", "before", "growth", "peak")
    show("Memory in MB: before, grown after the first twentieth, at most", [{n: r[n] for n in columns} for r in found])
    print(f"rows per second over those of a plain loop: {statistics.median(rates):.2f}")
    if args.rows >= 1_000_000:
        save("predict", clock(), batch_size=BATCH, chunk=CHUNK, files=found, rate_over_plain_loop=rates)


if __name__ == "__main__":
    main()
