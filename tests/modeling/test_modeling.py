"""NeuroGameForSequenceClassification: configuration, precision, outputs, players, losses, and the tools of others."""

import json
import warnings

import pytest
import tiny
import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig

from neurogame.attention import NeuroGameOutput
from neurogame.labels import ID2LABEL, LABEL2ID
from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification
from neurogame.modeling.configuration import paired_labels
from neurogame.modeling.heads import POOLINGS, SpinsOutput

HEADS = [(head, "default") for head in POOLINGS] + [("neurogame", "paper")]
every_head = pytest.mark.parametrize(("head", "preset"), HEADS, ids=["-".join(pair) for pair in HEADS])
GOLD = torch.tensor([0, 1, 2, 1])


# --- configuration ------------------------------------------------------------------------------------------------


def ours(config):
    return {name: getattr(config, name) for name in NeuroGameConfig.__annotations__ if name != "encoder"}


def test_the_configuration_survives_json_and_folders(tmp_path):
    config = NeuroGameConfig(
        encoder=tiny.encoder_config("albert"),
        head="neurogame",
        preset="paper",
        heads=2,
        attention={"couplings": "none", "gate": 0.5, "background": None, "tilt": "gamma"},
        players="words",
        special_token_ids=[0, 2, 3],
        classifier_layers=2,
        activation="relu",
        dropout=0,
        temperature=1.7,
        id2label={0: "no", 1: "yes"},
    )
    config.save_pretrained(tmp_path)
    from_json = NeuroGameConfig.from_dict(json.loads(config.to_json_string(use_diff=False)))
    for again in (NeuroGameConfig.from_pretrained(tmp_path), from_json, NeuroGameConfig(**config.to_dict())):
        assert ours(again) == ours(config)
        assert again.attention_config() == config.attention_config()
        assert type(again.encoder) is type(config.encoder)
        assert again.encoder.hidden_size == 32
        assert again.encoder.embedding_size == 16
        assert again.label2id == {"no": 0, "yes": 1}
    assert (config.hidden_size, config.num_hidden_layers, config.pooling_heads) == (32, 2, 2)
    assert config.vocab_size == len(tiny.tokenizer("albert"))
    assert config.max_position_embeddings == 48


def test_the_encoder_may_be_a_dictionary_an_object_or_left_out():
    as_object = NeuroGameConfig(encoder=tiny.encoder_config("roberta"))
    as_dict = NeuroGameConfig(encoder=tiny.encoder_config("roberta").to_dict())
    assert type(as_dict.encoder) is type(as_object.encoder)
    assert as_dict.encoder.to_dict() == as_object.encoder.to_dict()
    default = NeuroGameConfig()
    assert isinstance(default.encoder, BertConfig)
    assert default.hidden_size == 768
    assert default.pooling_heads == 12
    with pytest.raises(ValueError, match="nonsense"):
        NeuroGameConfig(encoder={"model_type": "nonsense"})


