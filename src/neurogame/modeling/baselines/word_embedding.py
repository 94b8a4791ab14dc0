"""An embedding of words with and without pretrained vectors: the vocabulary of a tokenizer, as one trainable table.

A word is *known* if it has a pretrained vector, *missing* if it is in the vocabulary and has none.
"""

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame.modeling.baselines import Trainable


def embedding_matrix(
    tokenizer: PreTrainedTokenizerBase,
    words: list[str],
    vectors: Float[Tensor, "words dim"],
    *,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "vocabulary dim"], Bool[Tensor, "vocabulary"]]:
    """A row per token of the vocabulary, and which of them are known.

    Known words have their vector (or that of their lower-case form), missing ones are drawn from
    N(0, σ²) where σ is the mean over components of the known vectors' standard deviation; `[PAD]` is 0.
    """
    if len(words) != len(vectors):
        raise ValueError(f"{len(words)} words, but {len(vectors)} vectors")
    rows = {word: row for row, word in reversed(list(enumerate(words)))}
    size = len(tokenizer)
    source = torch.full((size,), -1)
    for word, i in tokenizer.get_vocab().items():
        source[i] = rows.get(word, rows.get(word.lower(), -1))
    if tokenizer.pad_token_id is not None:
        source[tokenizer.pad_token_id] = -1
    has_vector = source >= 0
    if not has_vector.any():
        raise ValueError(
            f"none of the {size} words of the vocabulary is among the {len(words)} with a vector"
            " (vectors of another language, or cased vectors for a lower-case vocabulary?)"
        )
    known = vectors[source[has_vector]].float()
    spread = float(known.std(dim=0, correction=0).mean())
    table = torch.randn(size, vectors.shape[1], generator=generator) * (spread or 1.0)
    table[has_vector] = known
    if tokenizer.pad_token_id is not None:
        table[tokenizer.pad_token_id] = 0.0
    return table, has_vector


class WordEmbedding(nn.Embedding):
    """e(w) = weight[w] for a known word, missing[slot(w)] for a missing one.

    Missing words have a table of their own, because weight decay would change the frozen rows of a trained table. With
    `missing_words` None no vectors have been loaded, and there is one table, `weight`, trained unless `trainable` is
    "none".

    Args:
        vocab_size, dim: of the table.
        padding_idx: the row of `[PAD]`, 0 and never trained.
        trainable: "all" words, the "missing" ones, or "none".
        missing_words: how many rows have no pretrained vector; their rows of `weight` are 0 and unused.
    """

    slot: Int[Tensor, "vocabulary"]  # row in `missing`; −1: known
    missing: nn.Embedding | None

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        padding_idx: int | None = None,
        trainable: Trainable = "all",
        missing_words: int | None = None,
    ) -> None:
        super().__init__(vocab_size, dim, padding_idx=padding_idx)
        self.trainable, self.missing_words = trainable, missing_words
        self.missing = nn.Embedding(missing_words, dim) if missing_words else None
        if self.missing is not None:
            self.register_buffer("slot", torch.full((vocab_size,), -1))
        self.mark_trainable()

    def mark_trainable(self) -> None:
        """Set `requires_grad` of the tables, which loading a checkpoint resets."""
        split = self.missing_words is not None
        self.weight.requires_grad_(self.trainable == "all" or (self.trainable == "missing" and not split))
        if self.missing is not None:
            self.missing.weight.requires_grad_(self.trainable != "none")

    @torch.no_grad()
    def fill(self, table: Float[Tensor, "vocabulary dim"], known: Bool[Tensor, "vocabulary"]) -> None:
        """Take over a table of vectors, of which the rows that are not `known` (nor padding) are missing words'."""
        if table.shape != self.weight.shape:
            raise ValueError(f"a table of shape {list(table.shape)} for an embedding of {list(self.weight.shape)}")
        self.weight.copy_(table)
        if self.missing_words is None:
            return
        missing = missing_rows(known, self.padding_idx)
        if len(missing) != self.missing_words:
            raise ValueError(f"{len(missing)} words have no vector, but missing_words = {self.missing_words}")
        if self.missing is not None:
            self.missing.weight.copy_(table[missing])
            self.slot.fill_(-1)[missing] = torch.arange(len(missing), device=self.slot.device)
            self.weight[missing] = 0.0

    def forward(self, input: Int[Tensor, "..."]) -> Float[Tensor, "... dim"]:  # noqa: A002  nn.Embedding's name
        """Vectors of token ids."""
        vectors = super().forward(input)
        if self.missing is None:
            return vectors
        slot = self.slot[input]
        return torch.where(slot.unsqueeze(-1) < 0, vectors, self.missing(slot.clamp(min=0)))

    def table(self) -> Float[Tensor, "vocabulary dim"]:
        """The vectors of all words in one table."""
        return self.forward(torch.arange(self.num_embeddings, device=self.weight.device))

    def known(self) -> Bool[Tensor, "vocabulary"]:
        """Which rows are not missing words' (all of them, where no vectors have been loaded)."""
        return torch.ones(self.num_embeddings, dtype=torch.bool) if self.missing is None else self.slot < 0


def missing_rows(known: Bool[Tensor, "vocabulary"], padding_idx: int | None) -> Int[Tensor, "missing"]:
    """Rows to be learned: not known, and not padding."""
    missing = ~known
    if padding_idx is not None:
        missing[padding_idx] = False
    return missing.nonzero().squeeze(1)
