"""A list of pairs explained in shared batches, beside the same pairs one by one: results/explain_list.json.

    OMP_NUM_THREADS=1 python benchmarks/explain_list.py              # some minutes
    python benchmarks/explain_list.py --pairs 16 --repetitions 1 --dry

Method "decision" of the embedded model, with and without the check by deletion. Both ways take turns in every
repetition; figures are medians, times are per pair. `model_alone` is the forward passes of the list and nothing else,
in the same batches: no list can be faster than that, so `bound` is the largest ratio that batching could give. `tokens`
says why: how many go through the encoder for one pair. A file is explained into JSON lines and pages, by chunks of 32
rows and by chunks of one. With one thread processor time is measured, which leaves out what others do on the machine.
"""

import argparse
import json
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import Clock, progress, save, show

from neurogame.explanation import collection
from neurogame.explanation.methods.grounded import Case
from neurogame.explanation.pipeline import TOGETHER
from neurogame.explanation.reading import Question, drafts, read_games
from neurogame.explanation.removal import evaluate_each
from neurogame.modeling.loading import quiet
from neurogame.nli import NLI, load
from neurogame_bench.timing import interleaved

WORDS = ("a", "the", "no", "old", "woman", "man", "goat", "tailor", "ferry", "sleeps", "sings", "mends", "coat", "in")
PREMISE, HYPOTHESIS = (6, 22), (3, 11)  # words, least and most

Pairs = list[tuple[str, str]]


def drawn(count: int) -> Pairs:
    """Pairs as long as those of SNLI, always the same."""
    draw = random.Random(0)
    return [
        (
            " ".join(draw.choices(WORDS, k=draw.randint(*PREMISE))),
            " ".join(draw.choices(WORDS, k=draw.randint(*HYPOTHESIS))),
        )
        for _ in range(count)
    ]


def alone(nli: NLI, pairs: Pairs, *, check: bool) -> None:
    """Pair by pair."""
    for pair in pairs:
        nli.explain(*pair, check=check)


def together(nli: NLI, pairs: Pairs, *, check: bool) -> None:
    """As a list."""
    nli.explain(pairs, check=check, show_progress=False)


class Passes:
    """The forward passes of a list, with what they need prepared."""

    def __init__(self, nli: NLI, pairs: Pairs) -> None:
        self.nli, self.drafts = nli, drafts(nli, pairs)
        readings = read_games(nli, self.drafts)
        cases = [Case.of(reading, Question(target=reading.prediction.label)) for reading in readings]
        self.tried = [(reading, case.trials) for reading, case in zip(readings, cases, strict=True)]

    def tokens(self) -> dict[str, float]:
        """Per pair: of the pair itself, and of what is tried on the model."""
        whole = sum(len(draft.units.unit_of) for draft in self.drafts)
        checked = 0
        for reading, tried in self.tried:
            sizes = reading.units.members.sum(-1)
            outside = len(reading.units.unit_of) - int(sizes.sum())
            checked += int((tried.float() @ sizes).sum()) + outside * len(tried)
        return {"pair": round(whole / len(self.drafts), 1), "check": round(checked / len(self.drafts), 1)}

    def run(self, *, check: bool) -> None:
        """All of them."""
        for start in range(0, len(self.drafts), TOGETHER):
            some = slice(start, start + TOGETHER)
            read_games(self.nli, self.drafts[some])
            if check:
                evaluate_each(self.tried[some])


def filed(nli: NLI, source: Path, chunk: int, *, check: bool) -> None:
    """A file into a new folder, by chunks of so many rows."""
    with tempfile.TemporaryDirectory() as folder:
        collection.explain_file(nli, source, Path(folder) / "out", together=chunk, check=check)


def measured(nli: NLI, pairs: Pairs, repetitions: int, *, check: bool) -> list[dict[str, Any]]:
    """A row for lists and one for files."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    passes = Passes(nli, pairs)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pairs.jsonl"
        source.write_text("".join(json.dumps({"premise": p, "hypothesis": h}) + "\n" for p, h in pairs))
        found = interleaved(
            {
                "pair by pair": partial(alone, nli, pairs, check=check),
                "list": partial(together, nli, pairs, check=check),
                "model": partial(passes.run, check=check),
                "file, row by row": partial(filed, nli, source, 1, check=check),
                "file": partial(filed, nli, source, TOGETHER, check=check),
            },
            repetitions,
            clock,
        )
    cost = {name: 1000 * seconds / len(pairs) for name, seconds in found.items()}
    rows = []
    for what, before, now in (("list", "pair by pair", "list"), ("file", "file, row by row", "file")):
        row = {"what": what, "check": check, "pair_by_pair_ms": cost[before], "together_ms": cost[now]}
        row |= {
            "ratio": cost[before] / cost[now],
            "model_alone_ms": cost["model"],
            "bound": cost[before] / cost["model"],
        }
        rows.append({name: round(x, 2) if isinstance(x, float) else x for name, x in row.items()})
        progress(str(rows[-1]))
    return rows


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--dry", action="store_true", help="store nothing")
    options = parser.parse_args()
    clock = Clock()
    quiet()
    nli, pairs = load(), drawn(options.pairs)
    rows = [row for check in (True, False) for row in measured(nli, pairs, options.repetitions, check=check)]
    found = {
        "pairs": len(pairs),
        "repetitions": options.repetitions,
        "tokens": Passes(nli, pairs).tokens(),
        "rows": rows,
    }
    show("explanations, milliseconds per pair", rows)
    if options.dry:
        print(json.dumps(found))
    else:
        save("explain_list", clock(), clock="processor" if torch.get_num_threads() == 1 else "wall", **found)


if __name__ == "__main__":
    main()