def test_an_encoder_that_is_nowhere_is_one_line(monkeypatch):
    """Found by the fuzzer: transformers says it in several."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="encoder = 'nothing/such' is neither a folder here nor") as raised:
        NeuroGameConfig(encoder="nothing/such")
    assert len(str(raised.value).splitlines()) == 1


def test_labels_come_in_both_directions():
    config = NeuroGameConfig()
    assert config.id2label == ID2LABEL
    assert config.label2id == LABEL2ID
    other = {0: "contradiction", 1: "entailment", 2: "neutral"}
    assert NeuroGameConfig(id2label=other).label2id == {"contradiction": 0, "entailment": 1, "neutral": 2}
    assert NeuroGameConfig(label2id={"yes": 0, "no": 1}).id2label == {0: "yes", 1: "no"}
    assert NeuroGameConfig(num_labels=2).label2id == {"LABEL_0": 0, "LABEL_1": 1}
    assert NeuroGameConfig(num_labels=3).id2label == ID2LABEL
    with pytest.raises(ValueError, match="contradict each other"):
        NeuroGameConfig(id2label={0: "yes", 1: "no"}, label2id={"yes": 1, "no": 0})
    assert paired_labels({"1": "b", "0": "a"}, {}) == ({0: "a", 1: "b"}, {"a": 0, "b": 1})


WRONG = [
    ({"head": "nonsense"}, ValueError, r"head = 'nonsense' is unknown; allowed: 'neurogame', 'spins', 'cls'"),
    ({"preset": "fast"}, ValueError, r"preset = 'fast' is unknown; allowed: 'default', 'paper'"),
    ({"players": "some"}, ValueError, r"players = 'some' is unknown; allowed: 'all', 'words'"),
    ({"activation": "silu"}, ValueError, r"activation = 'silu' is unknown; allowed: 'gelu', 'relu'"),
    ({"spins_source": "sep"}, ValueError, r"spins_source = 'sep' is unknown; allowed: 'cls', 'tokens'"),
    ({"attention": {"coupling": "none"}}, ValueError, r"attention option 'coupling' is unknown; allowed: samples, .*"),
    ({"attention": {"couplings": "all"}}, ValueError, r"couplings = 'all' is unknown; allowed: 'pairs', 'linear'"),
    ({"attention": {"gate": 2.0}}, ValueError, r"gate must be None \(learned\) or a fixed λ in \[0, 1\], got 2.0"),
    ({"attention": {"samples": 0}}, ValueError, r"samples must be at least 1, got 0"),
    ({"attention": "couplings"}, TypeError, r"attention must be a mapping of options of the layer, got 'couplings'"),
    ({"dropout": 1.0}, ValueError, r"dropout must be in \[0, 1\), got 1.0"),
    ({"dropout": "high"}, TypeError, r"dropout must be a number, got 'high'"),
    ({"special_token_ids": ["[CLS]"]}, TypeError, r"special_token_ids must be a whole number, got '\[CLS\]'"),
    ({"budget": 1.5}, ValueError, r"budget must be between 0 and 1"),
    ({"temperature": 0}, ValueError, r"temperature must be > 0, got 0"),
    ({"classifier_layers": 0}, ValueError, r"classifier_layers must be at least 1, got 0"),
    ({"classifier_width": 0}, ValueError, r"classifier_width must be at least 1, got 0"),
    ({"heads": 0}, ValueError, r"heads must be at least 1, got 0"),
    ({"spins": 2.5}, TypeError, r"spins must be a whole number, got 2.5"),
    ({"hopfield_steps": True}, TypeError, r"hopfield_steps must be a whole number, got True"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A plain encoder and a model of ours, each with its tokenizer."""
    made = {}
    for name, model in (("encoder", tiny.encoder()), ("saved", tiny.model())):
        made[name] = tmp_path_factory.mktemp(name)
        model.save_pretrained(made[name])
        tiny.tokenizer().save_pretrained(made[name])
    return made


@pytest.mark.parametrize(("options", "kind", "message"), WRONG, ids=[str(case[0]) for case in WRONG])
def test_wrong_values_are_refused_when_built_and_when_loaded(options, kind, message, folders, as_user):
    with pytest.raises(kind, match=message):
        NeuroGameConfig(encoder=tiny.encoder_config(), **options)
    for folder in folders.values():
        with pytest.raises(kind, match=message):
            NeuroGameConfig.from_pretrained(folder, **options)
        with pytest.raises(kind, match=message):
            NeuroGameForSequenceClassification.from_pretrained(folder, **options)


def test_sizes_of_the_encoder_are_set_on_the_encoder():
    with pytest.raises(TypeError, match="hidden_size belongs to the encoder"):
        NeuroGameConfig(hidden_size=64)
    with pytest.raises(ValueError, match="heads = 5 must divide the encoder's width 32"):
        tiny.model(heads=5)


def test_overrides_of_a_saved_configuration(folders, tmp_path):
    config, rest = NeuroGameConfig.from_pretrained(
        folders["saved"], head="mean", encoder={"hidden_dropout_prob": 0.3}, unknown=1, return_unused_kwargs=True
    )
    assert config.head == "mean"
    assert config.encoder.hidden_dropout_prob == 0.3
    assert config.encoder.hidden_size == 32
    assert rest == {"unknown": 1}
    relabelled = NeuroGameConfig.from_pretrained(folders["saved"], id2label={0: "a", 1: "b", 2: "c"})
    assert relabelled.label2id == {"a": 0, "b": 1, "c": 2}
    relabelled.save_pretrained(tmp_path)
    assert NeuroGameConfig.from_pretrained(tmp_path, id2label={0: "x", 1: "y"}).label2id == {"x": 0, "y": 1}
    assert NeuroGameConfig.from_pretrained(tmp_path, label2id={"x": 0, "y": 1}).id2label == {0: "x", 1: "y"}
    with pytest.raises(TypeError, match="hed"):
        NeuroGameForSequenceClassification.from_pretrained(folders["saved"], hed="mean")


