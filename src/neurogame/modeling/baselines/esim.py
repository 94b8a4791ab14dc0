"""ESIM, the enhanced sequential inference model (Chen et al., 2017).

    premise, hypothesis ──BiLSTM──▶ ──align, enhance──▶ ──BiLSTM──▶ mean and maximum ──MLP──▶ logits

What it shares with decomposable attention (input, division into sides, loss) is in `dam`; word vectors
and the tokenizer are in `word_vectors` and `word_tokenizer`.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import initialization as init

from neurogame._common.types import Bool, Float, Tensor
from neurogame.modeling.baselines import EsimConfig
from neurogame.modeling.baselines.dam import Side, WordPairModel, align


class EsimForSequenceClassification(WordPairModel):
    """Sequential inference with soft alignment between two BiLSTMs.

    ā, b̄ = BiLSTM(words);  e_ij = ā_i·b̄_j;  ã_i = Σ_j softmax_j(e_ij) b̄_j,  b̃_j = Σ_i softmax_i(e_ij) ā_i;
    m_a = [ā; ã; ā − ã; ā∘ã], m_b likewise;  v = BiLSTM(ReLU(W m));
    z = [mean v_a; max v_a; mean v_b; max v_b];  logits = W₂ tanh(W₁ z).

    4 331 103 parameters without the word vectors.

    How it differs from the paper: the sequential model alone, without the one on parse trees. Dropout is
    the same at all words of a sentence instead of drawn anew for each, as is usual in implementations.
    """

    config: EsimConfig
    config_class = EsimConfig

    def __init__(self, config: EsimConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.encoder = nn.LSTM(config.embedding_size, width, batch_first=True, bidirectional=True)
        self.project = nn.Linear(8 * width, width)  # W
        self.composition = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(8 * width, width)  # W₁
        self.classifier = nn.Linear(width, len(config.id2label or ()))  # W₂
        self.post_init()

    def pool(self, a: Side, b: Side) -> Float[Tensor, "batch pooled"]:
        """[mean v_a; max v_a; mean v_b; max v_b]"""
        x, y = self._encode(a), self._encode(b)  # (batch, words, 2·width)
        scores = x @ y.mT  # (batch, premise, hypothesis)
        composed_a = self._compose(x, align(scores, y, b.real), a.real)
        composed_b = self._compose(y, align(scores.mT, x, a.real), b.real)
        return torch.cat((mean_max(composed_a, a.real), mean_max(composed_b, b.real)), dim=-1)

    def classify(self, z: Float[Tensor, "batch pooled"]) -> Float[Tensor, "batch labels"]:
        """W₂ tanh(W₁ z)"""
        hidden = torch.tanh(self.hidden(self._dropout(z)))
        logits: Tensor = self.classifier(self._dropout(hidden))
        return logits

    def _encode(self, side: Side) -> Float[Tensor, "batch words features"]:
        x = variational_dropout(side.x, self.config.dropout, training=self.training)
        return run_lstm(self.encoder, x, side.real)

    def _compose(self, x: Tensor, aligned: Tensor, real: Tensor) -> Float[Tensor, "batch words features"]:
        enhanced = torch.cat((x, aligned, x - aligned, x * aligned), dim=-1)
        inferred = torch.relu(self.project(enhanced))
        return run_lstm(
            self.composition, variational_dropout(inferred, self.config.dropout, training=self.training), real
        )

    def _dropout(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, training=self.training)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """LSTM: Xavier input weights, orthogonal recurrent weights, zero biases but 1 for the forget gate.

        Each gate has two biases that are added; the 1 is in the recurrent one.
        """
        if not isinstance(module, nn.LSTM):
            super()._init_weights(module)
            return
        for name, parameter in module.named_parameters():
            if name.startswith("weight_ih"):
                init.xavier_uniform_(parameter)
            elif name.startswith("weight_hh"):
                init.orthogonal_(parameter)
            else:
                bias = torch.zeros_like(parameter)
                if name.startswith("bias_hh"):
                    bias[module.hidden_size : 2 * module.hidden_size] = 1.0  # gates in the order i, f, g, o
                init.copy_(parameter, bias)


def run_lstm(
    lstm: nn.LSTM, x: Float[Tensor, "batch words dim"], real: Bool[Tensor, "batch words"]
) -> Float[Tensor, "batch words features"]:
    """States at the real words, 0 at padding; packed, so that the backward direction starts at the last real word."""
    packed = pack_padded_sequence(x, real.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=x.shape[1])
    return states


def variational_dropout(
    x: Float[Tensor, "batch words dim"], p: float, *, training: bool
) -> Float[Tensor, "batch words dim"]:
    """Dropout that takes the same components from every word of a sentence."""
    if not training or p == 0:
        return x
    return x * functional.dropout(torch.ones_like(x[:, :1]), p)


def mean_max(x: Float[Tensor, "batch words dim"], real: Bool[Tensor, "batch words"]) -> Float[Tensor, "batch pooled"]:
    """[mean; maximum] over the real words."""
    outside = ~real.unsqueeze(-1)
    mean = x.masked_fill(outside, 0.0).sum(dim=1) / real.sum(dim=1, keepdim=True)
    return torch.cat((mean.to(x.dtype), x.masked_fill(outside, -torch.inf).amax(dim=1)), dim=-1)
