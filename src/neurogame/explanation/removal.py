"""What the model says of x_C, the text in which only the words C are left; `data.removal` makes x_C.

Only the tokens of words go. Special tokens, and what a tokenizer keeps between words, are in every x_C, so that x_∅ is
an input too. A word goes with all its pieces. Deleting leaves room, but words that the text was too long for do not
come back. Batches are padded on the right, where padding moves no position, whatever side the tokenizer pads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame._common.validation import check_count
from neurogame.data.batching import sorted_batches
from neurogame.data.removal import Mode, Removal
from neurogame.explanation.reading import Question, Reading
from neurogame.modeling.checking import ModelError

BATCH = 64  # inputs per forward pass
Asked = tuple[Reading, Bool[Tensor, "coalitions read"]]


def evaluate(
    reading: Reading, keep: Bool[Tensor, "coalitions read"], mode: Mode = "delete", batch_size: int = BATCH
) -> Float[Tensor, "coalitions labels"]:
    """Logits of x_C for each row of `keep`; rows that are the same are evaluated once.

    `reading.nli.outputs.probabilities(logits, reading.nli.temperature)` are those that `predict` gives.

    Args:
        reading: the text.
        keep: True where a word stays; a column per word that was read, in the order of `reading.units.read`.
        mode: "delete", "mask" or "pad", see `data.removal`.
        batch_size: rows per forward pass.

    Raises:
        ModelError: logits that are NaN or infinite.
        ValueError: `keep` does not fit the words, or a mode that the tokenizer does not allow.
    """
    return evaluate_each([(reading, keep)], mode, batch_size)[0]


def evaluate_each(
    asked: Sequence[Asked], mode: Mode = "delete", batch_size: int = BATCH
) -> list[Float[Tensor, "coalitions labels"]]:
    """The same of several pairs of one classifier: their rows share batches of similar length."""
    nli, readings = asked[0][0].nli, [reading for reading, _ in asked]
    distinct = [keep.unique(dim=0, return_inverse=True) if len(keep) else (keep, torch.arange(0)) for _, keep in asked]
    answers = [torch.empty(len(keep), len(nli.labels)) for keep, _ in distinct]
    for rows, inputs in batches(list(zip(readings, (keep for keep, _ in distinct), strict=True)), mode, batch_size):
        with torch.inference_mode():
            logits = nli.forward(inputs).logits.float().cpu()
        for (pair, numbers), z in zip(rows.items(), logits.split(list(map(len, rows.values()))), strict=True):
            answers[pair][numbers] = z
            readings[pair].passes.add(len(numbers))
    if not all(bool(z.isfinite().all()) for z in answers):
        raise ModelError(f"the logits of {nli.name} are NaN or infinite where words are removed ({mode})")
    return [z[back.cpu()] for z, (_, back) in zip(answers, distinct, strict=True)]


def batches(
    asked: Sequence[Asked], mode: Mode = "delete", batch_size: int = BATCH
) -> Iterator[tuple[dict[int, list[int]], dict[str, Int[Tensor, "batch tokens"]]]]:
    """Batches of similar length, the longest first: rows by the number of their pair, and the inputs of the model."""
    check_count("batch_size", batch_size)
    nli = asked[0][0].nli
    removal = Removal.of(nli.tokenizer, mode, name=nli.name, left=False)
    stays = [_tokens(reading, keep) for reading, keep in asked]
    places = [(pair, row) for pair, mask in enumerate(stays) for row in range(len(mask))]
    lengths = [int(n) for mask in stays for n in (mask if mode == "delete" else torch.ones_like(mask)).sum(-1)]
    for batch in sorted_batches(lengths, batch_size):
        rows: dict[int, list[int]] = {}
        for pair, row in (places[i] for i in batch):
            rows.setdefault(pair, []).append(row)
        inputs: dict[str, list[Tensor]] = {}
        for pair, numbers in rows.items():
            whole = {name: column.expand(len(numbers), -1) for name, column in asked[pair][0].tokens.inputs.items()}
            for name, column in removal.remove(whole, stays[pair][numbers]).items():
                inputs.setdefault(name, []).extend(column.unbind())
        padded = {
            name: nn.utils.rnn.pad_sequence(columns, batch_first=True, padding_value=removal.fill.get(name, 0))
            for name, columns in inputs.items()
        }
        yield rows, nli.on_device(padded)


def _tokens(reading: Reading, keep: Bool[Tensor, "coalitions read"]) -> Bool[Tensor, "coalitions tokens"]:
    """Which tokens stay: those of the words that do, and those of no word."""
    words = len(reading.units.read)
    if keep.dim() != 2 or keep.shape[1] != words or keep.dtype != torch.bool:
        raise ValueError(
            f"keep must be bool [coalitions, {words}], a column per word that was read; "
            f"got {keep.dtype} {list(keep.shape)}"
        )
    return (keep.float().cpu() @ reading.units.members).bool() | (reading.units.unit_of < 0)


@dataclass(frozen=True, eq=False)
class InputGame:
    """ℓ(x_C) = logit_target(x_C) [− logit_contrast(x_C)]; what was evaluated is remembered."""

    reading: Reading
    direction: Float[Tensor, "labels"]
    mode: Mode = "delete"
    seen: dict[bytes, Float[Tensor, "labels"]] = field(default_factory=dict)

    @classmethod
    def of(cls, reading: Reading, question: Question, mode: Mode = "delete") -> "InputGame":
        """The game of what is asked."""
        return cls(reading, question.direction(reading.nli.labels), mode)

    @property
    def players(self) -> int:
        """n."""
        return len(self.reading.units.read)

    def logits(self, C: Bool[Tensor, "... players"]) -> Float[Tensor, "... labels"]:
        """All logits of each coalition."""
        rows = C.reshape(-1, self.players)
        keys = [row.tobytes() for row in rows.numpy()]
        fresh = [i for i, key in enumerate(keys) if key not in self.seen]
        for i, logits in zip(fresh, evaluate(self.reading, rows[fresh], self.mode).double(), strict=True):
            self.seen[keys[i]] = logits
        return torch.stack([self.seen[key] for key in keys]).reshape(*C.shape[:-1], -1)

    def __call__(self, C: Bool[Tensor, "... players"]) -> Float[Tensor, "..."]:
        """ℓ(x_C)."""
        return self.logits(C) @ self.direction
