"""The warm start of a new game: before the first step of a run, games and readout are trained on the frozen encoder.

    the encoder belongs to a trained classifier     the games are fitted to its answers: `grounding.fit_to_answers`
    a plain encoder                                 the games learn from the labels: `learn_labels`

A random head would ruin a pretrained encoder before it had learned to read it. Without either the states would not be
standardised, and a game that starts from raw states learns little. Every process of a run does the same, so the
result does not depend on their number; a resumed run has its weights from the checkpoint.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from neurogame._common.types import Bool, Float
from neurogame.data import PairDataset
from neurogame.data.batching import padding_right
from neurogame.data.removal import Removal
from neurogame.grounding.fitting import BATCH, STATISTICS, descend, stored
from neurogame.grounding.texts import as_pairs, coalitions_of, word_rows
from neurogame.labels import spelled
from neurogame.modeling.model import NeuroGameForSequenceClassification
from neurogame.readout import NormGames
from neurogame.training.config import GroundingSection
from neurogame.training.grounding import sample_texts, two_terms
from neurogame.training.randomness import derive

_TEXTS = 32  # per step


class Frozen(NamedTuple):
    """What a frozen encoder makes of a text: states, and which of them play. Real tokens only."""

    states: Float[Tensor, "tokens dim"]  # float16
    players: Bool[Tensor, "tokens"]


class Labelled(NamedTuple):
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
    steps then go over them: cross-entropy of the labels, and the two terms of `grounding_loss`. Arguments are those of
    `fit_to_answers`. Texts of `data` without a label are left out; a ValueError where none has one.
    """
    games = model.pooling.games
    assert isinstance(games, NormGames)
    was_training = model.training
    texts = _read(model.eval(), tokenizer, data, section, max_length, seed=seed, bf16=bf16, progress=progress)
    games.standardise(torch.cat([text.whole.states for text in texts[:STATISTICS]]).float().to(model.device))
    model.train()
    descend(
        [*games.parameters(), *model.classifier.parameters()],
        lambda rows: _loss(model, [texts[i] for i in rows], section),
        [len(text.whole.states) for text in texts],
        steps=section.warm_steps,
        batch_size=_TEXTS,
        order=derive(seed, "warm order"),
        spins=derive(seed, "warm spins"),
    )
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
    sample, draws = sample_texts(data, section.warm_texts, seed)
    ids = {spelled(name): int(i) for name, i in (model.config.label2id or {}).items()}
    chosen = [pair for pair in sample if pair.label in ids]
    if not chosen:
        raise ValueError(f"{data.name}: none of the first {len(sample)} texts has a label of the model")
    tokenizer = padding_right(tokenizer)
    rows = word_rows(as_pairs(chosen), tokenizer, max_length, [ids[str(pair.label)] for pair in chosen])
    removal = Removal.of(tokenizer, section.removal)
    options: dict[str, Any] = {"batch_size": BATCH, "generator": draws, "device": model.device}
    texts: dict[int, Labelled] = {}
    for batch in coalitions_of(rows, tokenizer, section.coalitions, section.law, **options):
        labels = batch.inputs.pop("labels").tolist()
        whole = _frozen(model, batch.inputs, bf16=bf16)
        parts = [_frozen(model, part, bf16=bf16) for part in batch.without(removal)]
        for row, i in enumerate(batch.places):
            stays = batch.stays[row][:, batch.real[row]].cpu()
            texts[i] = Labelled(whole[row], tuple(part[row] for part in parts), stays, labels[row])
        if progress is not None:
            progress(len(batch.places) * (section.coalitions + 1))
    return [texts[i] for i in range(len(rows))]


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