def test_a_saved_folder_does_not_say_where_it_came_from(folders, tmp_path):
    model = NeuroGameForSequenceClassification.from_pretrained(folders["encoder"])
    assert model.config.encoder._name_or_path == str(folders["encoder"])
    model.save_pretrained(tmp_path)
    assert str(folders["encoder"]) not in (tmp_path / "config.json").read_text()


# --- precision ----------------------------------------------------------------------------------------------------


def close(found, expected, tolerance):
    """Up to a share of the largest logit."""
    assert found.isfinite().all()
    assert expected.abs().max() > 0.05
    assert (found.float() - expected).abs().max() < tolerance * expected.abs().max()


def logits_in_mixed_precision(model):
    parts = ("encoder", "pooling", "classifier")
    kinds = {name: {p.dtype for p in getattr(model, name).parameters()} for name in parts}
    assert kinds == {"encoder": {torch.bfloat16}, "pooling": {torch.float32}, "classifier": {torch.float32}}
    with torch.no_grad():
        found = model(**tiny.encoded()).logits
    assert found.dtype == torch.float32
    return found


@every_head
def test_bfloat16_is_for_the_encoder_alone(head, preset, folders, tmp_path):
    full = tiny.model(head, preset=preset)
    full.save_pretrained(tmp_path / "full")
    half = NeuroGameForSequenceClassification.from_pretrained(tmp_path / "full", dtype=torch.bfloat16)
    found = logits_in_mixed_precision(half)
    with torch.no_grad():
        close(found, full(**tiny.encoded()).logits, 0.15)
    half.save_pretrained(tmp_path / "half")
    again = NeuroGameForSequenceClassification.from_pretrained(tmp_path / "half")
    assert torch.equal(logits_in_mixed_precision(again), found)
    options = {"head": head, "preset": preset, "dtype": torch.bfloat16}
    fresh = NeuroGameForSequenceClassification.from_pretrained(folders["encoder"], **options)
    assert logits_in_mixed_precision(fresh).isfinite().all()


@every_head
def test_autocast_is_finite_and_close(head, preset):
    model, batch = tiny.model(head, preset=preset).train(), tiny.encoded()
    with torch.no_grad():
        expected = model(**batch, generator=3).logits
    with torch.autocast("cpu", torch.bfloat16):
        found = model(**batch, labels=GOLD, generator=3)
    found.loss.backward()
    close(found.logits, expected, 0.15)
    assert all(p.grad.isfinite().all() for p in model.parameters())


@every_head
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_cast_as_a_whole_is_finite(head, preset, dtype):
    model, batch = tiny.model(head, preset=preset), tiny.encoded()
    with torch.no_grad():
        expected = model(**batch).logits
        found = model.to(dtype)(**batch, output_game=True)
    assert found.logits.dtype == dtype
    close(found.logits, expected, 0.15 if dtype == torch.bfloat16 else 0.03)
    if found.game is not None:
        assert found.game.spin_state.spins.dtype == torch.float32


# --- training -----------------------------------------------------------------------------------------------------


def gradients(model, **options):
    model.zero_grad()
    loss = model(**tiny.encoded(), labels=GOLD, **options).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_gradient_checkpointing_changes_nothing(family):
    model = tiny.model(family=family).train()
    batch = tiny.encoded(family)
    results = []
    for on in (False, True):
        if on:
            model.gradient_checkpointing_enable()
            assert model.is_gradient_checkpointing
        model.zero_grad()
        loss = model(**batch, labels=GOLD, generator=4).loss
        loss.backward()
        results.append((loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}))
    torch.testing.assert_close(results[1], results[0], atol=1e-6, rtol=1e-5)


