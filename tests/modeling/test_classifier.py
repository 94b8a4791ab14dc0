"""The spine: one way to open a model, one encoding of pairs, one forward pass in three public steps."""

import pytest
import tiny
import torch
from kinds import HEADS, SHORT, system

import neurogame
from neurogame import opening
from neurogame.classifier import Classifier
from neurogame.data import Pair, collate, encode
from neurogame.modeling.heads import pooling_of
from neurogame.modeling.loading import sharing
from neurogame.nli import NLI


def test_open_gives_model_tokenizer_and_labels(tmp_path):
    NLI(tiny.model(), tiny.tokenizer()).save_pretrained(tmp_path / "saved")
    found = opening.open(tmp_path / "saved")
    assert type(found) is Classifier
    assert (found.name, found.folder) == ("saved", tmp_path / "saved")
    assert found.labels == ("entailment", "neutral", "contradiction")
    loaded = neurogame.load(tmp_path / "saved")
    assert torch.equal(found.logits(tiny.PAIRS), loaded.logits(tiny.PAIRS))
    assert found.predictions(tiny.PAIRS) == loaded.predict(tiny.PAIRS)
    named = opening.open(tmp_path / "saved", kind=NLI, label_names=["yes", "maybe", "no"])
    assert type(named) is NLI
    assert named.labels == ("yes", "maybe", "no")


def test_encode_is_the_encoding_of_the_data_room():
    nli = system()
    rows = nli.encode(tiny.PAIRS)
    expected = encode([Pair(*texts) for texts in tiny.PAIRS], nli.tokenizer, max_length=nli.max_length)
    assert [rows[i] for i in range(len(rows))] == [expected[i] for i in range(len(expected))]
    seen = []
    for batch, inputs in nli.batches(rows, 3):
        seen += batch
        assert inputs.keys() == collate(nli.tokenizer)([rows[i] for i in batch]).keys()
        assert len(inputs["input_ids"]) == len(batch) <= 3
    assert sorted(seen) == list(range(len(tiny.PAIRS)))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("head", [*HEADS, "game"])
def test_the_steps_are_the_forward_pass_to_the_bit(head, side):
    model = tiny.game_model() if head == "game" else tiny.model(head)
    batch = dict(tiny.tokenizer()(*map(list, zip(*tiny.PAIRS, strict=True)), padding=True, return_tensors="pt"))
    if side == "left":
        batch = {name: column.flip(1) for name, column in batch.items()}
    with torch.no_grad():
        encoded = model.encode(**batch)
        real = batch["attention_mask"].bool()
        pooled = model.pool(encoded.states, real, model.players(batch["input_ids"], real))
        assert torch.equal(model.classify(pooled.output), model(**batch).logits)


def test_a_pair_is_pooled_once_per_explanation():
    nli = system()
    calls = []
    nli.model.pooling.register_forward_hook(lambda *_: calls.append(1))
    for method in ("decision", "game", "attention"):
        calls.clear()
        nli.explain(*SHORT, method=method)
        assert len(calls) == 1, method


def test_a_sharing_copy_leaves_the_model_as_it_is():
    model = tiny.model()
    other = sharing(model)
    assert [p.data_ptr() for p in other.parameters()] == [p.data_ptr() for p in model.parameters()]
    before = model.encoder.config._attn_implementation
    other.encoder.set_attn_implementation("eager")
    other.pooling.layer.config = None
    assert model.encoder.config._attn_implementation == before
    assert model.pooling.layer.config is not None


def test_only_our_models_can_be_taken_apart():
    assert pooling_of(tiny.model()) is not None
    assert pooling_of(system("dam").model) is None
    assert pooling_of(system("a bert").model) is None
