"""Encoder families under every head, saved and loaded; and the plain classifiers of the paper's table. No network."""

import json
import logging

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, BertModel

import neurogame
from neurogame.labels import LABEL2ID, LABELS
from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification, padding
from neurogame.modeling.heads import POOLINGS
from neurogame.modeling.loading import load_tokenizer
from neurogame.training.build import _load_pretrained
from neurogame.training.config import ModelSection

families = pytest.mark.parametrize("family", tiny.FAMILIES)
HEADS = [(head, "default") for head in POOLINGS] + [("neurogame", "paper")]
every_head = pytest.mark.parametrize(("head", "preset"), HEADS, ids=["-".join(pair) for pair in HEADS])


def same_tensors(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert tensor.dtype == expected[name].dtype, name
        assert torch.equal(tensor, expected[name]), name


@pytest.fixture(scope="module", params=[False, True], ids=["encoder", "masked-lm"])
def folders(request, tmp_path_factory):
    """A checkpoint of each family with its tokenizer: of the encoder itself, or of a language model on it."""
    made = {}
    for family in tiny.FAMILIES:
        saved = tiny.encoder(family, masked_lm=request.param)
        made[family] = tmp_path_factory.mktemp(family), saved
        saved.save_pretrained(made[family][0])
        tiny.tokenizer(family).save_pretrained(made[family][0])
    return made


# --- a plain encoder under a new head -----------------------------------------------------------------------------


@families
def test_an_encoder_checkpoint_goes_under_a_new_head(family, folders, caplog):
    folder, saved = folders[family]
    with caplog.at_level(logging.WARNING, "transformers"):
        model = NeuroGameForSequenceClassification.from_pretrained(folder)
    assert not caplog.records  # nothing to report: what was dropped was not the encoder's
    plain = getattr(saved, saved.base_model_prefix, saved)
    expected = {name: tensor for name, tensor in plain.state_dict().items() if not name.startswith("pooler.")}
    same_tensors(model.encoder.state_dict(), expected)
    assert not any("pooler" in name for name, _ in model.named_parameters())
    assert model.config.encoder.model_type == family
    assert model.config.label2id == LABEL2ID
    assert not model.training

    layer = model.pooling.layer  # new parameters are at their configured starts, not what memory held
    torch.testing.assert_close(layer.gamma, torch.full((4,), 0.25))
    assert torch.equal(layer.background, torch.ones(4))
    torch.testing.assert_close(torch.sigmoid(layer.coupling_logit), torch.full((4,), 0.5))
    assert not layer.gate.bias.any()
    assert 0.01 < float(layer.gate.weight.detach().std()) < 0.03
    for matrix in (layer.value.weight, layer.out.weight, layer.anchor.weight):  # Xavier: U(±√(6/64))
        assert 0.27 < float(matrix.detach().abs().max()) <= (6 / 64) ** 0.5
    assert 0.015 < float(model.classifier.hidden[0].weight.detach().std()) < 0.025
    assert torch.equal(model.classifier.norm.weight, torch.ones(32))


@every_head
def test_new_parameters_of_every_head_start_where_they_should(head, preset, folders):
    folder, _ = folders["bert"]
    torch.manual_seed(7)
    loaded = NeuroGameForSequenceClassification.from_pretrained(folder, head=head, preset=preset)
    torch.manual_seed(7)
    built = NeuroGameForSequenceClassification(loaded.config)
    for name in ("pooling", "classifier"):
        for key, tensor in getattr(loaded, name).state_dict().items():
            other = getattr(built, name).state_dict()[key]
            assert tensor.isfinite().all(), key
            if tensor.dim() < 2 or not tensor.any():
                assert torch.equal(tensor, other), key
            else:  # drawn: the same law
                assert float(tensor.std()) == pytest.approx(float(other.std()), rel=0.25), key


def test_options_dtype_and_record_of_loading(folders):
    folder, _ = folders["bert"]
    two = {"id2label": {0: "yes", 1: "no"}, "label2id": {"yes": 0, "no": 1}}
    model, record = NeuroGameForSequenceClassification.from_pretrained(
        str(folder), head="softmax", classifier_layers=2, attn_implementation="eager", output_loading_info=True, **two
    )
    assert model.config.head == "softmax"
    assert len(model.classifier.hidden) == 2
    assert model.classifier.out.out_features == 2
    assert model.encoder.config._attn_implementation == "eager"
    assert not record["missing_keys"]
    assert NeuroGameForSequenceClassification.from_pretrained(folder, num_labels=5).config.num_labels == 5


def test_a_given_configuration_is_used_and_not_changed(folders):
    folder, _ = folders["bert"]
    config = NeuroGameConfig(head="mean", encoder=tiny.encoder_config(), classifier_width=9)
    before = config.to_dict()
    model = NeuroGameForSequenceClassification.from_pretrained(folder, config=config)
    assert model.classifier.hidden[0].out_features == 9
    assert config.to_dict() == before
    with pytest.raises(ValueError, match="config must be a NeuroGameConfig, got BertConfig"):
        NeuroGameForSequenceClassification.from_pretrained(folder, config=tiny.encoder_config())


def test_a_wrong_checkpoint_is_refused(tmp_path):
    tiny.encoder().save_pretrained(tmp_path / "good")
    for name in ("short", "other", "nameless"):
        tiny.encoder().save_pretrained(tmp_path / name)
    weights = load_file(tmp_path / "short" / "model.safetensors")
    gone = [key for key in weights if "layer.1" in key]
    save_file({k: v for k, v in weights.items() if k not in gone}, tmp_path / "short" / "model.safetensors")
    with pytest.raises(ValueError, match=rf"lacks {len(gone)} of the \d+ weights of a bert encoder"):
        NeuroGameForSequenceClassification.from_pretrained(tmp_path / "short")

    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, "hidden_size": 64}))
    with pytest.raises(ValueError, match=r"has shape \[[\d, ]*32[\d, ]*\], but config\.json asks for \[[\d, ]*64"):
        NeuroGameForSequenceClassification.from_pretrained(tmp_path / "other")

    (tmp_path / "nameless" / "config.json").write_text(json.dumps({"hidden_size": 32}))
    with pytest.raises(ValueError, match=r"config\.json has no model_type"):
        NeuroGameForSequenceClassification.from_pretrained(tmp_path / "nameless")

    neurogame.DamForSequenceClassification(neurogame.DamConfig(vocab_size=9)).save_pretrained(tmp_path / "dam")
    with pytest.raises(ValueError, match="model_type = 'dam' is not an encoder"):
        NeuroGameForSequenceClassification.from_pretrained(tmp_path / "dam")
    with pytest.raises(ValueError, match="model_type = 't5' is not an encoder"):
        NeuroGameForSequenceClassification(NeuroGameConfig(encoder={"model_type": "t5", "d_model": 32}))


