"""x_C: the text in which only the words C are left, on token ids. The only place where words are removed.

    [CLS] two dogs sleep [SEP] the dogs run [SEP]   C = {two, sleep, dogs, run}   ids, never decoded
    delete   [CLS] two sleep [SEP] dogs run [SEP]                   positions are packed anew, segments stay
    mask     [CLS] two [MASK] sleep [SEP] [MASK] dogs run [SEP]     nothing moves
    pad      [CLS] two dogs sleep [SEP] the dogs run [SEP]          nothing moves; attention_mask is 0 at what is out

Explanations, training and fitted games all call `remove`. It knows ids and which of them stay; `words` says what a word
is, `grounding.coalitions` which C are of interest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import PreTrainedTokenizerBase

from neurogame._common.types import Bool, Int, Tensor
from neurogame._common.validation import check_choice

Mode = Literal["delete", "mask", "pad"]


@dataclass(frozen=True)
class Removal:
    """How words are removed for one tokenizer.

    Attributes:
        mode: "delete", "mask" or "pad", see above.
        fill: what stands at padding, by the name of the column.
        mask_token: the id of [MASK]; None where the tokenizer has none.
        left: whether padding is on the left.
    """

    mode: Mode
    fill: Mapping[str, int]
    mask_token: int | None
    left: bool

    @classmethod
    def of(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        mode: Mode = "delete",
        *,
        name: str = "this model",
        left: bool | None = None,
    ) -> "Removal":
        """The removal of words from texts of a tokenizer, padded as it does or as `left` says; `name` is for errors.

        Padding on the right leaves the first position to the first token, whatever else is in the batch: BERT counts
        padding too. Mode "mask" with a tokenizer that has no mask token is a ValueError.
        """
        check_choice("mode", mode, Mode)
        mask = tokenizer.mask_token_id
        if mode == "mask" and mask is None:
            raise ValueError(
                f"mode = 'mask' needs a mask token, which the tokenizer of {name} does not have; "
                "allowed: 'delete', 'pad'"
            )
        fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        return cls(mode, fill, mask, tokenizer.padding_side == "left" if left is None else left)

    def remove(
        self,
        columns: Mapping[str, Int[Tensor, "rows tokens"]],
        stays: Bool[Tensor, "rows tokens"],
        real: Bool[Tensor, "rows tokens"] | None = None,
    ) -> dict[str, Int[Tensor, "rows width"]]:
        """What the model takes for x_C of each row, `attention_mask` included.

        Args:
            columns: input_ids, token_type_ids …, one row per text; an attention_mask among them is not looked at.
            stays: True at tokens that are in x_C; special tokens are in every x_C.
            real: True at tokens that are no padding; None: all are.
        """
        mask = stays if real is None else stays & real
        inputs = {name: column for name, column in columns.items() if name != "attention_mask"}
        if self.mode == "delete":
            width = int(mask.sum(-1).max())
            # a stable sort moves what stays to one side, in its order
            order = (mask if self.left else ~mask).int().argsort(dim=1, stable=True)
            order = order[:, order.shape[1] - width :] if self.left else order[:, :width]
            mask = mask.gather(1, order)
            for name, column in inputs.items():
                inputs[name] = column.gather(1, order).masked_fill(~mask, self.fill.get(name, 0))
        elif self.mode == "mask":
            assert self.mask_token is not None
            real = torch.ones_like(mask) if real is None else real
            inputs["input_ids"] = torch.where(mask | ~real, inputs["input_ids"], self.mask_token)
            mask = real
        return {**inputs, "attention_mask": mask.long()}
