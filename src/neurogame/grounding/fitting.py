"""Fitting a game to a classifier that stays as it is: its own answers on incomplete texts are the targets.

    texts ──one pass each──▶ states of several layers ──games──▶ logits(C) = b + R v(C)
          ──x_C, a pass each──▶ the model's logits of C                     least squares between the two

`observe` runs the model, once per text and coalition; `fit_games` trains the games on its answers. The model must only
return hidden states and logits, so any sequence classifier of transformers will do.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame.classifier import model_inputs
from neurogame.data.batching import padding_right, sorted_batches
from neurogame.data.removal import Mode, Removal
from neurogame.data.words import Level
from neurogame.grounding.coalitions import Law, centred, r_squared, tokens_of
from neurogame.grounding.texts import WORDS, Coalitions, as_texts, coalitions_of, word_rows
from neurogame.modeling.checking import ModelError
from neurogame.outputs import Output, output_of
from neurogame.readout import GameTerms, LinearReadout, NormGames

Progress = Callable[[int], object]  # called with the number of forward passes just done
Kept = Callable[[Callable[[], dict[str, Tensor]]], dict[str, Tensor]]  # see `grounding.passes`
BATCH = 64  # texts per forward pass
PATIENCE = 6  # evaluations without a better R² before early stopping
_EVALUATIONS = 20  # of a fit that is not stopped early
_SHORT = 50  # a fit of fewer steps is not evaluated
LEARNING_RATE = 1e-3
STATISTICS = 800  # texts from which mean and spread of the states are taken


class GroundedGame(nn.Module):
    """logits(C) = b + R v(C) from states: the games and their readout, without the encoder.

    Args:
        dim: width of the states, of all layers side by side.
        labels: how many logits.
        options: of `NormGames`.
    """

    def __init__(self, dim: int, labels: int, **options: Any) -> None:
        super().__init__()
        self.games = NormGames(dim, **options)
        self.readout = LinearReadout(self.games.heads, labels)

    def forward(
        self,
        states: Float[Tensor, "rows tokens dim"],
        members: Bool[Tensor, "rows coalitions tokens"],
        players: Bool[Tensor, "rows tokens"],
        real: Bool[Tensor, "rows tokens"] | None = None,
    ) -> Float[Tensor, "rows coalitions labels"]:
        """logits(C) for each row of `members`."""
        terms: GameTerms = self.games.terms(states, players, real=real)
        logits: Tensor = self.readout(terms.of(members))
        return logits


@dataclass(frozen=True, eq=False)
class Observed:
    """A model's logits of texts and of coalitions of their words; one entry per text, real tokens only."""

    states: list[Float[Tensor, "tokens dim"]]  # float16
    word_of: list[Int[Tensor, "tokens"]]
    members: list[Bool[Tensor, "coalitions players"]]  # the last is N
    logits: list[Float[Tensor, "coalitions labels"]]
    empty: Float[Tensor, "labels"]  # logits of a text without words
    rivals: bool = True  # whether labels compete, so that only differences of logits matter

    def centred(self, logits: Float[Tensor, "... labels"]) -> Float[Tensor, "... labels"]:
        """Logits less their mean where labels compete."""
        return centred(logits) if self.rivals else logits

    def __len__(self) -> int:
        return len(self.states)

    def split(self, count: int) -> tuple["Observed", "Observed"]:
        """All but the last `count` texts, and these."""

        def part(rows: slice) -> "Observed":
            lists = ("states", "word_of", "members", "logits")
            return replace(self, **{name: getattr(self, name)[rows] for name in lists})

        return part(slice(-count)), part(slice(-count, None))

    def batch(self, rows: Sequence[int]) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """(states, members by token, players, real tokens) as a `GroundedGame` takes them, and logits; padded."""
        states = pad_sequence([self.states[i].float() for i in rows], batch_first=True)
        word_of = pad_sequence([self.word_of[i] for i in rows], batch_first=True, padding_value=-1)
        members = pad_sequence([self.members[i].mT for i in rows], batch_first=True).mT
        players, lengths = word_of >= 0, torch.tensor([len(self.states[i]) for i in rows])
        real = torch.arange(states.shape[1]) < lengths.unsqueeze(-1)
        inside = tokens_of(members, word_of) & players.unsqueeze(1)
        return (states, inside, players, real), torch.stack([self.logits[i] for i in rows])


