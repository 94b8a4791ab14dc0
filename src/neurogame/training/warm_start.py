"""Fits of the game to a frozen model: a warm start before the first step of a run, a polish after the last.

    warm start, the encoder belongs to a trained classifier    to its answers: `fit_to_answers`
    warm start, a plain encoder                                to the labels: `learn_labels`
    polish                                                     to the answers of the trained model: `fit_to_answers`

A random head would ruin a pretrained encoder before it had learned to read it, and a game that starts from states
that are not standardised learns little. While the encoder is trained, the game follows a moving target: the polish
takes up what is left. Every process of a run does the same, so the result does not depend on their number; a resumed
run has its weights from the checkpoint.
"""

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from neurogame._common.types import Bool, Float
from neurogame.data import PairDataset
from neurogame.data.batching import padding_right
from neurogame.data.removal import Removal
from neurogame.grounding import fitting
from neurogame.grounding.texts import as_pairs, coalitions_of, word_rows
from neurogame.labels import spelled
from neurogame.modeling import NeuroGameConfig
from neurogame.modeling.loading import load_trained
from neurogame.modeling.model import NeuroGameForSequenceClassification
from neurogame.readout import NormGames
from neurogame.training.config import GroundingSection, RunConfig
from neurogame.training.grounding import two_terms
from neurogame.training.randomness import derive, generator

POLISH_RATE = 3e-4
_TEXTS = 32  # per step of `learn_labels`
_log = logging.getLogger(__name__)


def warm_start(config: RunConfig, model: Any, tokenizer: Any, data: PairDataset, *, show_progress: bool) -> None:
    """Train a new game on the frozen encoder, where the run asks for it."""
    section = config.training.grounding
    if section is None or not section.warm_steps:
        return
    if has_new_game(config):
        trained = teacher(config, model)
        with _progress("warm start", section.warm_texts, section, data, show=show_progress) as bar:
            fit = Fit.of(config, tokenizer, data, bar.update)
            learn_labels(model, fit) if trained is None else fit_to_answers(model, trained, fit)
    elif "warm_steps" in section.model_fields_set:
        _log.warning(
            "training.grounding.warm_steps = %d has no effect: %s has a game already, which is trained further",
            section.warm_steps,
            config.model.encoder,
        )


def polish(config: RunConfig, model: Any, tokenizer: Any, data: PairDataset, *, show_progress: bool) -> None:
    """Fit the game of a trained model to the model's own answers, where the run asks for it."""
    section = config.training.grounding
    if section is not None and section.polish_steps:
        with _progress("polish", section.polish_texts, section, data, show=show_progress) as bar:
            fit_to_answers(model, None, Fit.of(config, tokenizer, data, bar.update))


def _progress(name: str, texts: int, section: GroundingSection, data: PairDataset, *, show: bool) -> Any:
    total = min(texts, len(data)) * (section.coalitions + 1)
    return tqdm(total=total, unit="pass", desc=name, disable=not show)


def has_new_game(config: RunConfig) -> bool:
    """Whether the run gives its encoder a game that was never trained, on a plain or a trained encoder."""
    if config.model.options.get("readout") != "game":
        return False
    trained = AutoConfig.from_pretrained(str(config.model.encoder), trust_remote_code=False)
    return not isinstance(trained, NeuroGameConfig) or trained.readout == "ffn"


def teacher(config: RunConfig, model: PreTrainedModel) -> PreTrainedModel | None:
    """The trained classifier whose encoder a run that `has_new_game` starts from; None where it has none.

    It is a model of ours or of transformers, with the labels of `model` in any order.
    """
    name = str(config.model.encoder)
    trained = AutoConfig.from_pretrained(name, trust_remote_code=False)
    if isinstance(trained, NeuroGameConfig):
        return NeuroGameForSequenceClassification.from_pretrained(name, dtype=torch.float32)
    if not any(kind.endswith("ForSequenceClassification") for kind in trained.architectures or ()):
        return None
    if _label_order(trained, model.config) is None:
        _log.warning(
            "model.encoder: the labels of %s (%s) are not those of the run (%s): the game is not fitted to its "
            "answers, but learns from the labels of the training data",
            name,
            ", ".join(trained.id2label.values()),
            ", ".join(model.config.id2label.values()),
        )
        return None
    return load_trained(name)


