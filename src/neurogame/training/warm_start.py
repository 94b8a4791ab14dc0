"""The warm start of a new game: before the first step of a run, games and readout are trained on the frozen encoder.

    the encoder belongs to a trained classifier     the games are fitted to its answers: `grounding.fit_to_answers`
    a plain encoder                                 the games learn from the labels: `learn_labels`

A random head would ruin a pretrained encoder before it had learned to read it. Without either the states would not be
standardised, and a game that starts from raw states learns little. Every process of a run does the same, so the
result does not depend on their number; a resumed run has its weights from the checkpoint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from neurogame._types import Bool, Float
from neurogame.data import PairDataset
from neurogame.data.batching import padding_right
from neurogame.data.removal import Removal
from neurogame.grounding.fitting import BATCH, LEARNING_RATE, grouped, stored
from neurogame.grounding.texts import WordRows, as_pairs, coalitions_of
from neurogame.labels import spelled
from neurogame.modeling.model import NeuroGameForSequenceClassification
from neurogame.readout import NormGames
from neurogame.training.config import GroundingSection
from neurogame.training.grounding import two_terms
from neurogame.training.randomness import derive

_TEXTS = 32  # per step
_STATISTICS = 800  # texts from which mean and spread of the states are taken


@dataclass(frozen=True, eq=False)
class Frozen:
    """What a frozen encoder makes of a text: states, and which of them play. Real tokens only."""

    states: Float[Tensor, "tokens dim"]  # float16
    players: Bool[Tensor, "tokens"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """A training text as the frozen encoder reads it, whole and incomplete."""

    whole: Frozen
    parts: tuple[Frozen, ...]  # x_C for each coalition
    stays: Bool[Tensor, "coalitions tokens"]  # which tokens of the whole are in x_C
    label: int


def learn_labels(
    model: NeuroGameForSequenceClassification,
    tokenizer: PreTrainedTokenizerBase,
    data: PairDataset,
    section: GroundingSection,
    max_length: int,
    *,
    seed: int,
    bf16: bool = False,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Train games and readout, in place, on states of the frozen encoder: the objective of the run itself.

    The states of `section.warm_texts` texts and of coalitions of their words are computed once. `section.warm_steps`
    steps then go over them: cross-entropy of the labels, and the two terms of `grounding_loss`.

    Args:
        model: with readout "game"; its games and classifier are changed.
        tokenizer: its tokenizer.
        data: training texts with labels; texts without one are left out.
        section: the objective.
        max_length: tokens of a text.
        seed: of the run.
        bf16: autocast the passes over the texts, as in training.
        progress: called with the number of forward passes just done.

    Raises:
        ValueError: no text has a label.
    """
    games = model.pooling.games
    assert isinstance(games, NormGames)
    texts = _read(model, tokenizer, data, section, max_length, seed=seed, bf16=bf16, progress=progress)
    games.standardise(torch.cat([text.whole.states for text in texts[:_STATISTICS]]).float().to(model.device))
    parameters = [*games.parameters(), *model.classifier.parameters()]
    optimizer = torch.optim.AdamW(parameters, LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, section.warm_steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(derive(seed, "warm order"))
    order: list[list[int]] = []
    was_training = model.training
    model.train()
    with torch.random.fork_rng(devices=[]):  # what spins that gate V draw belongs to the seed
        torch.manual_seed(derive(seed, "warm spins"))
        for _ in range(section.warm_steps):
            if not order:
                order = grouped([len(text.whole.states) for text in texts], _TEXTS, generator)
            loss = _loss(model, [texts[i] for i in order.pop()], section)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
    optimizer.zero_grad()
    model.train(was_training)


@torch.no_grad()
def _read(
    model: NeuroGameForSequenceClassification,
    tokenizer: PreTrainedTokenizerBase,
    data: PairDataset,
    section: GroundingSection,
    max_length: int,
    *,
    seed: int,
    bf16: bool,
    progress: Callable[[int], object] | None,
) -> list[Labelled]:
    """The states of each text and of coalitions of its words, from the encoder as it is."""
    generator = torch.Generator().manual_seed(derive(seed, "warm start"))
    places = torch.randperm(len(data), generator=generator)[: section.warm_texts].tolist()
    ids = {spelled(name): int(i) for name, i in (model.config.label2id or {}).items()}
    chosen = [pair for pair in (data[i] for i in places) if pair.label in ids]
    if not chosen:
        raise ValueError(f"{data.name}: none of the first {len(places)} texts has a label of the model")
    tokenizer = padding_right(tokenizer)
    rows = WordRows(as_pairs(chosen), tokenizer, max_length, [ids[str(pair.label)] for pair in chosen])
    encoded, removal = [rows[i] for i in range(len(rows))], Removal.of(tokenizer, section.removal)
    options: dict[str, Any] = {"batch_size": BATCH, "generator": generator, "device": model.device}
    found: dict[int, Labelled] = {}
    was_training = model.training
    model.eval()
    for batch in coalitions_of(encoded, tokenizer, section.coalitions, section.law, **options):
        labels = batch.inputs.pop("labels").tolist()
        whole = _frozen(model, batch.inputs, bf16=bf16)
        parts = [_frozen(model, part, bf16=bf16) for part in batch.without(removal)]
        for row, i in enumerate(batch.places):
            stays = batch.stays[row][:, batch.real[row]].cpu()
            found[i] = Labelled(whole[row], tuple(part[row] for part in parts), stays, labels[row])
        if progress is not None:
            progress(len(batch.places) * (section.coalitions + 1))
    model.train(was_training)
    return [found[i] for i in range(len(encoded))]


def _frozen(model: NeuroGameForSequenceClassification, inputs: dict[str, Tensor], *, bf16: bool) -> list[Frozen]:
    """Each row of a batch, without its padding."""
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        states = stored(model.encode(**inputs).states)
    real = inputs["attention_mask"].bool()
    players = model.players(inputs["input_ids"], real)
    rows = zip(states, players.cpu(), real.cpu(), strict=True)
    return [Frozen(x[there], playing[there]) for x, playing, there in rows]


def _loss(model: NeuroGameForSequenceClassification, texts: Sequence[Labelled], section: GroundingSection) -> Tensor:
    """What a step of the run minimises, from states that are known."""
    device = model.device
    terms = _terms(model, [text.whole for text in texts])
    logits = model.classify(terms.whole())
    parts = _terms(model, [part for text in texts for part in text.parts])
    said = model.classify(parts.whole()).unflatten(0, (len(texts), -1))
    stays = pad_sequence([text.stays.mT for text in texts], batch_first=True).mT.to(device)  # V is 0 where none plays
    masked, grounded = two_terms(logits, model.classify(terms.of(stays)), said, section)
    gold = torch.tensor([text.label for text in texts], device=device)
    return nn.functional.cross_entropy(logits, gold) + section.masked * masked + section.weight * grounded


def _terms(model: NeuroGameForSequenceClassification, texts: Sequence[Frozen]) -> Any:
    """The games of some texts, padded."""
    states = pad_sequence([text.states.float() for text in texts], batch_first=True).to(model.device)
    players = pad_sequence([text.players for text in texts], batch_first=True).to(model.device)
    lengths = torch.tensor([len(text.states) for text in texts], device=model.device)
    real = torch.arange(states.shape[1], device=model.device) < lengths.unsqueeze(-1)
    games = model.pooling.games
    assert isinstance(games, NormGames)
    return games.terms(states, players, real=real)