def test_an_encoder_without_checkpointing_says_so():
    model = tiny.model(family="mpnet")
    if model.encoder.supports_gradient_checkpointing:
        pytest.skip("this version of transformers has it")
    with pytest.raises(ValueError, match="does not support gradient checkpointing"):
        model.gradient_checkpointing_enable()


@every_head
@pytest.mark.parametrize("players", ["all", "words"])
def test_every_parameter_has_a_gradient(head, preset, players):
    """So that distributed training needs no search for unused parameters."""
    model = tiny.model(head, preset=preset, players=players, special_token_ids=[0, 2, 3]).train()
    _, found = gradients(model)  # fails where one is None
    assert all(g.isfinite().all() for g in found.values())
    inside = {name: g for name, g in found.items() if name.startswith(("pooling", "classifier"))}
    assert all(g.any() for g in inside.values()), [name for name, g in inside.items() if not g.any()]


def test_draws_are_by_seed_and_new_in_training():
    model = tiny.model().train()
    with torch.no_grad():
        first, again, other = (model(**tiny.encoded(), generator=seed).logits for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        torch.manual_seed(0)
        drawn = [model(**tiny.encoded()).logits for _ in range(2)]
        assert not torch.equal(*drawn)
        torch.manual_seed(0)
        assert torch.equal(model(**tiny.encoded()).logits, drawn[0])
        model.eval()
        assert torch.equal(model(**tiny.encoded()).logits, model(**tiny.encoded()).logits)


@pytest.mark.parametrize("size", [70, 20])
def test_the_vocabulary_can_be_resized(size, tmp_path):
    model, before = tiny.model(), len(tiny.tokenizer())
    vectors = model.get_input_embeddings().weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what transformers says of the mean it draws new vectors around
        model.resize_token_embeddings(size)
    assert model.config.vocab_size == model.config.encoder.vocab_size == size
    kept = min(size, before)
    assert torch.equal(model.get_input_embeddings().weight[:kept], vectors[:kept])
    model.save_pretrained(tmp_path)
    loaded = NeuroGameForSequenceClassification.from_pretrained(tmp_path)
    assert loaded.get_input_embeddings().weight.shape == (size, 32)
    batch = {"input_ids": torch.tensor([[2, 5, 6, size - 1, 3]])}
    with torch.no_grad():
        assert torch.equal(loaded(**batch).logits, model(**batch).logits)


# --- outputs ------------------------------------------------------------------------------------------------------


@every_head
def test_the_game_is_returned_where_asked_for(head, preset):
    model, batch = tiny.model(head, preset=preset), tiny.encoded()
    with torch.no_grad():
        plain, found = model(**batch), model(**batch, output_game=True)
    assert plain.game is None
    assert "game" not in plain
    torch.testing.assert_close(found.logits, plain.logits)
    expected = {"neurogame": NeuroGameOutput, "spins": SpinsOutput}.get(head, type(None))
    assert type(found.game) is expected
    if head == "neurogame":
        real = batch["attention_mask"].bool()
        assert found.game.alpha.shape == (4, 4, real.shape[1])
        assert not found.game.alpha.masked_select(~real.unsqueeze(1)).any()


def test_outputs_are_those_of_transformers():
    model, batch = tiny.model(), tiny.encoded()
    assert model.accepts_loss_kwargs is False
    found = model(**batch, labels=GOLD, output_hidden_states=True, num_items_in_batch=17)
    torch.testing.assert_close(found.loss, cross_entropy(found.logits, GOLD))
    assert len(found.hidden_states) == 3
    torch.testing.assert_close(found.hidden_states[-1], model.encoder(**batch).last_hidden_state)
    loss, logits = model(**batch, labels=GOLD, return_dict=False)
    assert torch.equal(loss, found.loss)
    assert torch.equal(logits, found.logits)
    assert len(model(**batch, return_dict=False)) == 1
    eager = NeuroGameForSequenceClassification._from_config(model.config, attn_implementation="eager").eval()
    eager.load_state_dict(model.state_dict())
    attended = eager(**batch, output_attentions=True)
    assert [tuple(a.shape[:2]) for a in attended.attentions] == [(4, 4), (4, 4)]
    torch.testing.assert_close(attended.logits, found.logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["bert", "distilbert"])  # the second takes neither types nor positions
def test_embeddings_instead_of_ids(family):
    model, batch = tiny.model(family=family), dict(tiny.encoded(family))
    with torch.no_grad():
        expected = model(**batch).logits
        batch["inputs_embeds"] = model.get_input_embeddings()(batch.pop("input_ids"))
        torch.testing.assert_close(model(**batch).logits, expected)
    replacement = torch.nn.Embedding(7, 32)
    model.set_input_embeddings(replacement)
    assert model.get_input_embeddings() is replacement


# --- players ------------------------------------------------------------------------------------------------------


def test_only_words_play_where_asked_for():
    model, batch = tiny.model(players="words", special_token_ids=[0, 2, 3]), tiny.encoded()
    special = (batch["input_ids"] == 2) | (batch["input_ids"] == 3) | (batch["input_ids"] == 0)
    with torch.no_grad():
        found = model(**batch, output_game=True)
        everybody = tiny.model()(**batch, output_game=True)
    alpha = found.game.alpha
    assert not alpha.masked_select(special.unsqueeze(1)).any()
    played = found.game.spin_state.problem.mask  # a word may be switched off, but it played
    assert torch.equal(played.squeeze(1), ~special)
    assert (alpha.masked_select(~special.unsqueeze(1)) > 1e-3).float().mean() > 0.5
    assert (found.logits - everybody.logits).abs().max() > 1e-2
    mask = {"special_tokens_mask": special.long()}
    embedded = {**batch, "inputs_embeds": model.get_input_embeddings()(batch["input_ids"])}
    embedded.pop("input_ids")
    with torch.no_grad():
        torch.testing.assert_close(model(**embedded, **mask).logits, found.logits)
    with pytest.raises(ValueError, match="needs input_ids, or special_tokens_mask beside inputs_embeds"):
        model(**embedded)


def test_words_among_themselves_do_not_see_padding():
    model = tiny.model(players="words", special_token_ids=[0, 2, 3])
    with torch.no_grad():
        together = model(**tiny.encoded(pad_to_multiple_of=32)).logits
        alone = torch.cat([model(**tiny.encoded(pairs=[pair])).logits for pair in tiny.PAIRS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_a_text_without_words_keeps_its_special_tokens():
    model = tiny.model(players="words", special_token_ids=[0, 2, 3])
    batch = tiny.encoded(pairs=[("", ""), ("a girl reads .", "a girl reads .")])
    with torch.no_grad():
        found = model(**batch, output_game=True)
    assert found.logits.isfinite().all()
    played = found.game.spin_state.problem.mask.squeeze(1)
    assert torch.equal(played[0], batch["attention_mask"][0].bool())
    assert played[1].sum() == 8


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_special_tokens_come_from_the_tokenizer(family, tmp_path):
    tok = tiny.tokenizer(family)
    tiny.encoder(family).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"needs the special tokens, or special_token_ids: .* holds no tokenizer"):
        NeuroGameForSequenceClassification.from_pretrained(tmp_path, players="words")
    tok.save_pretrained(tmp_path)
    model = NeuroGameForSequenceClassification.from_pretrained(tmp_path, players="words")
    assert set(model.config.special_token_ids) == {tok.cls_token_id, tok.sep_token_id, tok.pad_token_id}
    given = NeuroGameForSequenceClassification.from_pretrained(tmp_path, players="words", special_token_ids=[1])
    assert given.config.special_token_ids == [1]
    batch = tiny.encoded(family)
    with torch.no_grad():
        played = model(**batch, output_game=True).game.spin_state.problem.mask.squeeze(1)
    words = torch.tensor([[int(i) not in tok.all_special_ids for i in row] for row in batch["input_ids"]])
    assert torch.equal(played, words)
    # and when a saved model is told to leave them out
    NeuroGameForSequenceClassification.from_pretrained(tmp_path).save_pretrained(tmp_path / "saved")
    tok.save_pretrained(tmp_path / "saved")
    again = NeuroGameForSequenceClassification.from_pretrained(tmp_path / "saved", players="words")
    assert again.config.special_token_ids == model.config.special_token_ids


def test_words_without_ids_are_refused():
    with pytest.raises(ValueError, match="players = 'words' needs special_token_ids"):
        tiny.model(players="words")