def _label_order(theirs: PreTrainedConfig, ours: PreTrainedConfig) -> list[int] | None:
    """Where each of our labels is among theirs, by name in any usual spelling; None if they are not the same labels."""
    names = {spelled(str(name)): int(i) for i, name in (theirs.id2label or {}).items()}
    wanted = [spelled(str(ours.id2label[i])) for i in range(ours.num_labels)]
    return [names[name] for name in wanted] if set(names) == set(wanted) and len(names) == theirs.num_labels else None


@dataclass(frozen=True)
class Fit:
    """What a game is fitted on, and how."""

    tokenizer: PreTrainedTokenizerBase
    data: PairDataset  # texts are drawn from it
    section: GroundingSection
    max_length: int  # tokens of a text
    seed: int  # of the run
    bf16: bool = False  # autocast the passes over the texts, as in training
    progress: Callable[[int], object] = lambda _: None  # called with the number of forward passes just done

    @classmethod
    def of(cls, config: RunConfig, tokenizer: Any, data: PairDataset, progress: Callable[[int], object]) -> "Fit":
        """As a run file says."""
        training = config.training
        assert training.grounding is not None
        return cls(tokenizer, data, training.grounding, config.data.max_length, config.seed, training.bf16, progress)

    def sample(self, count: int, seed: int) -> tuple[list[Any], torch.Generator]:
        """`count` texts, and the generator, for further draws."""
        draws = generator(seed, "warm start")
        return [self.data[i] for i in torch.randperm(len(self.data), generator=draws)[:count].tolist()], draws


def fit_to_answers(
    model: NeuroGameForSequenceClassification, teacher: PreTrainedModel | None, fit: Fit
) -> dict[str, float]:
    """Fit games and readout, in place, to a frozen model's answers on coalitions of training texts.

    The whole text is among the coalitions, so the answers stay those of the model up to the error of the fit.

    Args:
        model: with readout "game"; its games and classifier are changed.
        teacher: a trained classifier on the same encoder, with the same labels in any order; None: `model` itself.
        fit: texts and objective.

    Returns:
        R² on what it was fitted to, see `neurogame.grounding.fit_quality`.
    """
    section, config, games = fit.section, model.config, model.pooling.games
    assert isinstance(games, NormGames)
    if teacher is None:
        seed, rate = derive(fit.seed, "polish") % 2**31, POLISH_RATE
        count, steps = section.polish_texts, section.polish_steps
    else:
        seed, rate = fit.seed, fitting.LEARNING_RATE
        count, steps = section.warm_texts, section.warm_steps
    observed = fitting.observe(
        copy.deepcopy(model) if teacher is None else teacher,
        fit.tokenizer,
        as_pairs(fit.sample(count, seed)[0]),
        config.read_layers,
        coalitions=section.coalitions,
        law=section.law,
        removal=section.removal,
        max_length=fit.max_length,
        seed=derive(seed, "warm coalitions") % 2**31,
        bf16=fit.bf16,
        progress=fit.progress,
    )
    if teacher is not None:
        order = _label_order(teacher.config, config) or list(range(config.num_labels))
        logits = [answers[:, order] for answers in observed.logits]
        observed = replace(observed, logits=logits, empty=observed.empty[order])
    game = fitting.GroundedGame(games.dim, config.num_labels, **games.options)
    game.games.load_state_dict(games.state_dict())
    game.readout.load_state_dict(model.classifier.state_dict())
    fitting.fit_games(game, observed, steps=steps, seed=seed, learning_rate=rate, standardise=teacher is not None)
    games.load_state_dict(game.games.state_dict())
    model.classifier.load_state_dict(game.readout.state_dict())
    return fitting.fit_quality(game, observed)


States = tuple[Float[Tensor, "tokens dim"], Bool[Tensor, "tokens"]]  # in float16, and which tokens play; real tokens


class Labelled(NamedTuple):
    """A training text as the frozen encoder reads it, whole and incomplete."""

    whole: States
    parts: tuple[States, ...]  # x_C for each coalition
    stays: Bool[Tensor, "coalitions tokens"]  # which tokens of the whole are in x_C
    label: int


