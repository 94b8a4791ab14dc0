"""The objective that gives the game its meaning: logits(C) is what the model says of the words C.

    L = CE(logits, y)
      + λ_m KL(p(·|x) detached ‖ p(·|x_C))              the model learns to read incomplete texts
      + λ_g ‖logits(C) − logits_{x_C} detached‖²        the game predicts it (both centred over the labels)

x_C is the text with the words outside C removed, read by the same model in a pass of its own; C comes with its
complement, so both together are one text long. `GroundedRows` gives each training row its words, `grounding_loss` adds
the two terms, `coalition_r2` is the dev metric. `fit_to_answers` fits the games to a frozen model: before training to
the classifier that the run starts from, after training to the model that came out. A run that starts from a plain
encoder has no such classifier: `warm_start`.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from neurogame._common.types import Bool, Float, Int
from neurogame.data import PairDataset
from neurogame.data.batching import EncodedDataset
from neurogame.data.removal import Removal
from neurogame.data.words import read_words
from neurogame.grounding.coalitions import centred, r_squared
from neurogame.grounding.fitting import LEARNING_RATE, GroundedGame, fit_games, fit_quality, observe
from neurogame.grounding.texts import WORDS, as_pairs, coalitions_of, draw_words, word_rows
from neurogame.labels import spelled
from neurogame.modeling.model import NeuroGameForSequenceClassification
from neurogame.readout import LinearReadout, NormGames, ReadoutOutput
from neurogame.training.config import GroundingSection
from neurogame.training.randomness import derive, generator

POLISH_RATE = 3e-4
_DEV_COALITIONS = 4  # per pair of dev


class PairRows(Dataset[dict[str, Any]]):
    """Pairs beside their rows in an `EncodedDataset`, of which something is worked out when a row is read."""

    def __init__(self, pairs: PairDataset, encoded: EncodedDataset, tokenizer: PreTrainedTokenizerBase) -> None:
        self.pairs, self.encoded, self.tokenizer = pairs, encoded, tokenizer

    @property
    def lengths(self) -> list[int]:
        """Tokens per row, as it was encoded."""
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
    """The mean over rows and coalitions of the two terms: (masked, grounding), without their weights.

    Of the rows a `share`, drawn anew each step: the passes over incomplete texts are most of what grounding costs.

    Args:
        model: as it is called in training.
        inputs: what it was called with; its draws of coalitions are passed on.
        word_of: the word of each token, −1 for none.
        outputs: of the whole texts, with the record of the game.
        section: the objective.
        removal: how words are taken out.
        draws: where the coalitions come from.
    """
    count, rows = section.coalitions, torch.arange(len(word_of))
    if section.share < 1.0:  # at least one row, in their order
        chosen = torch.randperm(len(word_of), generator=draws)[: max(1, round(section.share * len(word_of)))]
        rows = chosen.sort().values
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


def sample_texts(data: PairDataset, count: int, seed: int) -> tuple[list[Any], torch.Generator]:
    """`count` training texts for a warm start or a polish, and the generator, for further draws."""
    draws = generator(seed, "warm start")
    return [data[i] for i in torch.randperm(len(data), generator=draws)[:count].tolist()], draws


def fit_to_answers(
    model: NeuroGameForSequenceClassification,
    teacher: PreTrainedModel | None,
    tokenizer: PreTrainedTokenizerBase,
    data: PairDataset,
    section: GroundingSection,
    max_length: int,
    *,
    seed: int,
    bf16: bool = False,
    progress: Any = None,
) -> dict[str, float]:
    """Fit games and readout, in place, to a frozen model's answers on coalitions of training texts.

    Before training the answers are those of a `teacher` on the same encoder: a random head would ruin a trained encoder
    before it had learned to read it. After training (`teacher` None) they are the model's own: while the encoder moved,
    the game followed a moving target. The whole text is among the coalitions, so the answers stay those of the model up
    to the error of the fit.

    Args:
        model: with readout "game"; its games and classifier are changed.
        teacher: a trained classifier on the same encoder, with the same labels in any order; None: `model` itself.
        tokenizer: of both.
        data: texts are drawn from it, `section.warm_texts` or `section.polish_texts`.
        section: the objective.
        max_length: tokens of a text.
        seed: of the run.
        bf16: autocast the passes over the texts, as in training.
        progress: called with the number of forward passes just done.

    Returns:
        R² on what it was fitted to, see `neurogame.grounding.fit_quality`.
    """
    polish = teacher is None
    seed = derive(seed, "polish") % 2**31 if polish else seed
    count, steps = (section.polish_texts, section.polish_steps) if polish else (section.warm_texts, section.warm_steps)
    config, games = model.config, model.pooling.games
    assert isinstance(games, NormGames)
    observed = observe(
        copy.deepcopy(model) if teacher is None else teacher,
        tokenizer,
        as_pairs(sample_texts(data, count, seed)[0]),
        config.read_layers,
        coalitions=section.coalitions,
        law=section.law,
        removal=section.removal,
        max_length=max_length,
        seed=derive(seed, "warm coalitions") % 2**31,
        bf16=bf16,
        progress=progress,
    )
    if teacher is not None:
        order = same_labels(teacher.config, config) or list(range(config.num_labels))
        logits = [said[:, order] for said in observed.logits]
        observed = replace(observed, logits=logits, empty=observed.empty[order])
    game = GroundedGame(games.dim, config.num_labels, **games.options)
    game.games.load_state_dict(games.state_dict())
    game.readout.load_state_dict(model.classifier.state_dict())
    rate = POLISH_RATE if polish else LEARNING_RATE
    fit_games(game, observed, steps=steps, seed=seed, learning_rate=rate, standardise=not polish)
    games.load_state_dict(game.games.state_dict())
    model.classifier.load_state_dict(game.readout.state_dict())
    return fit_quality(game, observed)


def same_labels(theirs: PreTrainedConfig, ours: PreTrainedConfig) -> list[int] | None:
    """Where each of our labels is among theirs, by name in any usual spelling; None if they are not the same labels."""
    names = {spelled(str(name)): int(i) for i, name in (theirs.id2label or {}).items()}
    wanted = [spelled(str(ours.id2label[i])) for i in range(ours.num_labels)]
    return [names[name] for name in wanted] if set(names) == set(wanted) and len(names) == theirs.num_labels else None
