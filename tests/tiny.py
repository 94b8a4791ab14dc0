"""Small random models of each family with a tokenizer beside them, for the tests of `neurogame.modeling`."""

import json
from functools import cache

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertModel,
    AlbertTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BertTokenizer,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertModel,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraModel,
    MPNetConfig,
    MPNetForMaskedLM,
    MPNetModel,
    MPNetTokenizer,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaModel,
    RobertaTokenizer,
)

from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification

PAIRS = [
    ("a girl reads a long book in the garden .", "a girl reads ."),
    ("two dogs sleep .", "the dogs run in the garden ."),
    ("nobody sings .", "a man sings a song ."),
    ("the old man sees a dog and the girl sees a cat .", "the man is old ."),
]
WORDS = sorted({word for pair in PAIRS for text in pair for word in text.split()} | {"boat", "red", "this", "about"})
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
FAMILIES = {
    "bert": (BertConfig, BertModel, BertForMaskedLM, SIZES),
    "roberta": (RobertaConfig, RobertaModel, RobertaForMaskedLM, SIZES),
    "albert": (AlbertConfig, AlbertModel, AlbertForMaskedLM, {**SIZES, "embedding_size": 16}),
    "mpnet": (MPNetConfig, MPNetModel, MPNetForMaskedLM, SIZES),
    "distilbert": (DistilBertConfig, DistilBertModel, DistilBertForMaskedLM, DISTIL),
    "electra": (ElectraConfig, ElectraModel, ElectraForMaskedLM, {**SIZES, "embedding_size": 16}),
}


@cache
def tokenizer(family="bert"):
    """A tokenizer of the family whose vocabulary holds `WORDS`; the first ids are the family's special tokens."""
    if family == "roberta":
        made = _roberta()
    elif family == "albert":
        special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
        made = AlbertTokenizer(vocab=[(t, 0.0) for t in special] + [(f"▁{w}", -2.0) for w in WORDS])
    elif family == "mpnet":
        special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
        made = MPNetTokenizer(vocab={t: i for i, t in enumerate(special + WORDS)})
    else:
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        made = BertTokenizer(vocab={t: i for i, t in enumerate(special + WORDS)})
    made.model_max_length = 40
    return made


def _roberta():
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    texts = [text for pair in PAIRS for text in pair]
    trained.train_from_iterator(texts, vocab_size=300, min_frequency=2, special_tokens=special, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    return RobertaTokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])


def encoder_config(family="bert", **options):
    """Width 32, two layers, four heads, as many words as the tokenizer has, no dropout."""
    config, *_, sizes = FAMILIES[family]
    tok = tokenizer(family)
    off = {"dropout": 0.0, "attention_dropout": 0.0}
    if family != "distilbert":
        off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    defaults = {"vocab_size": len(tok), "pad_token_id": tok.pad_token_id, "max_position_embeddings": 48}
    return config(**{**sizes, **defaults, **off, **options})


def encoder(family="bert", *, masked_lm=False, seed=0, **options):
    """A random encoder, or the same with a language-model head on it."""
    _, plain, lm, _ = FAMILIES[family]
    torch.manual_seed(seed)
    return (lm if masked_lm else plain)(encoder_config(family, **options)).eval()


def model(head="neurogame", *, family="bert", seed=0, **options):
    """A NeuroGame model on a random encoder, in evaluation mode; its logits are of order one, as after training."""
    torch.manual_seed(seed)
    options = {"encoder": encoder_config(family), "dropout": 0.0, "spins": 12, **options}
    made = NeuroGameForSequenceClassification(NeuroGameConfig(head=head, **options)).eval()
    with torch.no_grad():
        for layer in (*made.classifier.hidden, made.classifier.out):
            layer.weight.mul_(8.0)
    return made


def game_model(family="bert", *, seed=0, **options):
    """A model with a game readout over the words; V is about as long as the anchors, so that heads are not linear."""
    torch.manual_seed(seed)
    sizes = {"readout_heads": 8, "readout_dim": 3, "readout_width": 16}
    options = {"encoder": encoder_config(family), "players": "words", **sizes, **options}
    options.setdefault("special_token_ids", special_ids(family))
    made = NeuroGameForSequenceClassification(NeuroGameConfig(readout="game", **options)).eval()
    batch = encoded(family)
    with torch.no_grad():
        games, hidden = made.pooling.games, made(**batch, output_hidden_states=True).hidden_states
        games.standardise(made.side_by_side(hidden)[batch["attention_mask"].bool()])
        games.value.weight.mul_(6.0)
        games.lean.weight.mul_(6.0)
        made.classifier.base.copy_(torch.linspace(-0.2, 0.2, made.config.num_labels))
    return made


def special_ids(family="bert"):
    """[CLS], [SEP] and [PAD]."""
    tok = tokenizer(family)
    return [tok.cls_token_id, tok.sep_token_id, tok.pad_token_id]


def encoded(family="bert", pairs=PAIRS, **options):
    """Pairs as a padded batch."""
    first, second = zip(*pairs, strict=True)
    options = {"padding": True, "return_tensors": "pt", **options}
    return tokenizer(family)(list(first), list(second), **options)
