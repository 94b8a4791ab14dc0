"""The objective that gives the game its meaning: logits(C) is what the model says of the words C.

    L = CE(logits, y)
      + λ_m KL(p(·|x) detached ‖ p(·|x_C))              the model learns to read incomplete texts
      + λ_g ‖logits(C) − logits_{x_C} detached‖²        the game predicts it (both centred over the labels)

x_C is the text with the words outside C removed, read by the same model in a pass of its own; C comes with its
complement, so both together are one text long. `GroundedRows` gives each training row its words, `grounding_loss` adds
the two terms, `coalition_r2` is the dev metric. Fits to a frozen model before and after training are in `warm_start`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from neurogame._common.types import Bool, Float, Int
from neurogame.data import PairDataset
from neurogame.data.batching import EncodedDataset
from neurogame.data.removal import Removal
from neurogame.data.words import read_words
from neurogame.grounding.coalitions import centred, r_squared
from neurogame.grounding.texts import WORDS, coalitions_of, draw_words, word_rows
from neurogame.modeling.model import NeuroGameForSequenceClassification
from neurogame.readout import LinearReadout, ReadoutOutput
from neurogame.training.config import GroundingSection
from neurogame.training.randomness import generator

_DEV_COALITIONS = 4  # per pair of dev


class PairRows(Dataset[dict[str, Any]]):
    """Base of data sets that compute part of a row from its pair when the row is read."""

    def __init__(self, pairs: PairDataset, encoded: EncodedDataset, tokenizer: PreTrainedTokenizerBase) -> None:
        self.pairs, self.encoded, self.tokenizer = pairs, encoded, tokenizer

    @property
    def lengths(self) -> list[int]:
        """Tokens per row of the whole pairs."""
        return self.encoded.lengths

    def __len__(self) -> int:
        return len(self.encoded)


class GroundedRows(PairRows):
    """Rows with the word of each token."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        pair = self.pairs[index]
        _, word_of = read_words(self.tokenizer, pair.premise, pair.hypothesis, self.encoded.max_length)
        return {**self.encoded[index], WORDS: word_of}


def grounding_loss(
    model: nn.Module,
    inputs: dict[str, Any],
    word_of: Tensor,
    outputs: Any,
    section: GroundingSection,
    removal: Removal,
    draws: torch.Generator,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """(masked, grounding): the two terms without their weights, means over rows and coalitions.

    Only a `share` of the rows counts, drawn anew each step: the passes over incomplete texts are most of the cost of
    grounding. `inputs` are those of the step, whose draws are passed on; `outputs` are those of the whole texts, with
    the record of the game; `word_of` is the word of each token, −1 for none.
    """
    count, rows = section.coalitions, torch.arange(len(word_of))
    if section.share < 1.0:  # at least one row, in their order
        size = max(1, round(section.share * len(word_of)))
        rows = torch.randperm(len(word_of), generator=draws)[:size].sort().values
    rows = rows.to(word_of.device)
    word_of, real = word_of[rows], inputs["attention_mask"][rows].bool()
    _, stays = draw_words(word_of, real, count, section.law, draws)
    columns = [name for name in ("input_ids", "token_type_ids") if name in inputs]
    repeated: dict[str, Tensor] = {name: inputs[name][rows].repeat(count, 1) for name in columns}
    parts = removal.remove(repeated, stays.transpose(0, 1).flatten(0, 1), real.repeat(count, 1))
    options = {name: inputs[name] for name in ("generator",) if name in inputs}
    answers = model(**parts, **options)["logits"].float().unflatten(0, (count, len(rows))).transpose(0, 1)
    return two_terms(outputs["logits"][rows], _predicted(outputs["game"], stays, rows), answers, section)


def two_terms(
    logits: Float[Tensor, "rows labels"],
    predicted: Float[Tensor, "rows coalitions labels"],
    answers: Float[Tensor, "rows coalitions labels"],
    section: GroundingSection,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """(masked, grounding), means over rows and coalitions, of the model's `logits` of whole texts and `answers` on x_C.

    `predicted` is logits(C) of the game. The logits of the whole texts are a goal, without a gradient.
    """
    whole = logits.float().detach().softmax(-1).unsqueeze(1)
    masked = -(whole * answers.log_softmax(-1)).sum(-1) + (whole * whole.clamp(min=1e-12).log()).sum(-1)
    goal = answers if section.two_sided else answers.detach()
    grounded = (centred(predicted) - centred(goal)).square().sum(-1)
    return masked.mean(), grounded.mean()


def _predicted(
    game: ReadoutOutput, stays: Bool[Tensor, "rows coalitions tokens"], rows: Int[Tensor, "rows"] | None = None
) -> Float[Tensor, "rows coalitions labels"]:
    """logits(C) = b + R v(C) of all rows of a batch, or of some of them."""
    terms, real = (game.terms, game.real) if rows is None else (game.terms.rows(rows), game.real[rows])
    return nn.functional.linear(terms.of(stays & real.unsqueeze(1)), game.weight, game.base)


@torch.no_grad()
def coalition_r2(
    model: NeuroGameForSequenceClassification,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    section: GroundingSection,
    max_length: int,
    *,
    batch_size: int = 64,
    seed: int = 0,
) -> float:
    """R² about b (`grounding.r_squared`) of logits(C) for what the model, with readout "game", says of x_C.

    The coalitions of `pairs` are the same every time. The model is left in the mode it was in.
    """
    rows, removal = word_rows(pairs, tokenizer, max_length), Removal.of(tokenizer, section.removal)
    draws = generator(seed, "coalition r2")
    options: dict[str, Any] = {"batch_size": batch_size, "generator": draws, "device": model.device}
    predicted, answers = [], []
    was_training = model.training
    model.eval()
    for batch in coalitions_of(rows, tokenizer, _DEV_COALITIONS, section.law, **options):
        predicted.append(_predicted(model(**batch.inputs, output_game=True).game, batch.stays))
        parts = [model(**part).logits for part in batch.without(removal)]
        answers.append(torch.stack(parts, 1).float())
    model.train(was_training)
    assert isinstance(model.classifier, LinearReadout)
    base = model.classifier.base.detach().cpu()
    return r_squared(torch.cat(predicted).flatten(0, 1), torch.cat(answers).flatten(0, 1), base)