# --- saved and loaded ---------------------------------------------------------------------------------------------


@families
def test_save_and_load_is_exact(family, tmp_path):
    model = tiny.model(family=family)
    batch = tiny.encoded(family)
    model.save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is NeuroGameConfig
    assert type(config.encoder) is tiny.FAMILIES[family][0]
    for auto in (AutoModelForSequenceClassification, AutoModel, NeuroGameForSequenceClassification):
        loaded = auto.from_pretrained(tmp_path)
        assert type(loaded) is NeuroGameForSequenceClassification
        same_tensors(loaded.state_dict(), model.state_dict())
        with torch.no_grad():
            assert torch.equal(loaded(**batch).logits, model(**batch).logits)


@every_head
def test_every_head_is_saved_exactly(head, preset, tmp_path):
    model = tiny.model(head, preset=preset, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():  # nothing may come back at its start
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(tmp_path)
    loaded = NeuroGameForSequenceClassification.from_pretrained(tmp_path)
    ours = [name for name in NeuroGameConfig.__annotations__ if name != "encoder"]
    assert {name: getattr(loaded.config, name) for name in ours} == {name: getattr(model.config, name) for name in ours}
    same_tensors(loaded.state_dict(), model.state_dict())
    with torch.no_grad():
        assert torch.equal(loaded(**tiny.encoded()).logits, model(**tiny.encoded()).logits)


def test_from_an_encoder_saved_and_loaded_is_exact(folders, tmp_path):
    """The weights of the first model lie in the encoder's file, those of the second in ours."""
    folder, _ = folders["bert"]
    model = NeuroGameForSequenceClassification.from_pretrained(folder)
    model.save_pretrained(tmp_path)
    loaded = NeuroGameForSequenceClassification.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(**tiny.encoded()).logits, model(**tiny.encoded()).logits)


