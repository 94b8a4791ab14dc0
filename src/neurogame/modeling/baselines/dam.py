"""Decomposable attention (Parikh et al., 2016), and the frame that it shares with ESIM.

    premise, hypothesis ──attend──▶ soft alignments ──compare──▶ v₁, v₂ ──aggregate──▶ logits

The frame (`WordPairModel`) takes one sequence "premise hypothesis", embeds its words, divides it by
`token_type_ids`, and computes the loss; a model says how the two sides become one vector z and how z becomes
logits. Its configuration is in `baselines`, its words are in `word_vectors`, `word_tokenizer` and `word_embedding`.
"""

from itertools import pairwise
from typing import Any, NamedTuple, Self

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.modeling_utils import PreTrainedModel

from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame.modeling.baselines import DamConfig, WordPairConfig
from neurogame.modeling.baselines.word_embedding import WordEmbedding, embedding_matrix, missing_rows
from neurogame.modeling.baselines.word_vectors import Source, Vectors, read_vectors
from neurogame.modeling.loading import load_exactly
from neurogame.modeling.losses import Mixup, classification_loss, mix


class Side(NamedTuple):
    """The words of one side of a batch of pairs, left-aligned."""

    x: Float[Tensor, "batch words dim"]  # 0 at padding
    real: Bool[Tensor, "batch words"]