def learn_labels(model: NeuroGameForSequenceClassification, fit: Fit) -> None:
    """Train games and readout, in place, on states of the frozen encoder: the objective of the run itself.

    The states of `warm_texts` texts and of coalitions of their words are computed once. `warm_steps` steps then go over
    them: cross-entropy of the labels, and the two terms of `grounding_loss`. Texts without a label are left out; a
    ValueError where none has one.
    """
    games = model.pooling.games
    assert isinstance(games, NormGames)
    was_training = model.training
    texts = _read_states(model.eval(), fit)
    games.standardise(torch.cat([text.whole[0] for text in texts[: fitting.STATISTICS]]).float().to(model.device))
    model.train()
    fitting.descend(
        [*games.parameters(), *model.classifier.parameters()],
        lambda rows: _loss(model, [texts[i] for i in rows], fit.section),
        [len(text.whole[0]) for text in texts],
        steps=fit.section.warm_steps,
        batch_size=_TEXTS,
        order=derive(fit.seed, "warm order"),
        spins=derive(fit.seed, "warm spins"),
    )
    model.train(was_training)


@torch.no_grad()
def _read_states(model: NeuroGameForSequenceClassification, fit: Fit) -> list[Labelled]:
    """The states of each text and of coalitions of its words, from the encoder as it is."""
    section, tokenizer = fit.section, padding_right(fit.tokenizer)
    sample, draws = fit.sample(section.warm_texts, fit.seed)
    ids = {spelled(name): int(i) for name, i in (model.config.label2id or {}).items()}
    pairs = [pair for pair in sample if pair.label in ids]
    if not pairs:
        raise ValueError(f"{fit.data.name}: none of the first {len(sample)} texts has a label of the model")
    rows = word_rows(as_pairs(pairs), tokenizer, fit.max_length, [ids[str(pair.label)] for pair in pairs])
    removal = Removal.of(tokenizer, section.removal)
    options: dict[str, Any] = {"batch_size": fitting.BATCH, "generator": draws, "device": model.device}
    texts: dict[int, Labelled] = {}
    for batch in coalitions_of(rows, tokenizer, section.coalitions, section.law, **options):
        labels = batch.inputs.pop("labels").tolist()
        whole = _encode(model, batch.inputs, bf16=fit.bf16)
        parts = [_encode(model, part, bf16=fit.bf16) for part in batch.without(removal)]
        for row, i in enumerate(batch.places):
            stays = batch.stays[row][:, batch.real[row]].cpu()
            texts[i] = Labelled(whole[row], tuple(part[row] for part in parts), stays, labels[row])
        fit.progress(len(batch.places) * (section.coalitions + 1))
    return [texts[i] for i in range(len(rows))]


def _encode(model: NeuroGameForSequenceClassification, inputs: dict[str, Tensor], *, bf16: bool) -> list[States]:
    """Each row of a batch, without its padding."""
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        states = fitting.stored(model.encode(**inputs).states)
    real = inputs["attention_mask"].bool()
    players = model.players(inputs["input_ids"], real).cpu()
    return [(x[mask], p[mask]) for x, p, mask in zip(states, players, real.cpu(), strict=True)]


def _loss(model: NeuroGameForSequenceClassification, texts: Sequence[Labelled], section: GroundingSection) -> Tensor:
    """What a step of the run minimises, from states that are known."""
    terms = _terms(model, [text.whole for text in texts])
    logits = model.classify(terms.whole())
    parts = _terms(model, [part for text in texts for part in text.parts])
    answers = model.classify(parts.whole()).unflatten(0, (len(texts), -1))
    stays = pad_sequence([text.stays.mT for text in texts], batch_first=True).mT  # V is 0 where none plays
    masked, grounded = two_terms(logits, model.classify(terms.of(stays.to(model.device))), answers, section)
    gold = torch.tensor([text.label for text in texts], device=model.device)
    return nn.functional.cross_entropy(logits, gold) + section.masked * masked + section.weight * grounded


def _terms(model: NeuroGameForSequenceClassification, texts: Sequence[States]) -> Any:
    """The games of some texts, padded."""
    states = pad_sequence([states.float() for states, _ in texts], batch_first=True).to(model.device)
    players = pad_sequence([players for _, players in texts], batch_first=True).to(model.device)
    lengths = torch.tensor([len(states) for states, _ in texts], device=model.device)
    real = torch.arange(states.shape[1], device=model.device) < lengths.unsqueeze(-1)
    games = model.pooling.games
    assert isinstance(games, NormGames)
    return games.terms(states, players, real=real)
