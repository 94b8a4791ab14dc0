"""How cost grows with length: pairs per second and memory by tokens, explanations by words: results/growth.json.

    python benchmarks/growth.py            # some minutes; leave the machine alone meanwhile
    python benchmarks/growth.py --repetitions 1 --tokens 16 32 --words 10 30 --dry     # a try

The embedded model, told to read up to 512 tokens (its encoder has as many positions; it was trained on 128). Texts are
one word, repeated: length is what matters. Sizes take turns in every repetition, figures are medians. `growth` is the
exponent between a size and the one before it: 1 is linear, 2 quadratic. Memory is what the peak of a fresh process
rises by, beyond what the model and a small call need.
"""

import argparse
import json
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import torch
from common import Clock, progress, save, show

from neurogame.modeling.loading import quiet
from neurogame.nli import NLI, load
from neurogame_bench.timing import interleaved, peak_memory

TOKENS, BATCH = (16, 32, 64, 128, 256, 512), 16
WORDS, METHODS = (10, 30, 100, 300), ("decision", "occlusion")
MOST = 512
_MEMORY = """
import sys
sys.path.insert(0, {here!r})
import torch
from growth import explained, opened, predicted
torch.set_num_threads({threads})
nli = opened()
def run(size, option):
    {what}(nli, size, option)
warm, real = ({small}, {option!r}), ({size}, {option!r})
"""


def opened() -> NLI:
    """The embedded model, for longer texts than it was trained on."""
    quiet()
    nli = load()
    nli.max_length = nli.tokenizer.model_max_length = MOST
    return nli


def pair(tokens: int) -> tuple[str, str]:
    """A pair that the model reads as so many tokens, [CLS] and two [SEP] among them."""
    hypothesis = max(1, (tokens - 3) // 4)
    return " ".join(["dog"] * (tokens - 3 - hypothesis)), " ".join(["dog"] * hypothesis)


def predicted(nli: NLI, tokens: int, batch: int) -> None:
    """One batch."""
    nli.predict([pair(tokens)] * batch, batch_size=batch, show_progress=False)


def explained(nli: NLI, words: int, method: str) -> None:
    """One pair of so many words."""
    nli.explain(*pair(words + 3), method=method)


def memory(what: str, small: int, size: int, option: Any) -> float | None:
    """Megabytes, in a process of its own."""
    here = str(Path(__file__).parent)
    threads = torch.get_num_threads()
    peak = peak_memory(_MEMORY.format(here=here, what=what, small=small, size=size, option=option, threads=threads))
    return None if peak is None else round(peak / 1e6, 1)


def exponents(sizes: tuple[int, ...], costs: list[float]) -> list[float | None]:
    """d log cost / d log size, between neighbours."""
    steps = zip(sizes, sizes[1:], costs, costs[1:], strict=False)
    return [None, *(round(log(b / a) / log(n / m), 2) for m, n, a, b in steps)]


def by_tokens(nli: NLI, sizes: tuple[int, ...], repetitions: int) -> list[dict[str, Any]]:
    """A row per length."""
    for tokens in sizes:
        assert nli.encode([pair(tokens)]).lengths == [tokens]
    found = interleaved({str(n): partial(predicted, nli, n, BATCH) for n in sizes}, repetitions)
    seconds = [found[str(n)] / BATCH for n in sizes]
    rows = []
    for n, cost, growth in zip(sizes, seconds, exponents(sizes, seconds), strict=True):
        size = memory("predicted", 8, n, BATCH)
        rows.append({"tokens": n, "pairs_per_second": round(1 / cost, 2), "growth": growth, "megabytes": size})
        progress(str(rows[-1]))
    return rows


def by_words(nli: NLI, sizes: tuple[int, ...], repetitions: int) -> list[dict[str, Any]]:
    """A row per method and length."""
    rows = []
    for method in METHODS:
        found = interleaved({str(n): partial(explained, nli, n, method) for n in sizes}, repetitions)
        seconds = [found[str(n)] for n in sizes]
        for n, cost, growth in zip(sizes, seconds, exponents(sizes, seconds), strict=True):
            row = {"method": method, "words": n, "milliseconds": round(1000 * cost, 1), "growth": growth}
            rows.append({**row, "megabytes": memory("explained", 5, n, method)})
            progress(str(rows[-1]))
    return rows


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--words", type=int, nargs="+", default=WORDS)
    parser.add_argument("--dry", action="store_true", help="store nothing")
    options = parser.parse_args()
    clock, nli = Clock(), opened()
    found = {
        "batch": BATCH,
        "tokens": by_tokens(nli, tuple(options.tokens), options.repetitions),
        "words": by_words(nli, tuple(options.words), options.repetitions),
    }
    show("predictions", found["tokens"])  # type: ignore[arg-type]
    show("explanations", found["words"])  # type: ignore[arg-type]
    if options.dry:
        print(json.dumps(found))
    else:
        save("growth", clock(), repetitions=options.repetitions, **found)


if __name__ == "__main__":
    main()
