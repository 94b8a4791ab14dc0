"""What logits mean: which labels a classifier has, when it decides for one, and what its probabilities are.

    softmax       p = softmax(z)      one label of two or more: that of the largest logit
    sigmoid       p = σ(z)            one logit: the label, or "not" the label below ½
    multi_label   p_c = σ(z_c)        every label decides by itself, as above
    regression    z is a score        nothing is decided

A decision is about a target: a label, "not" a label where labels are decided one by one, or a label against another.
`direction` turns logits into ℓ, what is explained; `margin` says how far a decision is kept, > 0 where it is. A score
has no margin, so nothing swings it and no words are enough for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch

from neurogame._common.types import Float, Tensor
from neurogame._common.validation import check_choice

Output = Literal["softmax", "sigmoid", "multi_label", "regression"]
NOT = "not "
NONE = "none"  # the prediction of a multi-label model without any label


def output_of(config: Any) -> Output:
    """Which kind of output a model has, by `problem_type` and `num_labels` of its configuration.

    Args:
        config: of transformers. One logit without a problem type is a sigmoid, as cross-encoders have it.

    Returns:
        "softmax", "sigmoid", "multi_label" or "regression".

    Example:
        >>> from transformers import BertConfig
        >>> output_of(BertConfig(num_labels=1)), output_of(BertConfig(num_labels=1, problem_type="regression"))
        ('sigmoid', 'regression')
    """
    problem, count = getattr(config, "problem_type", None), getattr(config, "num_labels", 2)
    if problem == "regression":
        return "regression"
    if count == 1:
        return "sigmoid"
    return "multi_label" if problem == "multi_label_classification" else "softmax"


def share_of(probabilities: Mapping[str, float], name: str) -> float:
    """The probability of a label, or of "not" a label.

    Example:
        >>> share_of({"toxic": 0.2}, "not toxic")
        0.8
    """
    return probabilities[name] if name in probabilities else 1.0 - probabilities[name.removeprefix(NOT)]


def direction(labels: tuple[str, ...], target: str, contrast: str | None = None) -> Float[Tensor, "labels"]:
    """ℓ = logits @ direction: 1 at the target label (−1 for "not" a label), −1 at the contrast.

    Example:
        >>> direction(("yes", "no"), "yes", "no").tolist(), direction(("toxic",), "not toxic").tolist()
        ([1.0, -1.0], [-1.0])
    """
    known = target in labels
    signs = torch.zeros(len(labels), dtype=torch.float64)
    signs[labels.index(target if known else target.removeprefix(NOT))] = 1.0 if known else -1.0
    if contrast is not None:
        signs[labels.index(contrast)] = -1.0
    return signs


@dataclass(frozen=True)
class Outputs:
    """The labels of a classifier and what its logits mean.

    Attributes:
        labels: names of the logits in order.
        kind: see above.
    """

    labels: tuple[str, ...]
    kind: Output = "softmax"

    def __post_init__(self) -> None:
        check_choice("output", self.kind, Output)
        if self.kind == "softmax" and len(self.labels) == 1:
            raise ValueError(
                f"output = 'softmax' needs two logits or more, got one ({self.labels[0]}); allowed: 'sigmoid'"
            )
        if self.kind == "sigmoid" and len(self.labels) > 1:
            raise ValueError(f"output = 'sigmoid' is for one logit, got {len(self.labels)}; allowed: 'multi_label'")

    @property
    def decides(self) -> bool:
        """Whether there is a decision: a regression has none."""
        return self.kind != "regression"

    @property
    def one_by_one(self) -> bool:
        """Whether each label is decided by its own logit, by the side of 0 that it is on."""
        return self.kind in ("sigmoid", "multi_label")

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that an explanation can have."""
        return (*self.labels, *(NOT + name for name in self.labels)) if self.one_by_one else self.labels

    def centred(self, logits: Float[Tensor, "... labels"]) -> Float[Tensor, "... labels"]:
        """Logits minus their mean over labels, on which a softmax does not depend; other kinds as they are."""
        return logits - logits.mean(-1, keepdim=True) if self.kind == "softmax" else logits

    def probabilities(
        self, logits: Float[Tensor, "... labels"], temperature: float = 1.0
    ) -> Float[Tensor, "... labels"]:
        """The probability of each label; for a regression, the scores themselves."""
        if not self.decides:
            return logits
        return (logits / temperature).softmax(-1) if self.kind == "softmax" else (logits / temperature).sigmoid()

    def label(self, logits: Float[Tensor, "labels"]) -> str:
        """What the model predicts: a label, "not" it, all labels of a multi-label model, or the name of the score."""
        if self.kind == "multi_label":
            return ", ".join(name for name, z in zip(self.labels, logits.tolist(), strict=True) if z > 0) or NONE
        return self.target(logits)

    def target(self, logits: Float[Tensor, "labels"]) -> str:
        """The default target of an explanation: the decision about the most probable label, or the first score."""
        if not self.decides:
            return self.labels[0]
        best = self.labels[int(logits.argmax())]
        return best if self.kind == "softmax" or float(logits.max()) > 0 else NOT + best

    def margin(
        self, logits: Float[Tensor, "... labels"], target: str, contrast: str | None = None
    ) -> Float[Tensor, "..."]:
        """By how much the logits decide for the target (> 0) or not: over the best other label, the contrast, or 0."""
        return (logits @ self.rivals(target, contrast).to(logits).mT).amin(-1)

    def rivals(self, target: str, contrast: str | None = None) -> Float[Tensor, "rivals labels"]:
        """The differences of logits of which the margin is the least: margin(logits) = min_r rivals_r · logits."""
        return _rivals(self, target, contrast)

    def decision(self, logits: Float[Tensor, "labels"], target: str, contrast: str | None = None) -> str:
        """The decision: target or contrast; a label or "not" it where labels are decided one by one; else any label."""
        if contrast is not None:
            return target if float(self.margin(logits, target, contrast)) > 0 else contrast
        if self.one_by_one:
            name = target if target in self.labels else target.removeprefix(NOT)
            return name if float(logits[self.labels.index(name)]) > 0 else NOT + name
        return self.labels[int(logits.argmax())]


@lru_cache(maxsize=64)
def _rivals(outputs: Outputs, target: str, contrast: str | None) -> Float[Tensor, "rivals labels"]:
    with torch.inference_mode(mode=False):  # or it could never take part in a backward pass
        own = direction(outputs.labels, target, contrast)
        if contrast is not None or outputs.one_by_one:
            return own.unsqueeze(0)
        others = [i for i, name in enumerate(outputs.labels) if name != target]
        return own - torch.eye(len(outputs.labels), dtype=own.dtype)[others]
