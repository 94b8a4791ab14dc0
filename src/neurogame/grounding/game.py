"""WordGame: logits(C) = b + R v(C) over the words of one text, from a model's readout or from an explainer."""

from dataclasses import dataclass
from typing import Literal

import torch

from neurogame._types import Bool, Float, Tensor
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
        removal: how words are taken out of the texts that it predicts.
        r2: how well it predicted the model on held-out coalitions when it was fitted; None where that is not known.
        limit: how far it missed the checks of all but a twentieth of the held-out texts, in logits; None: not known.
    """

    V: Float[Tensor, "heads words dim"]
    anchor: Float[Tensor, "heads dim"]
    R: Float[Tensor, "labels heads"]
    base: Float[Tensor, "labels"]
    source: Source = "readout"
    removal: Mode = "delete"
    r2: float | None = None
    limit: float | None = None

    @classmethod
    def of(
        cls,
        terms: GameTerms,
        members: Float[Tensor, "words tokens"],
        R: Float[Tensor, "labels heads"],
        base: Float[Tensor, "labels"],
        *,
        source: Source = "readout",
        removal: Mode = "delete",
        r2: float | None = None,
        limit: float | None = None,
    ) -> "WordGame":
        """From the games of a batch of one text; `members` is 1 where a token belongs to a word."""
        V, a = terms.V[0].detach().float().cpu(), terms.anchor[0].detach().float().cpu()
        R, base = R.detach().float().cpu(), base.detach().float().cpu()
        members = members.to(V)
        outside = V.sum(1) - (members @ V).sum(1)  # (heads, dim): players that are no words
        inside = a + outside
        shift = R @ (inside.norm(dim=-1) - a.norm(dim=-1))
        return cls(members @ V, inside, R, base + shift, source, removal, r2, limit)

    @property
    def players(self) -> int:
        """n."""
        return self.V.shape[1]

    def logits(self, C: Bool[Tensor, "... words"]) -> Float[Tensor, "... labels"]:
        """What the game says of each coalition, float64."""
        rows = C.reshape(-1, self.players).to(self.V)
        S = self.anchor + torch.einsum("cw,hwd->chd", rows, self.V)
        v = S.norm(dim=-1) - self.anchor.norm(dim=-1)
        logits: Tensor = (self.base + v @ self.R.mT).double()
        return logits.reshape(*C.shape[:-1], -1)

    def without_each(self, C: Bool[Tensor, "words"]) -> Float[Tensor, "members labels"]:
        """logits(C∖i) for each i of C in order: one difference of sums each instead of a sum."""
        V = self.V[:, C]  # (heads, members, dim)
        S = (self.anchor + V.sum(1)).unsqueeze(1) - V
        v = S.norm(dim=-1) - self.anchor.norm(dim=-1, keepdim=True)
        logits: Tensor = self.base + (self.R @ v).mT
        return logits.double()

    def values(
        self, direction: Float[Tensor, "asked labels"] | None = None, *, samples: int = SAMPLES, seed: int = 0
    ) -> LabelValues:
        """φ, β and J of every label, or of the combinations of logits that `direction` asks for."""
        R = self.R if direction is None else direction.to(self.R) @ self.R
        return label_values(self.V, self.anchor, R, samples=samples, generator=None if seed == 0 else seed)
