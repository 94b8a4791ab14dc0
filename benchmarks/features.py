"""Token features of a frozen encoder: computed once, kept in a file, read back as a memory map.

    states.f16    [tokens of all pairs, dim], float16, one pair after the other
    rest.npz      which tokens are words, how many tokens each pair has, its label
    about.json    encoder, pairs (by fingerprint) and length they belong to; written last, so what has it is whole

A batch is padded on its way out. Batches hold pairs of like length; their order is a function of (seed, epoch)
alone, the same for every row that is trained on them.
"""

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import named, progress
from torch import Tensor
from transformers import AutoConfig

from neurogame.data import PairDataset
from neurogame.data.batching import collate, encode, sorted_batches
from neurogame.modeling.configuration import special_token_ids
from neurogame.modeling.loading import load_encoder, load_tokenizer
from neurogame.training.randomness import generator
from neurogame_bench.study import read, write


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded states with their masks and labels."""

    x: Tensor  # (batch, tokens, dim), float32
    real: Tensor  # (batch, tokens)
    words: Tensor  # (batch, tokens): real and not special
    labels: Tensor  # (batch,)


@dataclass(frozen=True, eq=False)
class Features:
    """The states of a list of pairs, end to end."""

    states: Tensor  # (tokens, dim), float16, memory-mapped
    word: Tensor  # (tokens,)
    lengths: Tensor  # (pairs,)
    labels: Tensor  # (pairs,), in the order of `neurogame.labels`

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Tensor) -> Batch:
        """Some pairs, padded to the longest."""
        lengths = self.lengths[rows]
        steps = torch.arange(int(lengths.max()))
        real = steps < lengths.unsqueeze(1)
        starts = (self.lengths.cumsum(0) - self.lengths)[rows]
        index = torch.where(real, starts.unsqueeze(1) + steps, 0)
        x = self.states[index].float() * real.unsqueeze(-1)
        return Batch(x, real, real & self.word[index], self.labels[rows])

    def shuffled(self, size: int, seed: int, epoch: int) -> Iterator[Tensor]:
        """Row numbers of an epoch's batches: pairs of like length together, batches in random order."""
        draw = generator(seed, "order", epoch)
        order = torch.randperm(len(self), generator=draw)
        groups = order[self.lengths[order].argsort(stable=True)].split(size)
        for i in torch.randperm(len(groups), generator=draw).tolist():
            yield groups[i]

    def sorted(self, size: int) -> Iterator[Tensor]:
        """Row numbers of batches for evaluation."""
        yield from self.lengths.argsort(stable=True).split(size)


def features(pairs: PairDataset, encoder: Path, folder: Path, *, max_length: int = 128) -> Features:
    """The features of `pairs`, from `folder` if they are there, else computed and kept."""
    about = {"encoder": named(encoder), "pairs": pairs.fingerprint, "max_length": max_length}
    if read(folder / "about.json") != about:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "about.json").unlink(missing_ok=True)
        _apart(pairs, encoder, folder, max_length)
        write(folder / "about.json", about)
    rest = {name: torch.from_numpy(found) for name, found in np.load(folder / "rest.npz").items()}
    dim = int(AutoConfig.from_pretrained(encoder).hidden_size)
    size = int(rest["lengths"].sum()) * dim
    states = torch.from_file(str(folder / "states.f16"), shared=False, size=size, dtype=torch.float16)
    return Features(states.view(-1, dim), rest["word"], rest["lengths"], rest["labels"])


def _apart(*arguments: Any) -> None:
    """`_compute` in a process of its own: the threads it starts are not there when a study forks its workers."""
    process = multiprocessing.get_context("fork").Process(target=_compute, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the features of {arguments[0].name} could not be computed; the reason stands above")


@torch.inference_mode()
def _compute(pairs: PairDataset, encoder: Path, folder: Path, max_length: int) -> None:
    """Last hidden states of each pair, read jointly by the frozen encoder."""
    tokenizer = load_tokenizer(str(encoder))
    model, _ = load_encoder(str(encoder), AutoConfig.from_pretrained(encoder), dtype=torch.float32)
    model.eval()
    rows = encode(pairs, tokenizer, max_length=max_length)
    if rows.labels is None:
        raise SystemExit(f"{pairs.name} cannot be used: {rows.without_labels}")
    pad, offsets, done = collate(tokenizer), rows.offsets, 0
    dim = int(model.config.hidden_size)
    states = np.memmap(folder / "states.f16", dtype=np.float16, mode="w+", shape=(int(offsets[-1]), dim))
    for batch in sorted_batches(rows.lengths, 64):
        inputs = pad([{key: value for key, value in rows[i].items() if key != "labels"} for i in batch])
        found = model(**inputs).last_hidden_state.half().numpy()
        for place, i in enumerate(batch):
            states[offsets[i] : offsets[i + 1]] = found[place, : offsets[i + 1] - offsets[i]]
        done += len(batch)
        if done // 2048 > (done - len(batch)) // 2048:
            progress(f"  {pairs.name}: {done} of {len(rows)} pairs encoded")
    states.flush()
    word = ~np.isin(rows.columns["input_ids"], special_token_ids(tokenizer))
    np.savez(folder / "rest.npz", word=word, lengths=np.diff(offsets), labels=rows.labels)
