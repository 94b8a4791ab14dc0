"""The coalitions that a game is fitted on, their tokens, and the R² of its predictions.

Least squares over coalitions needs other laws than the averages of marginal contributions in `sampling`:

    shapley   sizes s with probability ∝ 1/(s(n − s)), C uniform within a size: with both ends exact, the best additive
              account of a game has the Shapley values as its coefficients
    banzhaf   fair coins: the best additive and quadratic accounts have the Banzhaf values and interactions
    mixed     either, by a fair coin for each pair: what trains both
    deletion  half of the pairs as in mixed; in the other half C is the whole text less one or two words, which shows
              first- and second-order effects of deletion at the whole text

Every C comes with its complement. Together they are one text long.
"""

from collections.abc import Sequence
from typing import Literal

import torch

from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame._common.validation import check_choice, check_count

Law = Literal["mixed", "shapley", "banzhaf", "deletion"]


def draw(
    players: Sequence[int], count: int, law: Law = "mixed", *, generator: torch.Generator
) -> Bool[Tensor, "rows coalitions players"]:
    """`count` coalitions for each row, the second half the complements of the first; False beyond a row's players.

    Args:
        players: n of each row.
        count: coalitions per row, an even number.
        law: see above.
        generator: where they come from.

    Returns:
        [rows, count, most players of a row].

    Raises:
        ValueError: an unknown law, or an odd count.

    Example:
        >>> draw([3, 5], 4, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([2, 4, 5])
    """
    check_choice("law", law, Law)
    check_count("count", count, least=2)
    if count % 2:
        raise ValueError(f"count must be even, since every coalition comes with its complement; got {count}")
    rows, width = len(players), max([1, *players])  # `tokens_of` needs a column, even without a player
    exists = torch.arange(width) < torch.tensor(players).unsqueeze(-1)  # (rows, players)
    keys = torch.rand(rows, count // 2, width, generator=generator)
    size, coin = torch.rand(2, rows, count // 2, generator=generator)
    of_size = torch.stack([_sizes(u, n) for u, n in zip(size, players, strict=True)]) if rows else size
    rank = keys.masked_fill(~exists.unsqueeze(1), torch.inf).argsort(-1).argsort(-1)
    shapley, banzhaf = rank < of_size.unsqueeze(-1), keys < 0.5
    if law == "deletion":
        few = torch.where(size < 0.5, 1, 2)
        near = rank >= few.unsqueeze(-1)
        C = torch.where((coin < 0.5).unsqueeze(-1), near, torch.where((coin < 0.75).unsqueeze(-1), shapley, banzhaf))
    else:
        shares = {"mixed": 0.5, "shapley": 1.0, "banzhaf": 0.0}
        C = torch.where((coin < shares[law]).unsqueeze(-1), shapley, banzhaf)
    return torch.cat([C, ~C], 1) & exists.unsqueeze(1)


def _sizes(u: Float[Tensor, "pairs"], n: int) -> Float[Tensor, "pairs"]:
    """Sizes 1 … n − 1 with probability ∝ 1/(s(n − s)), by u ~ U(0, 1); of one player 0 or 1."""
    if n < 2:
        return (u < 0.5).float() * n
    s = torch.arange(1.0, n)
    cumulative = (1.0 / (s * (n - s))).cumsum(0)
    return 1.0 + torch.searchsorted(cumulative, u * cumulative[-1], right=True).clamp(max=n - 2).float()


def tokens_of(
    members: Bool[Tensor, "rows coalitions players"], word_of: Int[Tensor, "rows tokens"]
) -> Bool[Tensor, "rows coalitions tokens"]:
    """Which tokens are in x_C: those of the words in C, and all that belong to no word (word_of = −1).

    Args:
        members: coalitions of words.
        word_of: the word of each token, −1 for none.

    Returns:
        True where a token stays.

    Example:
        >>> tokens_of(torch.tensor([[[True, False]]]), torch.tensor([[-1, 0, 0, 1]])).tolist()
        [[[True, True, True, False]]]
    """
    index = word_of.clamp(min=0).unsqueeze(1).expand(-1, members.shape[1], -1)
    return members.gather(2, index) | (word_of < 0).unsqueeze(1)


def centred(logits: Float[Tensor, "... labels"]) -> Float[Tensor, "... labels"]:
    """Logits less their mean over the labels, which no probability depends on; a single logit stays as it is.

    Args:
        logits: [..., labels].

    Returns:
        [..., labels], of sum 0.

    Example:
        >>> centred(torch.tensor([1.0, 3.0])).tolist()
        [-1.0, 1.0]
    """
    return logits - logits.mean(-1, keepdim=True) if logits.shape[-1] > 1 else logits


def r_squared(
    predicted: Float[Tensor, "rows labels"],
    said: Float[Tensor, "rows labels"],
    base: Float[Tensor, "labels"] | None = None,
    *,
    rivals: bool = True,
) -> float:
    """1 − Σ‖predicted − said‖²/Σ‖said − base‖², all centred over the labels; NaN where nothing varies.

    With base = b, the logits of the empty text, it is the R² of the game v(C) = logits(C) − b, and a game that is 0 for
    every coalition has R² = 0. Without a base it is taken about the mean of `said`, which is stricter: what all texts
    have in common then counts for nothing.

    Args:
        predicted: logits of the game.
        said: logits of the model.
        base: logits of the empty text.
        rivals: whether labels compete, as under a softmax; only then is anything centred.

    Returns:
        At most 1.

    Example:
        >>> r_squared(torch.eye(2), torch.eye(2))
        1.0
    """
    predicted, said = predicted.double(), said.double()
    base = None if base is None else base.to(said)
    if rivals:
        predicted, said, base = centred(predicted), centred(said), None if base is None else centred(base)
    origin = said.mean(0) if base is None else base
    spread = (said - origin).square().sum()
    return float(1.0 - (predicted - said).square().sum() / spread) if float(spread) > 0 else float("nan")
