"""The loss of a classifier, with the two regularisers of the paper's recipe: label smoothing and mixup.

Mixup (Zhang et al., 2018) is applied to the pooled representation that the classifier reads, or to
the word embeddings; never to the logits, where it would only rescale the loss.
"""

from typing import NamedTuple

import torch
from torch.nn import functional

from neurogame._common.types import Float, Int, Tensor


class Mixup(NamedTuple):
    """How the rows of a batch are mixed: row b becomes w·row_b + (1 − w)·row_partner(b)."""

    partner: Int[Tensor, "batch"]
    weight: float | Tensor

    @classmethod
    def draw(cls, batch: int, alpha: float, generator: torch.Generator) -> "Mixup":
        """w ~ Beta(α, α) for the whole batch, partners by a random permutation of its rows."""
        a = torch._standard_gamma(torch.full((2,), alpha, dtype=torch.float64), generator=generator)
        weight = float(a[0] / a.sum()) if float(a.sum()) > 0 else 1.0
        return cls(torch.randperm(batch, generator=generator), weight)


def mix(
    z: Float[Tensor, "batch ..."], mixup: Mixup | tuple[Tensor, float | Tensor] | None
) -> Float[Tensor, "batch ..."]:
    """w·z + (1 − w)·z[partner]; z itself where there is no mixup."""
    if mixup is None:
        return z
    partner, weight = mixup
    if isinstance(weight, Tensor):
        weight = weight.to(z).reshape(-1, *[1] * (z.dim() - 1)) if weight.dim() == 1 else weight.to(z)
    return weight * z + (1.0 - weight) * z[partner.to(z.device)]


def classification_loss(
    logits: Float[Tensor, "batch labels"],
    labels: Int[Tensor, "batch"] | Float[Tensor, "batch labels"],
    mixup: Mixup | tuple[Tensor, float | Tensor] | None = None,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Mean cross-entropy; with mixup w·CE(labels) + (1 − w)·CE(labels[partner]), row by row.

    Labels are numbers, or distributions over the labels where a teacher has a say (`training.distillation`). Rows
    without a gold label (−100, as transformers has it) do not count. `label_smoothing` is the share of the target
    distribution that is uniform.
    """
    logits = logits.float()
    if not labels.is_floating_point():
        labels = labels.reshape(-1)  # [batch, 1] as well, as transformers has it

    def rows(gold: Tensor) -> Tensor:
        return functional.cross_entropy(logits, gold, label_smoothing=label_smoothing, reduction="none")

    if mixup is None:
        return functional.cross_entropy(logits, labels, label_smoothing=label_smoothing)
    partner, weight = mixup
    loss = rows(labels)
    weight = weight.to(loss) if isinstance(weight, Tensor) else weight
    return (weight * loss + (1.0 - weight) * rows(labels[partner.to(labels.device)])).mean()
