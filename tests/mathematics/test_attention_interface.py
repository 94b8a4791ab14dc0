"""`attn_implementation="neurogame"` in models of transformers: our layer's numbers, masks, caches, gradients."""

import json

import pytest
import torch
from transformers import (
    AlbertConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    CLIPTextConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    LlamaModel,
    MistralConfig,
    ModernBertConfig,
    RobertaConfig,
    T5Config,
)

import neurogame
from neurogame import NeuroGameSelfAttention
from neurogame.modeling.attention_interface import neurogame_attention

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}


@pytest.fixture
def ids():
    return torch.randint(5, 40, (2, 6), generator=torch.Generator().manual_seed(0))


def bert(**options):
    torch.manual_seed(0)
    return BertModel(BertConfig(**SIZES, attn_implementation="neurogame", **options), add_pooling_layer=False).eval()


def test_a_layer_of_bert_is_our_layer(ids):
    """Queries, keys, values and masks arrive where they belong: output and α of one layer."""
    model = neurogame.use_neurogame_attention(bert(), strength=0.4, background=-0.5)
    theirs = model.encoder.layer[0].attention.self
    ours = NeuroGameSelfAttention(16, 4, batch_first=True, strength=0.4, background=-0.5)
    with torch.no_grad():
        ours.in_proj_weight.copy_(torch.cat([theirs.query.weight, theirs.key.weight, theirs.value.weight]))
        ours.out_proj.weight.copy_(torch.eye(16))
    x = model.embeddings(ids)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    output, alpha = theirs(x, mask[:, None, None, :].bool().expand(2, 1, 6, 6), output_attentions=True)
    expected, expected_alpha = ours(x, x, x, key_padding_mask=mask == 0, average_attn_weights=False)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(alpha, expected_alpha)


def test_padding_does_not_matter(ids):
    model = bert()
    assert model.config._attn_implementation == "neurogame"
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    with pytest.warns(UserWarning, match="alone is sigmoid attention"):
        padded = model(ids, mask, output_attentions=True)
    with pytest.warns(UserWarning, match="alone is sigmoid attention"):
        alone = model(ids[1:, :4]).last_hidden_state
    torch.testing.assert_close(padded.last_hidden_state[1:, :4], alone)
    assert not padded.attentions[0][1, ..., 4:].any()
    assert not torch.allclose(padded.attentions[0].sum(-1), torch.ones(()))  # no softmax


def test_a_classifier_trains_and_comes_back(ids, tmp_path):
    """Every parameter gets a gradient; saved weights are loaded into a model that was swapped in the same way."""
    torch.manual_seed(0)
    config = BertConfig(**SIZES, num_labels=3)
    model = neurogame.use_neurogame_attention(BertForSequenceClassification(config))
    model(ids, labels=torch.tensor([0, 2])).loss.backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert missing == []
    assert "bert.encoder.layer.1.attention.self.neurogame.strength" in model.state_dict()
    again = neurogame.use_neurogame_attention(BertForSequenceClassification(config))
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.eval()(ids).logits, model.eval()(ids).logits)


