"""Explainers on every family of encoders, in half precision, with padding on either side, with or without segments."""

import copy
import random
import warnings

import pytest
import tiny
import torch
from transformers import (
    AlbertForSequenceClassification,
    BertForSequenceClassification,
    DebertaV2Config,
    DistilBertForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    MPNetForSequenceClassification,
    RobertaForSequenceClassification,
)

with warnings.catch_warnings():  # torch.jit.script, in transformers' own file
    warnings.simplefilter("ignore", DeprecationWarning)
    from transformers import DebertaV2ForSequenceClassification

import neurogame
from neurogame.classifier import Classifier
from neurogame.explanation.reading import read
from neurogame.explanation.removal import evaluate
from neurogame.grounding import observe
from neurogame.modeling.checking import ModelError

SMALL = {"heads": 4, "head_dim": 2, "width": 16, "steps": 2, "coalitions": 2}
CLASSES = {
    "bert": BertForSequenceClassification,
    "roberta": RobertaForSequenceClassification,
    "albert": AlbertForSequenceClassification,
    "distilbert": DistilBertForSequenceClassification,
    "mpnet": MPNetForSequenceClassification,
    "deberta-v2": DebertaV2ForSequenceClassification,
    "modernbert": ModernBertForSequenceClassification,
}
TEXT = "the old man sees a dog"


def made(family, **options):
    """A random classifier of two labels, whose answers differ from text to text, and its tokenizer."""
    torch.manual_seed(0)
    tok = tiny.tokenizer(family if family in tiny.FAMILIES else "bert")
    options = {"num_labels": 2, "initializer_range": 0.2, **options}
    if family in tiny.FAMILIES:
        return CLASSES[family](tiny.encoder_config(family, **options)).eval(), tok
    common = {**tiny.SIZES, "vocab_size": len(tok), "pad_token_id": tok.pad_token_id, "max_position_embeddings": 48}
    if family == "deberta-v2":
        relative = {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]}
        config = DebertaV2Config(**common, **relative, hidden_dropout_prob=0.0, type_vocab_size=0, **options)
    else:
        ids = {"bos_token_id": None, "eos_token_id": None, "cls_token_id": tok.cls_token_id}
        config = ModernBertConfig(**common, **ids, sep_token_id=tok.sep_token_id, local_attention=8, **options)
    return CLASSES[family](config).eval(), tok


def texts(count=10):
    draws = random.Random(0)
    words = [w for w in tiny.WORDS if w != "."]
    return [" ".join(draws.choices(words, k=draws.randint(2, 7))) for _ in range(count)]


@pytest.mark.parametrize("family", list(CLASSES))
def test_every_family_is_grounded_and_explained(family, tmp_path):
    model, tok = made(family)
    explainer = neurogame.ground(model, tok, texts(), **SMALL)
    why = explainer(TEXT)
    assert why.words == tuple(TEXT.split())
    assert sum(why.shapley) == pytest.approx(why.diagnostics["total"], abs=1e-4)
    assert explainer(TEXT, samples=16).diagnostics["refined"]
    explainer.save_pretrained(tmp_path)
    again = neurogame.Explainer.from_pretrained(tmp_path).bound(model, tok)(TEXT)
    assert again.scores == why.scores
    known = tok(TEXT, return_tensors="pt")
    known = {name: x for name, x in known.items() if name != "token_type_ids" or family in ("bert", "albert")}
    with torch.no_grad():
        logits = model(**known).logits[0]
    assert list(why.prediction.logits.values()) == pytest.approx(logits.tolist(), abs=1e-4)


@pytest.mark.parametrize("family", list(CLASSES))
def test_batches_say_what_single_texts_say(family):
    """Whatever the padding: what is observed in a batch is what the model says of each coalition by itself."""
    model, tok = made(family)
    listed = [TEXT, "a dog", "the girl reads a long book in the garden"]
    found = observe(model, tok, listed, (0, 2), coalitions=4)
    for i, text in enumerate(listed):
        alone = torch.cat([evaluate(read(Classifier(model, tok), text, None), C[None]) for C in found.members[i]])
        torch.testing.assert_close(found.logits[i], alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("removal", ["delete", "mask", "pad"])
def test_the_side_of_the_padding_does_not_matter(family, removal):
    model, tok = made(family)
    left = copy.deepcopy(tok)
    left.padding_side = "left"
    right, other = (neurogame.ground(model, t, texts(), removal=removal, **SMALL) for t in (tok, left))
    assert all(torch.equal(x, other.game.state_dict()[name]) for name, x in right.game.state_dict().items())
    ours, theirs = right(TEXT), other(TEXT)
    assert ours.scores == theirs.scores
    assert ours.diagnostics["without"] == theirs.diagnostics["without"]
    assert right(TEXT, samples=20).scores == other(TEXT, samples=20).scores
    assert left.padding_side == "left"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_models_have_heads_in_full_precision(dtype):
    model, tok = made("bert")
    model = model.to(dtype)
    try:
        model(**tok(TEXT, return_tensors="pt"))
    except RuntimeError as error:  # an operation that this processor does not have in float16
        pytest.skip(str(error))
    explainer = neurogame.ground(model, tok, texts(), **SMALL)
    assert all(x.dtype == torch.float32 for x in explainer.game.state_dict().values())
    why = explainer(TEXT)
    assert sum(why.shapley) == pytest.approx(why.diagnostics["total"], abs=1e-4)
    assert next(model.parameters()).dtype == dtype


def test_states_beyond_float16_stay_finite():
    model, tok = made("bert")
    with torch.no_grad():
        model.bert.encoder.layer[1].output.LayerNorm.weight.mul_(1e6)
    found = observe(model, tok, texts(4), (0, 2))
    assert all(x.isfinite().all() for x in found.states)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_model_on_a_gpu_stays_there():
    model, tok = made("bert")
    explainer = neurogame.ground(model.cuda(), tok, texts(), **SMALL)
    assert model.device.type == "cuda"
    assert explainer(TEXT, samples=16).words == tuple(TEXT.split())


def test_a_model_without_hidden_states_is_refused():
    class Closed(BertForSequenceClassification):
        def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **options):
            found = super().forward(input_ids, attention_mask, token_type_ids)
            found.hidden_states = None
            return found

    model, tok = made("bert")
    with pytest.raises(ModelError) as raised:
        neurogame.ground(Closed(model.config), tok, texts())
    assert str(raised.value).startswith("Closed returns no hidden states, which a game reads; allowed: ")
