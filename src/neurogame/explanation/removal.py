"""What the model says of x_C, the text in which only the words C are left; `data.removal` makes x_C.

Only the tokens of words go. Special tokens, and what a tokenizer keeps between words, are in every x_C, so that x_∅ is
an input too. A word goes with all its pieces. Deleting leaves room, but words that the text was too long for do not
come back. Batches are padded on the right, where padding moves no position, whatever side the tokenizer pads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from neurogame._types import Bool, Float, Int, Tensor
from neurogame.data.batching import sorted_batches
from neurogame.data.removal import Mode, Removal
from neurogame.explanation.reading import Question, Reading
from neurogame.modeling.checking import ModelError
from neurogame.validation import check_count

BATCH = 64  # inputs per forward pass
Batch = tuple[Int[Tensor, "batch"], dict[str, Int[Tensor, "batch tokens"]]]


def kept_inputs(
    reading: Reading, keep: Bool[Tensor, "coalitions read"], mode: Mode = "delete", *, batch_size: int = BATCH
) -> Iterator[Batch]:
    """Inputs of the model for each row of `keep`, in batches of similar length: (which rows, what the model takes).

    Args:
        reading: the text.
        keep: True where a word stays; a column per word that was read, in the order of `reading.units.read`.
        mode: "delete", "mask" or "pad", see above.
        batch_size: rows per batch; the longest rows come first.
    """
    removal = _checked(reading, keep, mode)
    check_count("batch_size", batch_size)
    units = reading.units
    stays = (keep.float().cpu() @ units.members).bool() | (units.unit_of < 0)  # (coalitions, tokens)
    lengths = stays.sum(-1) if mode == "delete" else torch.full((len(stays),), stays.shape[1])
    for rows in sorted_batches(lengths.tolist(), batch_size):
        columns = {name: column.expand(len(rows), -1) for name, column in reading.tokens.inputs.items()}
        inputs = removal.remove(columns, stays[rows])
        yield torch.tensor(rows), {name: value.to(reading.model.device) for name, value in inputs.items()}


def evaluate(
    reading: Reading, keep: Bool[Tensor, "coalitions read"], mode: Mode = "delete", batch_size: int = BATCH
) -> Float[Tensor, "coalitions labels"]:
    """Logits of x_C for each row of `keep`, see `kept_inputs`; rows that are the same are evaluated once.

    `reading.nli.outputs.probabilities(logits, reading.nli.temperature)` are those that `predict` gives.
    """
    distinct, place = keep.unique(dim=0, return_inverse=True) if len(keep) else (keep, torch.empty(0).long())
    answers = torch.empty(len(distinct), len(reading.nli.labels))
    for rows, inputs in kept_inputs(reading, distinct, mode, batch_size=batch_size):
        with torch.inference_mode():
            logits = reading.nli.forward(inputs).logits.float().cpu()
        answers[rows] = logits
        reading.passes.add(len(rows))
    if not bool(answers.isfinite().all()):
        raise ModelError(f"the logits of {reading.nli.name} are NaN or infinite where words are removed ({mode})")
    return answers[place.cpu()]


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


def _checked(reading: Reading, keep: Tensor, mode: Mode) -> Removal:
    """How words are removed from the text, if what is asked fits it."""
    removal = Removal.of(reading.nli.tokenizer, mode, name=reading.nli.name, left=False)
    words = len(reading.units.read)
    if keep.dim() != 2 or keep.shape[1] != words or keep.dtype != torch.bool:
        raise ValueError(
            f"keep must be bool [coalitions, {words}], a column per word that was read; "
            f"got {keep.dtype} {list(keep.shape)}"
        )
    return removal