@torch.inference_mode()
def observe(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[Any],
    layers: Sequence[int],
    *,
    coalitions: int = 2,
    law: Law = "mixed",
    removal: Mode = "delete",
    max_length: int = 128,
    seed: int = 0,
    bf16: bool = False,
    level: Level = "word",
    output: Output | None = None,
    kept: Kept | None = None,
    progress: Progress | None = None,
) -> Observed:
    """The states of each text, and the logits of `coalitions` of its words and of the whole.

    Args:
        model: any sequence classifier that returns hidden states.
        tokenizer: its fast tokenizer.
        texts: strings, or (premise, hypothesis) pairs; labels are not needed.
        layers: whose states, 0 the embeddings.
        coalitions: per text, an even number; each is a forward pass of a part of the text.
        law: of the coalitions.
        removal: how words are taken out.
        max_length: tokens of a text.
        seed: of the coalitions.
        bf16: autocast the passes: half of the time where the processor has instructions for it, answers to two digits.
        level: whether a player is a word, a token or a sentence.
        output: what the logits mean, see `neurogame.outputs`; None: as the configuration says.
        kept: returns the next batch, from disk or by the function that it is given; see `grounding.passes`.
        progress: called after each batch with its number of passes.

    Returns:
        One entry per text that has a word.

    Raises:
        ValueError: an unknown law, removal or layer.
        ModelError: no hidden states, or logits that are NaN or infinite.

    Example:
        >>> observed = observe(model, tokenizer, pairs, layers=[0, 6, 12])  # doctest: +SKIP
    """
    pairs, tokenizer = as_texts(texts), padding_right(tokenizer)
    rows = [row for row in word_rows(pairs, tokenizer, max_length, level=level) if max(row[WORDS]) >= 0]
    if not rows:
        raise ValueError(f"none of the {len(pairs)} texts has a word that the tokenizer keeps")
    remover, generator = Removal.of(tokenizer, removal), torch.Generator().manual_seed(seed)
    observed: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]] = {}
    model.eval()
    for batch in coalitions_of(rows, tokenizer, coalitions, law, batch_size=BATCH, generator=generator):
        make = partial(_passes, model, batch, layers, remover, bf16=bf16)
        answers = make() if kept is None else kept(make)
        states, logits = answers["states"], answers["logits"]
        for row, i in enumerate(batch.places):
            word_of, real = batch.word_of[row], batch.real[row]
            n = int(word_of.max()) + 1
            everyone = torch.cat([batch.members[row, :, :n], torch.ones(1, n, dtype=torch.bool)])
            observed[i] = (states[row][real], word_of[real], everyone, logits[row].clone())
        if progress is not None:
            progress(len(batch.places) * (coalitions + 1))
    x, words, C, y = (list(column) for column in zip(*(observed[i] for i in range(len(rows))), strict=True))
    rivals = (output or output_of(model.config)) == "softmax"
    return Observed(x, words, C, y, empty_logits(model, tokenizer, parts=len(pairs[0])), rivals)


def empty_logits(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, parts: int = 2
) -> Float[Tensor, "labels"]:
    """b: the logits of special tokens alone, of a pair or of a single text."""
    with torch.inference_mode():
        inputs = dict(tokenizer(*[""] * parts, return_tensors="pt"))
        logits: Tensor = _answer(model, inputs).logits[0].float().cpu().clone()
        return logits


def stored(states: Float[Tensor, "rows tokens dim"]) -> Float[Tensor, "rows tokens dim"]:
    """As float16 on the CPU, clamped to its range instead of overflowing to infinity."""
    most = torch.finfo(torch.float16).max
    return states.float().clamp(-most, most).half().cpu()


def _passes(
    model: PreTrainedModel, batch: Coalitions, layers: Sequence[int], remover: Removal, *, bf16: bool
) -> dict[str, Tensor]:
    """States of the whole texts, and logits of each coalition and of the whole."""
    whole = _answer(model, batch.inputs, bf16=bf16, output_hidden_states=True)
    hidden: Sequence[Tensor] | None = getattr(whole, "hidden_states", None)
    if hidden is None:
        raise ModelError(
            f"{type(model).__name__} returns no hidden states, which a game reads; allowed: classes of transformers "
            "that take output_hidden_states=True"
        )
    states = stored(torch.cat([hidden[layer] for layer in layers], -1))
    parts = [_answer(model, part, bf16=bf16) for part in batch.without(remover)]
    logits = torch.stack([answer.logits.float().cpu() for answer in (*parts, whole)], 1)
    if not bool(logits.isfinite().all()):
        raise ModelError(
            f"the logits of {type(model).__name__} are NaN or infinite; its training has probably diverged, or its "
            f"numbers overflow ({model.dtype})"
        )
    return {"states": states, "logits": logits}


def _answer(model: PreTrainedModel, batch: dict[str, Tensor], *, bf16: bool = False, **options: Any) -> Any:
    inputs = {name: column.to(model.device) for name, column in model_inputs(model, batch).items()}
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        return model(**inputs, **options)


