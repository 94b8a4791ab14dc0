"""WordGame: logits(C) = b + R v(C) over the words of one text, from a model's readout or from an explainer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from neurogame._common.types import Bool, Float, Tensor
from neurogame.data.removal import Mode
from neurogame.readout import SAMPLES, GameTerms, LabelValues, label_values

Source = Literal["readout", "explainer"]


@dataclass(frozen=True, eq=False)
class WordGame:
    """The grounded game of one text.

    Attributes:
        V, anchor: of every head; a word is the sum of its pieces, what belongs to no word is in the anchor.
        R, base: the readout, and the logits of a text without words.
        source: "readout" where the game is the model's own classifier, "explainer" where it was fitted to one.
        removal: how words are removed from the texts that it predicts.
        r2: on held-out coalitions when it was fitted; None: not known.
        limit: 95th percentile of its error in the checks of held-out texts, in logits; None: not known.
        grounded: False where it was never trained to predict the model; None: not known.
    """

    V: Float[Tensor, "heads words dim"]
    anchor: Float[Tensor, "heads dim"]
    R: Float[Tensor, "labels heads"]
    base: Float[Tensor, "labels"]
    source: Source = "readout"
    removal: Mode = "delete"
    r2: float | None = None
    limit: float | None = None
    grounded: bool | None = None

    @classmethod
    def of(
        cls,
        terms: GameTerms,
        members: Float[Tensor, "words tokens"],
        R: Float[Tensor, "labels heads"],
        base: Float[Tensor, "labels"],
        **attributes: Any,
    ) -> "WordGame":
        """From the games of a batch of one text; `members` is 1 where a token belongs to a word."""
        V, a = terms.V[0].detach().float().cpu(), terms.anchor[0].detach().float().cpu()
        R, base = R.detach().float().cpu(), base.detach().float().cpu()
        members = members.to(V)
        outside = V.sum(1) - (members @ V).sum(1)  # (heads, dim): players that are no words
        inside = a + outside
        shift = R @ (inside.norm(dim=-1) - a.norm(dim=-1))
        return cls(members @ V, inside, R, base + shift, **attributes)

    @property
    def players(self) -> int:
        """n."""
        return self.V.shape[1]

    def logits(self, C: Bool[Tensor, "... words"]) -> Float[Tensor, "... labels"]:
        """The game's logits of each coalition, float64."""
        rows = C.reshape(-1, self.players).to(self.V)
        S = self.anchor + torch.einsum("cw,hwd->chd", rows, self.V)
        v = S.norm(dim=-1) - self.anchor.norm(dim=-1)
        logits: Tensor = (self.base + v @ self.R.mT).double()
        return logits.reshape(*C.shape[:-1], -1)

    @cached_property
    def whole(self) -> Float[Tensor, "labels"]:
        """logits(N)."""
        return self.logits(torch.ones(self.players, dtype=torch.bool))

    @cached_property
    def without(self) -> Float[Tensor, "words labels"]:
        """logits(N∖i) for each word: one difference of sums each instead of a sum."""
        S = (self.anchor + self.V.sum(1)).unsqueeze(1) - self.V
        v = S.norm(dim=-1) - self.anchor.norm(dim=-1, keepdim=True)
        logits: Tensor = self.base + (self.R @ v).mT
        return logits.double()

    def removal_order(self, rivals: Float[Tensor, "rivals labels"]) -> tuple[list[int], list[float]]:
        """Remove words one by one, each time the one whose removal leaves the largest margin.

        Args:
            rivals: margin(C) = min_r rivals_r · logits(C); the answer is kept while it is positive.

        Returns:
            The words in the order of removal, the last one included; and the margins of the words that remain: of all,
            of all but the first removed, and so on to the last one alone.
        """
        n, W = self.players, (rivals.to(self.R) @ self.R).numpy()  # (rivals, heads)
        b = (rivals.to(self.R) @ (self.base - self.R @ self.anchor.norm(dim=-1))).numpy()[:, None]
        V = self.V.permute(2, 0, 1).contiguous().numpy()  # (dim, heads, words): a step is a few short loops
        S = self.anchor.mT.numpy()[:, :, None] + V.sum(-1, keepdims=True)
        T, squares, out = S - V, np.empty_like(V), np.zeros(n, dtype=V.dtype)  # T: of C∖i, for each i in C
        order: list[int] = []
        margins = [float((W @ np.sqrt((S * S).sum(0)) + b).min())]
        while len(order) < n - 1:
            np.multiply(T, T, out=squares)
            margin = (W @ np.sqrt(squares.sum(0)) + b).min(0) + out  # (words,)
            k = int(margin.argmax())
            order.append(k)
            margins.append(float(margin[k]))
            out[k] = -np.inf
            T -= V[:, :, k : k + 1]
        return [*order, *np.flatnonzero(out == 0.0).tolist()], margins

    def values(
        self, direction: Float[Tensor, "asked labels"] | None = None, *, samples: int = SAMPLES, seed: int = 0
    ) -> LabelValues:
        """φ, β and J of every label, or of the combinations of logits that `direction` asks for."""
        R = self.R if direction is None else direction.to(self.R) @ self.R
        return label_values(self.V, self.anchor, R, samples=samples, generator=None if seed == 0 else seed)
