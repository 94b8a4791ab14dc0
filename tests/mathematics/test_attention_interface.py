"""`attn_implementation="neurogame"` in models of transformers: our layer's numbers, masks, caches, gradients."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, LlamaConfig, LlamaModel

import neurogame
from neurogame import NeuroGameSelfAttention
from neurogame.modeling.attention_interface import neurogame_attention

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}


@pytest.fixture
def ids():
    return torch.randint(5, 40, (2, 6), generator=torch.Generator().manual_seed(0))


def bert(**options):
    neurogame.register_attention()
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
    with torch.no_grad():
        padded = model(ids, mask, output_attentions=True)
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
    with pytest.raises(ValueError, match="no layer that goes through the attention interface"):
        neurogame.use_neurogame_attention(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="iterations must be at least 1"):
        neurogame.use_neurogame_attention(bert(), iterations=0)