def fit_games(
    game: GroundedGame,
    observed: Observed,
    *,
    steps: int,
    batch_size: int = 32,
    learning_rate: float = LEARNING_RATE,
    weight_decay: float = 0.01,
    seed: int = 0,
    standardise: bool = True,
    watched: Observed | None = None,
    patience: int = PATIENCE,
    progress: Progress | None = None,
) -> int:
    """Least squares of logits(C) on the observed logits, centred over labels that compete; b is fixed to `empty`.

    Args:
        game: changed in place.
        observed: see `observe`.
        steps: of the optimiser.
        batch_size: texts per step.
        learning_rate: the peak of a one-cycle schedule.
        weight_decay: of AdamW.
        seed: of the order of the texts.
        standardise: whether to compute mean and spread of the states first; not for games that are trained already.
        watched: texts that are not fitted, for early stopping: their R² is evaluated some twenty times and the best
            game is kept. None: the last game is kept.
        patience: evaluations without a better R² before the fit stops.
        progress: called after each step.

    Returns:
        The step of the game that is kept.

    Example:
        >>> fit_games(game, observed, steps=1000)  # doctest: +SKIP
        >>> fit_quality(game, observed)["r2"]  # doctest: +SKIP
    """
    if standardise:
        game.games.standardise(torch.cat(observed.states[:STATISTICS]).float())
    with torch.no_grad():
        game.readout.out.bias.copy_(observed.empty)
    game.readout.out.bias.requires_grad = False
    report: Progress = progress or (lambda _: None)
    best: list[tuple[float, int, dict[str, Tensor]]] = []  # R², step, state; one at most
    waited = 0

    def loss_of(rows: list[int]) -> Tensor:
        inputs, logits = observed.batch(rows)
        return (observed.centred(game(*inputs)) - observed.centred(logits)).square().mean()

    def is_over(step: int) -> bool:
        nonlocal waited
        report(1)
        if watched is None or steps < _SHORT or (step % -(-steps // _EVALUATIONS) and step < steps):
            return False
        r2, waited = fit_quality(game, watched)["r2"], waited + 1
        game.train()
        if not best or r2 > best[0][0]:
            best[:], waited = [(r2, step, {name: x.clone() for name, x in game.state_dict().items()})], 0
        if waited >= patience:
            report(steps - step)
        return waited >= patience

    game.train()
    parameters, lengths = [p for p in game.parameters() if p.requires_grad], [len(x) for x in observed.states]
    options: dict[str, Any] = {"rate": learning_rate, "weight_decay": weight_decay, "order": seed, "spins": seed}
    descend(parameters, loss_of, lengths, steps=steps, batch_size=batch_size, is_over=is_over, **options)
    if best:
        game.load_state_dict(best[0][2])
    with torch.no_grad():  # what all labels have in common was not fitted
        game.readout.out.weight -= game.readout.out.weight.mean(0, keepdim=True) if observed.rivals else 0.0
    game.readout.out.bias.requires_grad = True
    game.eval()
    return best[0][1] if best else steps


def descend(
    parameters: list[nn.Parameter],
    loss_of: Callable[[list[int]], Tensor],
    lengths: list[int],
    *,
    steps: int,
    batch_size: int,
    order: int,
    spins: int,
    rate: float = LEARNING_RATE,
    weight_decay: float = 0.01,
    is_over: Callable[[int], bool] = lambda _: False,
) -> None:
    """Minimise `loss_of` batches of texts of similar length, by AdamW under a one-cycle schedule that peaks at `rate`.

    `order` and `spins` are seeds: of the order of the texts, and of the draws of spins that gate V. `is_over` is called
    after each step, counted from 1. Gradients are cleared at the end.
    """
    optimizer = torch.optim.AdamW(parameters, rate, betas=(0.9, 0.99), weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(order)
    batches: list[list[int]] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spins)
        for step in range(1, steps + 1):
            batches = batches or _batches(lengths, batch_size, generator)
            loss = loss_of(batches.pop())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            if is_over(step):
                break
    optimizer.zero_grad()


def _batches(lengths: list[int], size: int, generator: torch.Generator) -> list[list[int]]:
    """Every text once, in batches of similar length and random order."""
    places = torch.randperm(len(lengths), generator=generator).tolist()
    pools = [sorted(places[i : i + 8 * size], key=lengths.__getitem__) for i in range(0, len(places), 8 * size)]
    batches = [pool[i : i + size] for pool in pools for i in range(0, len(pool), size)]
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


@torch.no_grad()
def fit_quality(game: GroundedGame, observed: Observed) -> dict[str, float]:
    """R² of the game on the coalitions that were observed, the same about their mean, and on the whole texts.

    Args:
        game: in evaluation afterwards.
        observed: texts that it was not fitted on, for an honest answer.

    Returns:
        r2, r2_about_mean and r2_whole, see `r_squared`.

    Example:
        >>> fit_quality(game, held_out)["r2"]  # doctest: +SKIP
    """
    game.eval()
    batches = map(observed.batch, sorted_batches([len(x) for x in observed.states], BATCH))  # one at a time in memory
    answers = [(game(*inputs), logits) for inputs, logits in batches]
    guess, truth = (torch.cat(column) for column in zip(*answers, strict=True))
    parts, rivals = (guess[:, :-1].flatten(0, 1), truth[:, :-1].flatten(0, 1)), observed.rivals
    return {
        "r2": r_squared(*parts, observed.empty, rivals=rivals),
        "r2_about_mean": r_squared(*parts, rivals=rivals),
        "r2_whole": r_squared(guess[:, -1], truth[:, -1], observed.empty, rivals=rivals),
    }