class WordPairModel(PreTrainedModel):
    """A classifier of pairs of word sequences: z = pool(premise, hypothesis), logits = classify(z)."""

    config: WordPairConfig
    config_class: type[WordPairConfig]
    main_input_name = "input_ids"
    accepts_loss_kwargs = False  # the loss is a mean over the batch; Trainer must divide by accumulation steps

    def __init__(self, config: WordPairConfig) -> None:
        super().__init__(config)
        self.embedding = self._new_embedding(config.vocab_size, config.embedding_size)

    def _new_embedding(self, vocab_size: int, dim: int) -> WordEmbedding:
        return WordEmbedding(
            vocab_size,
            dim,
            padding_idx=self.config.pad_token_id,
            trainable=self.config.embeddings_trainable,
            missing_words=self.config.missing_words,
        )

    @classmethod
    def from_words(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        source: Source | Vectors | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> Self:
        """A new model for a tokenizer, with pretrained word vectors if given.

        Args:
            tokenizer: see `word_tokenizer.build_tokenizer`.
            source: a file or package for `word_vectors.read_vectors`, or what it returns; None: random vectors.
            seed: of the parameters and of the vectors of missing words.
            options: fields of the configuration.

        Returns:
            The model, in training mode.
        """
        options = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **options}
        table = known = None
        if source is not None:
            vocabulary = set(tokenizer.get_vocab())
            vocabulary |= {word.lower() for word in vocabulary}
            dim = options.get("embedding_size")
            words, vectors = source if isinstance(source, tuple) else read_vectors(source, vocabulary, dim)
            if dim not in (None, vectors.shape[1]):
                raise ValueError(f"vectors of dimension {vectors.shape[1]}, but embedding_size = {dim} was asked for")
            table, known = embedding_matrix(tokenizer, words, vectors, generator=torch.Generator().manual_seed(seed))
            options["embedding_size"] = int(vectors.shape[1])
            if options.get("embeddings_trainable", cls.config_class.embeddings_trainable) == "missing":
                options["missing_words"] = len(missing_rows(known, tokenizer.pad_token_id))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model = cls(cls.config_class(**options))
        if table is not None and known is not None:
            model.embedding.fill(table, known)
        return model

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As every model's, and the logits are those of the saved model to the last bit."""
        return load_exactly(super().from_pretrained, pretrained_model_name_or_path, *args, **kwargs)

    def pool(self, a: Side, b: Side) -> Float[Tensor, "batch pooled"]:
        """Premise and hypothesis as one vector."""
        raise NotImplementedError

    def classify(self, z: Float[Tensor, "batch pooled"]) -> Float[Tensor, "batch labels"]:
        """Logits of the pooled vector."""
        raise NotImplementedError

    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"] | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Float[Tensor, "batch tokens dim"] | None = None,
        labels: Int[Tensor, "batch"] | None = None,
        mixup: Mixup | tuple[Tensor, float | Tensor] | None = None,
        generator: Any = None,  # for the models that draw coalitions; these draw none
        return_dict: bool | None = None,
        **kwargs: Any,  # what Trainer and pipelines pass to every model
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Logits of pairs, and with `labels` the loss.

        Args:
            input_ids: premise and hypothesis in one sequence, padded on either side.
            attention_mask: 1 at real tokens; None: all are.
            token_type_ids: 0 at the tokens of the premise, 1 at those of the hypothesis.
            inputs_embeds: word vectors instead of `input_ids`.
            labels: indices into `config.id2label`.
            mixup: (partner, w): z becomes w·z + (1−w)·z[partner], and the loss is mixed likewise.
            generator: ignored.
            return_dict: False for a plain tuple.
            kwargs: ignored.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        premise, hypothesis = split(x, attention_mask, token_type_ids)
        logits = self.classify(mix(self.pool(premise, hypothesis), mixup))
        loss = None if labels is None else classification_loss(logits, labels, mixup)
        output = SequenceClassifierOutput(loss=loss, logits=logits)
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    def get_input_embeddings(self) -> nn.Module:
        """The word embedding."""
        return self.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace it."""
        self.embedding = value  # type: ignore[assignment]

    def tie_weights(self, *args: Any, **kwargs: Any) -> Any:
        """Freeze vectors again: called after construction, loading and resizing, which make them trainable."""
        result = super().tie_weights(*args, **kwargs)
        if isinstance(self.embedding, WordEmbedding):
            self.embedding.mark_trainable()
        return result

    def _get_resized_embeddings(self, old_embeddings: nn.Embedding, *args: Any, **kwargs: Any) -> nn.Embedding:
        """New words are missing words: their vectors are trained, those of known words stay as they are."""
        if not isinstance(old_embeddings, WordEmbedding):
            return super()._get_resized_embeddings(old_embeddings, *args, **kwargs)
        old, table = old_embeddings, old_embeddings.table().detach()
        plain = super()._get_resized_embeddings(nn.Embedding.from_pretrained(table), *args, **kwargs)
        if plain.num_embeddings == old.num_embeddings:
            return old
        known = torch.zeros(plain.num_embeddings, dtype=torch.bool, device=table.device)
        size = min(plain.num_embeddings, old.num_embeddings)
        known[:size] = old.known()[:size]
        if old.missing_words is not None:
            self.config.missing_words = len(missing_rows(known, old.padding_idx))
        new = self._new_embedding(plain.num_embeddings, plain.embedding_dim).to(table)
        new.fill(plain.weight.detach(), known)
        return new

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Xavier layers with zero biases; normal word vectors, 0 for padding. Tensors already loaded are skipped."""
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            loaded = getattr(module.weight, "_is_hf_initialized", False)
            init.normal_(module.weight, std=float(self.config.initializer_range))
            if module.padding_idx is not None and not loaded:  # a slice of a loaded tensor does not know that it is
                init.zeros_(module.weight[module.padding_idx])
            if isinstance(module, WordEmbedding) and module.missing is not None:
                init.constant_(module.slot, -1)