@pytest.fixture
def saved(tmp_path):
    """A classifier that was swapped, with ω and μ of its own, and its folder."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SIZES, num_labels=3))
    neurogame.use_neurogame_attention(model, iterations=3, strength=0.7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".neurogame." in name:
                parameter += torch.randn_like(parameter)
    model.save_pretrained(tmp_path)
    return model.eval(), tmp_path


@pytest.mark.parametrize(
    "model_class", [AutoModelForSequenceClassification, BertForSequenceClassification], ids=lambda c: c.__name__
)
def test_what_was_saved_comes_back(ids, saved, model_class):
    """The configuration says that the model was swapped; ω, μ and the number of updates are those that were saved."""
    model, folder = saved
    assert json.loads((folder / "config.json").read_text())["neurogame_attention"] == {"iterations": 3}
    again = neurogame.load_neurogame_attention(folder, model_class).eval()
    assert type(again) is BertForSequenceClassification
    assert again.config._attn_implementation == "neurogame"
    assert torch.equal(again(ids).logits, model(ids).logits)
    again.save_pretrained(folder / "again")
    third, info = neurogame.load_neurogame_attention(folder / "again", model_class, output_loading_info=True)
    assert torch.equal(third.eval()(ids).logits, model(ids).logits)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]


@pytest.mark.parametrize("options", [{}, {"attn_implementation": "neurogame"}], ids=["as it is", "by name"])
def test_nobody_loads_it_as_another_attention_unawares(ids, saved, options, as_user):
    """`from_pretrained` alone drops ω and μ: the first call says so and names the loader."""
    model = AutoModelForSequenceClassification.from_pretrained(saved[1], **options)
    with pytest.raises(ValueError, match=r"no ω and μ: load the model with neurogame\.load_neurogame_attention"):
        model(ids)


def test_the_loader_says_what_it_cannot_load(tmp_path, as_user):
    BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="has no neurogame_attention: load it with from_pretrained"):
        neurogame.load_neurogame_attention(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "neurogame_attention": {"iterations": 2}}))
    with pytest.raises(ValueError, match=r"have no encoder\.layer\.0\.attention\.self\.neurogame\.background"):
        neurogame.load_neurogame_attention(tmp_path)


def test_the_name_works_without_registering(ids, tmp_path, as_user):
    BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path, attn_implementation="neurogame").eval()
    with pytest.warns(UserWarning, match="use_neurogame_attention") as caught:
        model(ids)
    assert len({(w.filename, w.lineno, str(w.message)) for w in caught}) == 1
    assert neurogame.use_neurogame_attention(model)(ids).last_hidden_state.isfinite().all()


def test_swapping_again_keeps_what_was_learned():
    model = neurogame.use_neurogame_attention(bert(), strength=0.3)
    neurogame.use_neurogame_attention(model, iterations=4)
    terms = model.encoder.layer[0].attention.self.neurogame
    assert terms.strength.tolist() == pytest.approx([0.3] * 4)
    assert terms.iterations == 4
    assert model.config.neurogame_attention == {"iterations": 4}


FAMILIES = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "distilbert": DistilBertConfig(vocab_size=40, dim=16, n_layers=2, n_heads=4, hidden_dim=24),
    "electra": ElectraConfig(**SIZES, embedding_size=16),
    "albert": AlbertConfig(**SIZES, embedding_size=8),
    "modernbert": ModernBertConfig(**SIZES, **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0)),
    "gpt2": GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=4),
    "llama": LlamaConfig(**SIZES, num_key_value_heads=2),
    "mistral": MistralConfig(**SIZES, num_key_value_heads=2),
    "clip": CLIPTextConfig(**SIZES),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families(ids, family, tmp_path):
    """Every attention layer has its terms, padding does not matter, gradients arrive, and what is saved comes back."""
    torch.manual_seed(0)
    model = neurogame.use_neurogame_attention(AutoModel.from_config(FAMILIES[family]), strength=0.3).eval()
    terms = [p for name, p in model.named_parameters() if name.endswith("neurogame.strength")]
    assert [len(p) for p in terms] == [4] * (1 if family == "albert" else 2)  # ALBERT shares its layers
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    output = model(ids, attention_mask=mask).last_hidden_state
    with torch.no_grad():
        torch.testing.assert_close(model(ids[1:, :4]).last_hidden_state, output[1:, :4], atol=1e-5, rtol=1e-4)
    output.square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in terms)
    model.save_pretrained(tmp_path)
    again = neurogame.load_neurogame_attention(tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(again(ids).last_hidden_state, model(ids).last_hidden_state)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # DeBERTa's own
@pytest.mark.parametrize(
    ("config", "words"),
    [
        (T5Config(vocab_size=40, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4), "no position_bias, and T5"),
        (Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=4), "no softcap, and Gemma2Attention has one"),
        (DebertaV2Config(**SIZES), "DebertaV2Model has no layer"),
    ],
    ids=["t5", "gemma2", "deberta"],
)
def test_other_logits_are_refused_before_anything_runs(config, words, as_user):
    model = AutoModel.from_config(config)
    before = model.config._attn_implementation
    with pytest.raises(ValueError, match=words):
        neurogame.use_neurogame_attention(model)
    assert model.config._attn_implementation == before


def test_backward_inside_autocast(ids):
    model = neurogame.use_neurogame_attention(bert(attention_probs_dropout_prob=0.0), strength=0.3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(ids).last_hidden_state.float().square().sum().backward()
    assert all(p.grad.isfinite().all() for name, p in model.named_parameters() if "neurogame" in name)


def test_causal_models_with_groups_and_a_cache(ids):
    """A decoder sees no future, keys are shared by groups of heads, and what is cached gives the same next token."""
    torch.manual_seed(0)
    model = LlamaModel(LlamaConfig(**SIZES, num_key_value_heads=2)).eval()
    neurogame.use_neurogame_attention(model, strength=0.3)
    with torch.no_grad():
        whole = model(ids).last_hidden_state
        torch.testing.assert_close(model(ids[:, :3]).last_hidden_state, whole[:, :3])
        cache = model(ids[:, :3], use_cache=True).past_key_values
        torch.testing.assert_close(model(ids[:, 3:4], past_key_values=cache).last_hidden_state, whole[:, 3:4])
    assert len(model.layers[0].self_attn.neurogame.strength) == 4


def test_what_it_cannot_do_is_said(as_user):
    x = torch.zeros(1, 2, 3, 4)
    with pytest.raises(ValueError, match="knows no softcap, got 30"):
        neurogame_attention(torch.nn.Identity(), x, x, x, None, softcap=30.0)
    with pytest.raises(ValueError, match=r"knows no position_bias, got a tensor \[1, 2, 3, 4\]$"):
        neurogame_attention(torch.nn.Identity(), x, x, x, None, position_bias=x)
    with pytest.raises(ValueError, match="no layer that goes through the attention interface"):
        neurogame.use_neurogame_attention(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="iterations must be at least 1"):
        neurogame.use_neurogame_attention(bert(), iterations=0)