def test_missing_tensors_of_a_pooling_are_initialised_and_loaded_ones_kept(tmp_path, caplog):
    model = tiny.model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.25)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    gone = ["pooling.layer.log_gamma", "pooling.layer.value.weight"]
    save_file({k: v for k, v in weights.items() if k not in gone}, tmp_path / "model.safetensors")
    with caplog.at_level(logging.WARNING, "transformers"):
        loaded = NeuroGameForSequenceClassification.from_pretrained(tmp_path)
    assert "log_gamma" in caplog.text  # said, not silent
    torch.testing.assert_close(loaded.pooling.layer.gamma, torch.full((4,), 0.25))
    assert 0.27 < float(loaded.pooling.layer.value.weight.detach().abs().max()) <= (6 / 64) ** 0.5
    for name, tensor in loaded.state_dict().items():
        assert name in gone or torch.equal(tensor, weights[name]), name


# --- padding ------------------------------------------------------------------------------------------------------


def logits_one_by_one(model, family="bert", pairs=tiny.PAIRS):
    with torch.no_grad():
        return torch.cat([model(**tiny.encoded(family, [pair])).logits for pair in pairs])


def same_logits(found, expected, preset):
    """Up to rounding: 1e-5 of the largest logit. The paper's solver does not settle and makes more of it."""
    size = float(expected.abs().max())
    torch.testing.assert_close(found, expected, atol=(5e-5 if preset == "paper" else 1e-5) * size, rtol=0)


# Heads see the encoder's output alone, so that one family is enough for most of them.
CASES = [("bert", *pair) for pair in HEADS]
CASES += [(family, "neurogame", preset) for family in list(tiny.FAMILIES)[1:] for preset in ("default", "paper")]


@pytest.mark.parametrize(("family", "head", "preset"), CASES, ids=["-".join(case) for case in CASES])
def test_padding_on_the_right_does_not_matter(family, head, preset):
    model = tiny.model(head, family=family, preset=preset)
    batch = tiny.encoded(family, pad_to_multiple_of=32)
    assert (batch["attention_mask"] == 0).any(dim=1).all()
    with torch.no_grad():
        found = model(**batch).logits
    same_logits(found, logits_one_by_one(model, family), preset)


@every_head
def test_padding_on_the_left_does_not_matter(head, preset):
    """BERT counts positions from the first column, so they are given; the pooling must find [CLS] and its draws."""
    model = tiny.model(head, preset=preset)
    batch = dict(tiny.encoded(pad_to_multiple_of=32, padding_side="left"))
    assert not batch["attention_mask"][:, 0].any()
    batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        found = model(**batch).logits
    same_logits(found, logits_one_by_one(model), preset)


