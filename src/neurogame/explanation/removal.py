"""Words taken out of a pair: what the model says of x_C, the pair in which only the words C are left.

    [CLS] two dogs sleep [SEP] the dogs run [SEP]   C = {two, sleep, dogs, run}   ids of one pair, never decoded
    delete   [CLS] two sleep [SEP] dogs run [SEP]                   positions are packed anew, segments stay
    mask     [CLS] two [MASK] sleep [SEP] [MASK] dogs run [SEP]     nothing moves
    pad      [CLS] two dogs sleep [SEP] the dogs run [SEP]          nothing moves; attention_mask is 0 at what is out

Only the tokens of words go. Special tokens, and what a tokenizer keeps between words, are in every x_C, so that x_∅ is
an input too. A word goes with all its pieces. Deleting leaves room, but words that the pair was too long for do not
come back. A NeuroGame model with players="words" reads [MASK] but does not pool it: to it, it is no word.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch

from neurogame._types import Bool, Float, Int, Tensor
from neurogame.data.batching import sorted_batches
from neurogame.explanation.reading import Question, Reading
from neurogame.nli import ModelError
from neurogame.validation import check_choice, check_count

Mode = Literal["delete", "mask", "pad"]
BATCH = 64  # inputs per forward pass
Batch = tuple[Int[Tensor, "batch"], dict[str, Int[Tensor, "batch tokens"]]]


def kept_inputs(
    reading: Reading, keep: Bool[Tensor, "coalitions read"], mode: Mode = "delete", *, batch_size: int = BATCH
) -> Iterator[Batch]:
    """Inputs of the model for each row of `keep`, in batches of similar length: (which rows, what the model takes).

    Args:
        reading: the pair.
        keep: True where a word stays; a column per word that was read, in the order of `reading.units.read`.
        mode: "delete", "mask" or "pad", see above.
        batch_size: rows per batch; the longest rows come first.
    """
    _check(reading, keep, mode)
    check_count("batch_size", batch_size)
    units, tokenizer = reading.units, reading.nli.tokenizer
    stays = (keep.float().cpu() @ units.members).bool() | (units.unit_of < 0)  # (coalitions, tokens)
    columns = {name: value[0] for name, value in reading.tokens.inputs.items() if name != "attention_mask"}
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    lengths = stays.sum(-1) if mode == "delete" else torch.full((len(stays),), stays.shape[1])
    for rows in sorted_batches(lengths.tolist(), batch_size):
        there = stays[rows]
        if mode == "delete":
            order, there = _packed(there, int(lengths[rows].max()), left=tokenizer.padding_side == "left")
            inputs = {name: column[order].masked_fill(~there, padding.get(name, 0)) for name, column in columns.items()}
        else:
            inputs = {name: column.expand(len(rows), -1) for name, column in columns.items()}
        if mode == "mask":
            inputs["input_ids"] = torch.where(there, inputs["input_ids"], tokenizer.mask_token_id)
            there = torch.ones_like(there)
        inputs["attention_mask"] = there.long()
        yield torch.tensor(rows), {name: value.to(reading.model.device) for name, value in inputs.items()}


def evaluate(
    reading: Reading, keep: Bool[Tensor, "coalitions read"], mode: Mode = "delete", batch_size: int = BATCH
) -> Float[Tensor, "coalitions labels"]:
    """Logits of x_C for each row of `keep`, see `kept_inputs`; rows that are the same are evaluated once.

    `(logits / reading.nli.temperature).softmax(-1)` are the probabilities that `predict` gives.
    """
    distinct, place = keep.unique(dim=0, return_inverse=True) if len(keep) else (keep, torch.empty(0).long())
    found = torch.empty(len(distinct), len(reading.nli.labels))
    for rows, inputs in kept_inputs(reading, distinct, mode, batch_size=batch_size):
        with torch.inference_mode():
            logits = reading.nli.forward(inputs).logits.float().cpu()
        found[rows] = logits
        reading.passes.add(len(rows))
    if not bool(found.isfinite().all()):
        raise ModelError(f"the logits of {reading.nli.name} are NaN or infinite where words are removed ({mode})")
    return found[place.cpu()]


@dataclass(frozen=True, eq=False)
class InputGame:
    """ℓ(x_C) = logit_target(x_C) [− logit_contrast(x_C)]; what was evaluated is remembered."""

    reading: Reading
    direction: Float[Tensor, "labels"]
    mode: Mode = "delete"
    seen: dict[bytes, Float[Tensor, "labels"]] = field(default_factory=dict)

    @classmethod
    def of(cls, reading: Reading, question: Question) -> "InputGame":
        """The game of what is asked."""
        return cls(reading, question.direction(reading.nli.labels))

    @property
    def players(self) -> int:
        """n."""
        return len(self.reading.units.read)

    def logits(self, C: Bool[Tensor, "... players"]) -> Float[Tensor, "... labels"]:
        """All logits of each coalition."""
        rows = C.reshape(-1, self.players)
        keys = [row.tobytes() for row in rows.numpy()]
        fresh = [i for i, key in enumerate(keys) if key not in self.seen]
        for i, found in zip(fresh, evaluate(self.reading, rows[fresh], self.mode).double(), strict=True):
            self.seen[keys[i]] = found
        return torch.stack([self.seen[key] for key in keys]).reshape(*C.shape[:-1], -1)

    def __call__(self, C: Bool[Tensor, "... players"]) -> Float[Tensor, "..."]:
        """ℓ(x_C)."""
        return self.logits(C) @ self.direction


def _check(reading: Reading, keep: Tensor, mode: Mode) -> None:
    check_choice("mode", mode, Mode)
    words = len(reading.units.read)
    if keep.dim() != 2 or keep.shape[1] != words or keep.dtype != torch.bool:
        raise ValueError(
            f"keep must be bool [coalitions, {words}], a column per word that was read; "
            f"got {keep.dtype} {list(keep.shape)}"
        )
    if mode == "mask" and reading.nli.tokenizer.mask_token_id is None:
        raise ValueError(
            f"mode = 'mask' needs a mask token, which the tokenizer of {reading.nli.name} does not have; "
            "allowed: 'delete', 'pad'"
        )


def _packed(
    stays: Bool[Tensor, "batch tokens"], width: int, *, left: bool
) -> tuple[Int[Tensor, "batch width"], Bool[Tensor, "batch width"]]:
    """Which token stands where once the gaps are closed, and where one does; padding on the right, or on the left."""
    if left:
        order = stays.int().argsort(dim=1, stable=True)[:, stays.shape[1] - width :]
    else:
        order = (~stays).int().argsort(dim=1, stable=True)[:, :width]
    return order, stays.gather(1, order)
