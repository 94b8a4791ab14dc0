"""Tiny classifiers of every kind that can be explained: all heads, families of transformers, DAM, ESIM, a bag."""

import tiny
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, BertConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from neurogame.explanation import removal
from neurogame.modeling.baselines.dam import DamForSequenceClassification
from neurogame.modeling.baselines.esim import EsimForSequenceClassification
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.nli import NLI

SHORT = ("two dogs sleep .", "the dogs run .")
LONG = ("the old man sees a dog and the girl sees a cat .", "the man is old .")
HEADS = ["neurogame", "spins", "cls", "mean", "softmax", "hopfield", "budget"]
GAMES = ["game", "game, gate"]  # readouts
KINDS = [*HEADS, "spins of tokens", *(f"a {family}" for family in tiny.FAMILIES), "dam", "esim"]


class Bag(PreTrainedModel):
    """logits = Σ_tokens e(token): each word adds the same wherever it stands."""

    config_class = BertConfig

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.vocab_size, 3)
        self.post_init()

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None):
        e = self.table(input_ids) if inputs_embeds is None else inputs_embeds
        return SequenceClassifierOutput(logits=(e * attention_mask.unsqueeze(-1)).sum(1))


def system(kind="neurogame"):
    """A tiny model of a kind."""
    if kind in ("dam", "esim"):
        tok = build_tokenizer([text for pair in tiny.PAIRS for text in pair])
        made = {"dam": DamForSequenceClassification, "esim": EsimForSequenceClassification}[kind]
        torch.manual_seed(0)
        sizes = {"embedding_size": 16, "hidden_size": 12, "dropout": 0.0}
        return NLI(made(made.config_class(vocab_size=len(tok), **sizes)), tok, name="tiny")
    if kind.startswith("a "):
        family = kind.removeprefix("a ")
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(tiny.encoder_config(family, num_labels=3))
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "classifier" in name:
                    weight.mul_(20.0)
        return NLI(model, tiny.tokenizer(family), name="tiny", label_names=("entailment", "neutral", "contradiction"))
    if kind == "bag":
        model = Bag(tiny.encoder_config(num_labels=3))
        with torch.no_grad():
            model.table.weight.copy_(torch.randn(model.table.weight.shape, generator=torch.Generator().manual_seed(3)))
            model.table.weight[0] = 0.0  # [PAD]
        return NLI(model, tiny.tokenizer(), name="bag", label_names=("entailment", "neutral", "contradiction"))
    if kind in GAMES:
        model = tiny.game_model(readout_spins="gate" if kind == "game, gate" else "none")
        return NLI(model, tiny.tokenizer(), name="tiny")
    options = {"spins_source": "tokens"} if kind == "spins of tokens" else {}
    return NLI(tiny.model(kind.split()[0], **options), tiny.tokenizer(), name="tiny")


def kept_inputs(reading, keep, mode="delete", *, batch_size=removal.BATCH):
    """Inputs of the model for each row of `keep`, which words stay: (which rows, what the model takes)."""
    for rows, inputs in removal.batches([(reading, keep)], mode, batch_size):
        yield torch.tensor(rows[0]), inputs