@pytest.mark.parametrize(("head", "options"), [("neurogame", {}), ("neurogame", {"preset": "paper"}), ("spins", {})])
def test_the_record_is_in_the_order_of_the_input(head, options):
    model = tiny.model(head, **options)
    right, left = (dict(tiny.encoded(pad_to_multiple_of=32, padding_side=side)) for side in ("right", "left"))
    left["position_ids"] = (left["attention_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        expected, found = model(**right, output_game=True).game, model(**left, output_game=True).game
    for row, n in enumerate(right["attention_mask"].sum(1).tolist()):
        here, there = slice(32 - n, 32), slice(0, n)

        def same(a, b, row=row, here=here, there=there):
            torch.testing.assert_close(a[row, ..., here], b[row, ..., there], atol=1e-5, rtol=1e-4)

        same(found.shapley, expected.shapley)
        same(found.banzhaf, expected.banzhaf)
        same(found.values.shapley_se, expected.values.shapley_se)
        same(found.values.banzhaf_ess, expected.values.banzhaf_ess)
        if head == "spins":
            torch.testing.assert_close(found.spin_state.spins, expected.spin_state.spins)
            continue
        for name in ("alpha", "field", "gate"):
            same(getattr(found, name), getattr(expected, name))
        same(found.spin_state.spins, expected.spin_state.spins)
        same(found.spin_state.problem.field, expected.spin_state.problem.field)
        for a, b in ((found.coupling, expected.coupling), (found.values.coupling, expected.values.coupling)):
            a, b = (J if torch.is_tensor(J) else J.to_dense() for J in (a, b))
            torch.testing.assert_close(a[row][:, here, here], b[row][:, there, there], atol=1e-5, rtol=1e-4)
        assert not found.alpha[row, :, : 32 - n].any()
    if head == "neurogame":
        torch.testing.assert_close(found.spin_state.spectral_radius, expected.spin_state.spectral_radius)
        torch.testing.assert_close(found.values.efficiency_gap, expected.values.efficiency_gap, atol=1e-5, rtol=0)


def test_sorting_tokens_that_are_in_order_changes_nothing(monkeypatch):
    """What runs where values may not be read (a GPU, a compiled graph): tokens are always put in order and back."""
    model, batch = tiny.model(), tiny.encoded()
    with torch.no_grad():
        expected = model(**batch, output_game=True)
        monkeypatch.setattr(padding, "reads_values", lambda _: False)
        found = model(**batch, output_game=True)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.game.alpha, expected.game.alpha)
    assert torch.equal(found.game.coupling.to_dense(), expected.game.coupling.to_dense())


# --- the plain classifiers of the paper's table -------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_plain_classifiers_load_train_and_predict(family, tmp_path):
    pretrained = tiny.encoder(family, masked_lm=True)
    pretrained.save_pretrained(tmp_path / "encoder")
    tiny.tokenizer(family).save_pretrained(tmp_path / "encoder")
    section = ModelSection(kind="transformers", encoder=str(tmp_path / "encoder"))
    model, tokenizer = _load_pretrained(section)
    assert type(model).__name__.lower() == f"{family}forsequenceclassification"
    assert [model.config.id2label[i] for i in range(3)] == list(LABELS)
    assert model.config.label2id == LABEL2ID
    reference = pretrained.base_model.state_dict()
    for name, tensor in model.base_model.state_dict().items():
        assert name.startswith("pooler.") or torch.equal(tensor, reference[name]), name

    batch = tokenizer(*map(list, zip(*tiny.PAIRS, strict=True)), padding=True, return_tensors="pt")
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        loss = model(**batch, labels=torch.tensor([0, 1, 2, 0])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]

    model.save_pretrained(tmp_path / "trained")
    tokenizer.save_pretrained(tmp_path / "trained")
    nli = neurogame.load(tmp_path / "trained")
    assert nli.labels == LABELS
    found = nli.predict(tiny.PAIRS)
    with torch.no_grad():
        expected = model.eval()(**batch).logits.softmax(-1)
    for row, prediction in zip(expected, found, strict=True):
        assert prediction.label == LABELS[int(row.argmax())]
        assert list(prediction.probabilities.values()) == pytest.approx(row.tolist(), abs=1e-5)


def test_a_folder_without_a_tokenizer_is_not_given_one(tmp_path):
    """transformers would make one up that knows no word."""
    tiny.encoder().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds no tokenizer; save one beside the model"):
        load_tokenizer(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path).get_vocab() == tiny.tokenizer().get_vocab()


def test_importing_the_package_registers_the_models():
    config = AutoConfig.for_model("neurogame", encoder=tiny.encoder_config().to_dict())
    assert type(AutoModelForSequenceClassification.from_config(config)) is NeuroGameForSequenceClassification
    assert type(AutoModel.from_config(config).encoder) is BertModel


# --- what must not be taken for a pretrained model ----------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_a_plain_classifier_needs_the_weights_of_its_encoder(family, tmp_path):
    saved = tiny.encoder(family, masked_lm=True)
    saved.save_pretrained(tmp_path)
    tiny.tokenizer(family).save_pretrained(tmp_path)
    section = ModelSection(kind="transformers", encoder=str(tmp_path))
    assert _load_pretrained(section)[0].config.num_labels == 3
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 20}))
    with pytest.raises(ValueError, match=r"has shape \[[\d, ]+\], but config\.json asks for"):
        _load_pretrained(section)
    weights = load_file(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({f"other.{name}": tensor for name, tensor in weights.items()}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"lacks \d+ of the \d+ weights"):
        _load_pretrained(section)


def test_a_trained_model_goes_on_as_it_was_built(tmp_path):
    tiny.model(attention={"couplings": "none"}).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    same = _load_pretrained(ModelSection(encoder=str(tmp_path), options={"dropout": 0.3}))[0]
    assert same.config.attention == {"couplings": "none"}
    for change in ({"attention": {"couplings": "pairs"}}, {"options": {"classifier_layers": 2}}, {"head": "mean"}):
        with pytest.raises(ValueError, match=r"was trained with .*; it cannot be trained further with"):
            _load_pretrained(ModelSection(encoder=str(tmp_path), **change))


def test_an_encoder_can_be_named_in_the_configuration(tmp_path):
    tiny.encoder_config().save_pretrained(tmp_path)
    config = NeuroGameConfig(encoder=str(tmp_path))
    assert config.encoder.to_dict() == AutoConfig.from_pretrained(tmp_path).to_dict()
    assert NeuroGameForSequenceClassification(config).config.hidden_size == tiny.SIZES["hidden_size"]