def split(
    x: Float[Tensor, "batch tokens dim"], attention_mask: Tensor | None, token_type_ids: Tensor | None
) -> tuple[Side, Side]:
    """Premise and hypothesis of a batch of sequences, each left-aligned, whatever the order and the padding."""
    if token_type_ids is None:
        raise ValueError(
            "token_type_ids are missing: they say which words are the premise's (0) and which the hypothesis's (1);"
            " a tokenizer of word_tokenizer.build_tokenizer makes them"
        )
    real = torch.ones_like(token_type_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    for name, given in (("token_type_ids", token_type_ids), ("attention_mask", real)):
        if given.shape != x.shape[:2]:
            raise ValueError(f"{name} must be [batch, tokens] = {list(x.shape[:2])}, got {list(given.shape)}")
    if bool((real & (token_type_ids != 0) & (token_type_ids != 1)).any()):
        raise ValueError("token_type_ids must be 0 (premise) or 1 (hypothesis)")
    return _side(x, real & (token_type_ids == 0), "premise"), _side(x, real & (token_type_ids == 1), "hypothesis")


def _side(x: Float[Tensor, "batch tokens dim"], chosen: Bool[Tensor, "batch tokens"], name: str) -> Side:
    lengths = chosen.sum(dim=1)
    empty = (lengths == 0).nonzero().flatten().tolist()
    if empty:
        raise ValueError(
            f"the {name} of row {empty[0]} has no tokens: this model classifies pairs, a single text cannot be split"
            " (give text and text_pair; if the text was truncated away, raise max_length)"
        )
    order = (~chosen).int().argsort(dim=1, stable=True)[:, : int(lengths.max())]  # (batch, words)
    real = chosen.gather(1, order)
    words = x.gather(1, order.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    return Side(words.masked_fill(~real.unsqueeze(-1), 0.0), real)


def align(
    scores: Float[Tensor, "batch queries keys"],
    values: Float[Tensor, "batch keys dim"],
    real: Bool[Tensor, "batch keys"],
) -> Float[Tensor, "batch queries dim"]:
    """Σ_j softmax_j(e_ij) values_j over the real j; the softmax is in float32."""
    weights = scores.float().masked_fill(~real.unsqueeze(1), -torch.inf).softmax(dim=-1)
    return weights.to(values.dtype) @ values


class DamForSequenceClassification(WordPairModel):
    """Decomposable attention: three feed-forward networks F, G, H and no order of words.

    a, b = W·words;  e_ij = F(a_i)·F(b_j);  β_i = Σ_j softmax_j(e_ij) b_j,  α_j = Σ_i softmax_i(e_ij) a_i;
    v₁ = Σ_i G([a_i; β_i]),  v₂ = Σ_j G([b_j; α_j]);  logits = H([v₁; v₂]).

    How it differs from the paper: no intra-sentence attention; H has two hidden layers and W no bias,
    which gives the 382 thousand parameters the paper counts (381 803, without the word vectors);
    missing words have a trained vector each instead of sharing a hundred random ones.
    """

    config: DamConfig
    config_class = DamConfig

    def __init__(self, config: DamConfig) -> None:
        super().__init__(config)
        width, p = config.hidden_size, config.dropout
        self.project = nn.Linear(config.embedding_size, width, bias=False)  # W
        self.attend = _layers(width, width, width, dropout=p)  # F
        self.compare = _layers(2 * width, width, width, dropout=p)  # G
        self.aggregate = _layers(2 * width, width, width, dropout=p)  # H without its last layer
        self.classifier = nn.Linear(width, len(config.id2label or ()))
        self.post_init()

    def pool(self, a: Side, b: Side) -> Float[Tensor, "batch pooled"]:
        """[v₁; v₂]"""
        x, y = self.project(a.x), self.project(b.x)
        scores = self.attend(x) @ self.attend(y).mT  # (batch, premise, hypothesis)
        v1 = self.compare(torch.cat((x, align(scores, y, b.real)), dim=-1)) * a.real.unsqueeze(-1)
        v2 = self.compare(torch.cat((y, align(scores.mT, x, a.real)), dim=-1)) * b.real.unsqueeze(-1)
        return torch.cat((v1.sum(dim=1), v2.sum(dim=1)), dim=-1)

    def classify(self, z: Float[Tensor, "batch pooled"]) -> Float[Tensor, "batch labels"]:
        """H([v₁; v₂])"""
        logits: Tensor = self.classifier(self.aggregate(z))
        return logits


def _layers(*widths: int, dropout: float) -> nn.Sequential:
    """Linear, ReLU, dropout for each pair of neighbouring widths."""
    layers: list[nn.Module] = []
    for narrow, wide in pairwise(widths):
        layers += [nn.Linear(narrow, wide), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)
