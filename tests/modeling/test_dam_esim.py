"""DAM and ESIM: sizes, the equations by plain loops, padding, folders that other tools load, and learning."""

import json
import math

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from neurogame.labels import LABEL2ID, LABELS
from neurogame.modeling.baselines.dam import DamConfig, DamForSequenceClassification, split
from neurogame.modeling.baselines.esim import EsimConfig, EsimForSequenceClassification, run_lstm, variational_dropout
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer

MODELS = [DamForSequenceClassification, EsimForSequenceClassification]
both = pytest.mark.parametrize("cls", MODELS, ids=["dam", "esim"])

# Ten situations; each gives an entailed, an open and a contradicted hypothesis.
PAIRS = [
    (premise, hypothesis, label)
    for premise, *hypotheses in [
        ("Two girls paint a red fence.", "Girls paint.", "The girls are sisters.", "Nobody paints anything."),
        (
            "A cook slices onions in a kitchen.",
            "Someone slices onions.",
            "The soup is for guests.",
            "The cook is asleep.",
        ),
        ("An old man rows a boat.", "A man is in a boat.", "The man is a fisher.", "The man isn't in a boat."),
        ("Three boys run up a hill.", "Boys run.", "The boys want to win.", "The boys sit still."),
        ("A nurse reads to a child.", "A nurse reads.", "The book is about dragons.", "The nurse can't read."),
        ("A cat sleeps on a roof.", "An animal sleeps.", "The cat is hungry.", "The cat hunts a mouse."),
        (
            "Workers repair a broken bridge.",
            "Workers repair a bridge.",
            "A storm broke it.",
            "No bridge is repaired.",
        ),
        ("A choir sings in a church.", "People sing.", "It is a wedding.", "The church is silent."),
        (
            "A woman waters her tall roses.",
            "A woman waters roses.",
            "She grows them to sell.",
            "She cuts them down.",
        ),
        ("The train leaves an empty station.", "A train leaves.", "The train is late.", "The station is crowded."),
    ]
    for hypothesis, label in zip(hypotheses, LABELS, strict=True)
]
SENTENCES = [text for premise, hypothesis, _ in PAIRS for text in (premise, hypothesis)]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(SENTENCES)


def encode(tokenizer, pairs, **options):
    return tokenizer([p for p, *_ in pairs], [h for _, h, *_ in pairs], padding=True, return_tensors="pt", **options)


def some_vectors(tokenizer, dim=12):
    """Vectors for two words of three, the special tokens not among them."""
    vocabulary = sorted(word for word in tokenizer.get_vocab() if word[0] != "[")
    words = [*vocabulary[::3], "elsewhere", *vocabulary[1::3]]
    return words, torch.randn(len(words), dim, generator=torch.Generator().manual_seed(5))


def tiny(cls, tokenizer, source=None, **options):
    sizes = {"hidden_size": 10} if source is not None else {"hidden_size": 10, "embedding_size": 12}
    return cls.from_words(tokenizer, source, **{**sizes, **options}).eval()


# --- sizes and configuration --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "count"), [(MODELS[0], 381_803), (MODELS[1], 4_331_103)], ids=["dam", "esim"])
def test_parameters_without_word_vectors(cls, count):
    model = cls(cls.config_class(vocab_size=50))
    vectors = model.get_input_embeddings().weight
    assert vectors.shape == (50, 300)
    assert sum(p.numel() for p in model.parameters()) - vectors.numel() == count
    assert model.num_parameters(exclude_embeddings=True) == count


@both
def test_vectors_of_words_are_not_counted_as_layers(cls, tokenizer):
    plain, split_up = (
        tiny(cls, tokenizer),
        tiny(cls, tokenizer, some_vectors(tokenizer), embeddings_trainable="missing"),
    )
    assert split_up.num_parameters(exclude_embeddings=True) == plain.num_parameters(exclude_embeddings=True)


@pytest.mark.parametrize("config", [DamConfig, EsimConfig])
def test_labels_come_in_both_directions(config):
    assert config().label2id == LABEL2ID
    assert [config().id2label[i] for i in range(3)] == list(LABELS)
    two = {0: "yes", 1: "no"}
    assert config(id2label=two).label2id == {"yes": 0, "no": 1}
    assert config(label2id={"yes": 0, "no": 1}).id2label == two
    assert config(id2label=two).num_labels == 2
    with pytest.raises(ValueError, match="contradict each other"):
        config(id2label=two, label2id={"yes": 1, "no": 0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embeddings_trainable": "some"}, r"'some' is unknown; allowed: 'all', 'missing', 'none'"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"vocab_size": -3}, "vocab_size"),
    ],
)
def test_a_bad_configuration_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DamConfig(**options)


def test_initial_weights_of_esim():
    torch.manual_seed(0)
    model = EsimForSequenceClassification(EsimConfig(vocab_size=20, embedding_size=30, hidden_size=16))
    for lstm in (model.encoder, model.composition):
        for direction in ("", "_reverse"):
            recurrent = getattr(lstm, f"weight_hh_l0{direction}").detach()
            torch.testing.assert_close(recurrent.mT @ recurrent, torch.eye(16), atol=1e-5, rtol=0)
            total = getattr(lstm, f"bias_hh_l0{direction}") + getattr(lstm, f"bias_ih_l0{direction}")
            assert total.tolist() == [0.0] * 16 + [1.0] * 16 + [0.0] * 32
            inputs = getattr(lstm, f"weight_ih_l0{direction}")
            bound = math.sqrt(6 / sum(inputs.shape))
            assert 0.95 * bound < float(inputs.detach().abs().max()) <= bound
    assert not model.get_input_embeddings().weight[0].any()


# --- equations ----------------------------------------------------------------------------------------------------


def network(layers, x):
    for layer in layers:
        if isinstance(layer, torch.nn.Linear):
            x = (layer.weight @ x + layer.bias).clamp(min=0.0)
    return x


@torch.no_grad()
def test_dam_by_plain_loops(tokenizer):
    model = tiny(DamForSequenceClassification, tokenizer).double()
    batch = encode(tokenizer, [PAIRS[0], PAIRS[5]])
    logits = model(**batch).logits
    for row in range(2):
        words = model.embedding.weight[batch["input_ids"][row]]
        kinds, real = batch["token_type_ids"][row], batch["attention_mask"][row] == 1
        a = [model.project.weight @ w for w, t, r in zip(words, kinds, real, strict=True) if r and t == 0]
        b = [model.project.weight @ w for w, t, r in zip(words, kinds, real, strict=True) if r and t == 1]
        e = [[float(network(model.attend, x) @ network(model.attend, y)) for y in b] for x in a]
        v1 = v2 = 0.0
        for i, x in enumerate(a):
            total = sum(math.exp(e[i][k]) for k in range(len(b)))
            beta = sum(math.exp(e[i][k]) / total * b[k] for k in range(len(b)))
            v1 = v1 + network(model.compare, torch.cat((x, beta)))
        for j, y in enumerate(b):
            total = sum(math.exp(e[k][j]) for k in range(len(a)))
            alpha = sum(math.exp(e[k][j]) / total * a[k] for k in range(len(a)))
            v2 = v2 + network(model.compare, torch.cat((y, alpha)))
        h = network(model.aggregate, torch.cat((v1, v2)))
        expected = model.classifier.weight @ h + model.classifier.bias
        torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)  # the softmax is in float32


@torch.no_grad()
def test_esim_by_plain_loops(tokenizer):
    """Sentences one by one, unpacked and unpadded."""
    model = tiny(EsimForSequenceClassification, tokenizer).double()
    batch = encode(tokenizer, [PAIRS[0], PAIRS[5]])
    logits = model(**batch).logits
    for row in range(2):
        words = model.embedding.weight[batch["input_ids"][row]]
        kinds, real = batch["token_type_ids"][row], batch["attention_mask"][row] == 1
        a, b = (model.encoder(words[real & (kinds == side)][None])[0][0] for side in (0, 1))
        pooled = []
        for x, y in ((a, b), (b, a)):
            enhanced = []
            for state in x:
                weights = torch.stack([torch.exp(state @ other) for other in y])
                aligned = sum(w / weights.sum() * other for w, other in zip(weights, y, strict=True))
                enhanced.append(torch.cat((state, aligned, state - aligned, state * aligned)))
            composed = model.composition(torch.relu(model.project(torch.stack(enhanced)))[None])[0][0]
            pooled += [composed.mean(0), composed.max(0).values]
        expected = model.classifier(torch.tanh(model.hidden(torch.cat(pooled))))
        torch.testing.assert_close(logits[row], expected, atol=1e-6, rtol=1e-5)


def test_an_lstm_does_not_see_padding():
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    x, real = torch.randn(2, 5, 3), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()
    states = run_lstm(lstm, x, real)
    torch.testing.assert_close(states[0, :3], lstm(x[:1, :3])[0][0])
    assert not states[0, 3:].any()


def test_variational_dropout_takes_the_same_components_everywhere():
    torch.manual_seed(2)
    x = torch.ones(4, 6, 200)
    dropped = variational_dropout(x, 0.5, training=True)
    assert torch.equal(dropped, dropped[:, :1].expand_as(x))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(dropped[0], dropped[1])
    assert variational_dropout(x, 0.5, training=False) is x


# --- input --------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_matter(cls, side, tokenizer):
    model = tiny(cls, tokenizer, some_vectors(tokenizer))
    pairs = PAIRS[:7]
    alone = torch.cat([model(**encode(tokenizer, [pair])).logits for pair in pairs])
    padded = encode(tokenizer, pairs, pad_to_multiple_of=32, padding_side=side)
    assert padded["input_ids"].shape[1] == 32
    torch.testing.assert_close(model(**padded).logits, alone, atol=1e-5, rtol=0)
    padded["input_ids"] = padded["input_ids"].masked_fill(padded["attention_mask"] == 0, 7)  # nor what is in it
    torch.testing.assert_close(model(**padded).logits, alone, atol=1e-5, rtol=0)


@both
def test_rows_are_independent_and_keep_their_order(cls, tokenizer):
    model = tiny(cls, tokenizer)
    batch, order = encode(tokenizer, PAIRS), torch.randperm(len(PAIRS), generator=torch.Generator().manual_seed(0))
    shuffled = {name: tensor[order] for name, tensor in batch.items()}
    torch.testing.assert_close(model(**shuffled).logits, model(**batch).logits[order], atol=1e-5, rtol=0)


@both
def test_sides_are_told_apart_by_type_not_by_position(cls, tokenizer):
    """The hypothesis may come first; but premise and hypothesis are not interchangeable."""
    model = tiny(cls, tokenizer)
    premise, hypothesis, _ = PAIRS[1]
    there, back = encode(tokenizer, [(premise, hypothesis)]), encode(tokenizer, [(hypothesis, premise)])
    expected = model(**there).logits
    relabelled = {**back, "token_type_ids": 1 - back["token_type_ids"]}
    torch.testing.assert_close(model(**relabelled).logits, expected, atol=1e-5, rtol=0)
    assert (model(**back).logits - expected).abs().max() > 1e-3


@both
def test_order_of_words_matters_to_esim_only(cls, tokenizer):
    model = tiny(cls, tokenizer)
    forwards, backwards = (encode(tokenizer, [(text, "Boys run.")]) for text in ("cat sleeps roof", "roof sleeps cat"))
    change = (model(**forwards).logits - model(**backwards).logits).abs().max()
    assert change < 1e-5 if cls is DamForSequenceClassification else change > 1e-4


@both
def test_embeddings_instead_of_ids(cls, tokenizer):
    model, batch = tiny(cls, tokenizer, some_vectors(tokenizer)), encode(tokenizer, PAIRS[:3])
    x = model.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_()
    mask = {"attention_mask": batch["attention_mask"], "token_type_ids": batch["token_type_ids"]}
    logits = model(inputs_embeds=x, **mask).logits
    assert torch.equal(logits, model(**batch).logits)
    logits.sum().backward()
    moved = x.grad.abs().sum(-1) > 0
    assert torch.equal(moved, batch["attention_mask"].bool())
    hidden = x.detach().masked_fill(batch["attention_mask"].unsqueeze(-1) == 0, torch.nan)
    assert torch.equal(model(inputs_embeds=hidden, **mask).logits, logits)
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model(batch["input_ids"], inputs_embeds=x, **mask)


@both
def test_what_cannot_be_split_is_refused(cls, tokenizer):
    model, batch = tiny(cls, tokenizer), dict(encode(tokenizer, PAIRS[:3]))
    with pytest.raises(ValueError, match="token_type_ids are missing"):
        model(batch["input_ids"], batch["attention_mask"])
    with pytest.raises(ValueError, match=r"hypothesis of row 0 has no tokens.*a single text cannot be split"):
        model(**tokenizer("A cat sleeps.", return_tensors="pt"))
    kinds = batch["token_type_ids"].clone()
    kinds[2] = 1
    with pytest.raises(ValueError, match="premise of row 2 has no tokens"):
        model(**{**batch, "token_type_ids": kinds})
    with pytest.raises(ValueError, match=r"must be 0 \(premise\) or 1"):
        model(**{**batch, "token_type_ids": batch["token_type_ids"] + 1})
    with pytest.raises(ValueError, match=r"attention_mask must be \[batch, tokens\]"):
        model(**{**batch, "attention_mask": batch["attention_mask"][:, 1:]})


def test_split_is_by_mask_and_type():
    x = torch.arange(1.0, 7.0).reshape(1, 6, 1)
    a, b = split(x, torch.tensor([[0, 1, 1, 1, 0, 1]]), torch.tensor([[0, 1, 0, 1, 1, 0]]))
    assert a.x.flatten().tolist() == [3.0, 6.0]
    assert b.x.flatten().tolist() == [2.0, 4.0]


# --- loss ---------------------------------------------------------------------------------------------------------


@both
def test_loss_and_tuple(cls, tokenizer):
    model, batch = tiny(cls, tokenizer), encode(tokenizer, PAIRS[:5])
    labels = torch.tensor([0, 1, 2, 1, 0])
    found = model(**batch, labels=labels, generator=torch.Generator(), num_items_in_batch=7)
    torch.testing.assert_close(found.loss, cross_entropy(found.logits, labels))
    loss, logits = model(**batch, labels=labels, return_dict=False)
    assert torch.equal(loss, found.loss)
    assert torch.equal(logits, found.logits)
    assert model.accepts_loss_kwargs is False


@both
@pytest.mark.parametrize("per_row", [False, True])
def test_mixup_is_of_the_pooled_vectors(cls, per_row, tokenizer):
    model, batch = tiny(cls, tokenizer), encode(tokenizer, PAIRS[:4])
    labels, partner = torch.tensor([0, 1, 2, 1]), torch.tensor([2, 0, 3, 1])
    weight = torch.tensor([0.9, 0.3, 0.5, 1.0]) if per_row else 0.7
    w = weight if per_row else torch.full((4,), weight)
    pooled = []
    model.pool = lambda a, b, pool=model.pool: pooled.append(pool(a, b)) or pooled[0]
    found = model(**batch, labels=labels, mixup=(partner, weight))
    mixed = w[:, None] * pooled[0] + (1 - w[:, None]) * pooled[0][partner]
    torch.testing.assert_close(found.logits, model.classify(mixed))
    targets = w[:, None] * one_hot(labels, 3) + (1 - w[:, None]) * one_hot(labels[partner], 3)
    torch.testing.assert_close(found.loss, cross_entropy(found.logits, targets))


# --- folders ------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("vectors", [False, True])
def test_save_and_load_is_exact(cls, vectors, tokenizer, tmp_path):
    source = some_vectors(tokenizer) if vectors else None
    model = tiny(cls, tokenizer, source, embeddings_trainable="missing", seed=4)
    assert (model.config.missing_words is not None) == vectors
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    batch = encode(AutoTokenizer.from_pretrained(tmp_path), PAIRS[:4])
    for auto in (AutoModelForSequenceClassification, AutoModel, cls):
        loaded = auto.from_pretrained(tmp_path)
        assert type(loaded) is cls
        assert {k: v.tolist() for k, v in loaded.state_dict().items()} == {
            k: v.tolist() for k, v in model.state_dict().items()
        }
        assert {n: p.requires_grad for n, p in loaded.named_parameters()} == {
            n: p.requires_grad for n, p in model.named_parameters()
        }
        assert torch.equal(loaded.eval()(**batch).logits, model(**batch).logits)
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is cls.config_class
    assert json.loads((tmp_path / "config.json").read_text())["label2id"] == LABEL2ID


@both
def test_training_of_a_loaded_model_leaves_known_words_alone(cls, tokenizer, tmp_path):
    words, vectors = some_vectors(tokenizer)
    tiny(cls, tokenizer, (words, vectors), embeddings_trainable="missing").save_pretrained(tmp_path)
    model = cls.from_pretrained(tmp_path).train()
    before = model.embedding.table().detach().clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    labels = torch.tensor([LABEL2ID[label] for *_, label in PAIRS])
    model(**encode(tokenizer, PAIRS), labels=labels).loss.backward()
    optimizer.step()
    after, ids = model.embedding.table().detach(), tokenizer.get_vocab()
    known = {i for word, i in ids.items() if word in words}
    assert len(known) > 20
    for word, i in ids.items():
        if word in words:
            assert torch.equal(after[i], vectors[words.index(word)])
        moved = not torch.equal(after[i], before[i])
        assert moved == (i not in known and word != "[PAD]"), word
    everything = cls.from_pretrained(tmp_path, embeddings_trainable="all")
    assert everything.embedding.weight.requires_grad
    assert torch.equal(everything.embedding.table(), before)


@both
def test_half_precision_is_finite(cls, tokenizer, tmp_path):
    model = tiny(cls, tokenizer, some_vectors(tokenizer), embeddings_trainable="missing")
    model.save_pretrained(tmp_path)
    half = cls.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    batch = encode(tokenizer, PAIRS[:6])
    found = half(**batch, labels=torch.zeros(6, dtype=torch.long))
    assert found.logits.dtype == torch.bfloat16
    assert found.loss.isfinite()
    torch.testing.assert_close(found.logits.float(), model(**batch).logits, atol=0.2, rtol=0.1)


@both
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("change", [5, -3])
def test_the_vocabulary_can_be_resized(cls, vectors, change, tokenizer, tmp_path):
    model = tiny(cls, tokenizer, some_vectors(tokenizer) if vectors else None, embeddings_trainable="missing")
    before, size = model.embedding.table().detach().clone(), len(tokenizer)
    trained = {name: p.requires_grad for name, p in model.named_parameters()}
    embedding = model.resize_token_embeddings(size + change)
    assert embedding is model.get_input_embeddings()
    assert model.config.vocab_size == embedding.weight.shape[0] == size + change
    kept = min(size, size + change)
    assert torch.equal(embedding.table()[:kept], before[:kept])
    assert embedding.table().isfinite().all()
    assert {name: p.requires_grad for name, p in model.named_parameters()} == trained
    if vectors and change > 0:  # new words are missing words
        assert (embedding.slot[size:] >= 0).all()
    model.save_pretrained(tmp_path)
    assert torch.equal(cls.from_pretrained(tmp_path).embedding.table(), embedding.table())


@both
def test_from_words_repeats_by_seed_and_leaves_the_generator_alone(cls, tokenizer):
    state = torch.get_rng_state()
    first, again, other = (tiny(cls, tokenizer, some_vectors(tokenizer), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.project.weight, again.project.weight)
    assert torch.equal(first.embedding.table(), again.embedding.table())
    assert not torch.equal(first.project.weight, other.project.weight)
    assert not torch.equal(first.embedding.table(), other.embedding.table())


def test_from_words_reads_files_and_names_a_wrong_dimension(tokenizer, tmp_path):
    words, vectors = some_vectors(tokenizer)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, vectors.tolist(), strict=True)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines), encoding="utf-8")
    model = DamForSequenceClassification.from_words(tokenizer, tmp_path / "vectors.txt", hidden_size=5)
    expected = DamForSequenceClassification.from_words(tokenizer, (words, vectors), hidden_size=5)
    assert torch.equal(model.embedding.table(), expected.embedding.table())
    with pytest.raises(ValueError, match="dimension 12, but dim = 50"):
        DamForSequenceClassification.from_words(tokenizer, tmp_path / "vectors.txt", embedding_size=50)
    with pytest.raises(ValueError, match="dimension 12, but embedding_size = 50"):
        DamForSequenceClassification.from_words(tokenizer, (words, vectors), embedding_size=50)


@both
def test_pipelines_load_the_folder(cls, tokenizer, tmp_path):
    model = tiny(cls, tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    premise, hypothesis, _ = PAIRS[3]
    expected = model(**encode(tokenizer, [(premise, hypothesis)])).logits.softmax(-1)[0].tolist()
    classify = pipeline("text-classification", model=str(tmp_path), device="cpu")
    found = classify({"text": premise, "text_pair": hypothesis}, top_k=None)
    assert {row["label"] for row in found} == set(LABELS)
    for row in found:
        assert row["score"] == pytest.approx(expected[LABEL2ID[row["label"]]], abs=1e-5)
    with pytest.raises(ValueError, match="a single text cannot be split"):
        classify("A cat sleeps.")
    zero_shot = pipeline("zero-shot-classification", model=str(tmp_path), device="cpu")
    assert zero_shot.entailment_id == LABEL2ID["entailment"]
    found = zero_shot(premise, candidate_labels=["boys", "roses", "trains"], hypothesis_template="It is about {}.")
    assert sorted(found["labels"]) == ["boys", "roses", "trains"]
    assert sum(found["scores"]) == pytest.approx(1.0)


# --- learning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "steps"), [(MODELS[0], 300), (MODELS[1], 100)], ids=["dam", "esim"])
def test_thirty_pairs_can_be_learned(cls, steps, tokenizer):
    model = cls.from_words(tokenizer, some_vectors(tokenizer, 16), hidden_size=32, seed=0).train()
    torch.manual_seed(0)
    batch, labels = encode(tokenizer, PAIRS), torch.tensor([LABEL2ID[label] for *_, label in PAIRS])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.005)
    for _ in range(steps):
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        accuracy = float((model.eval()(**batch).logits.argmax(-1) == labels).float().mean())
    assert accuracy > 0.95


def test_the_former_names_of_the_modules_still_work():
    from neurogame.modeling import dam, esim

    assert dam.DamForSequenceClassification is DamForSequenceClassification
    assert esim.EsimForSequenceClassification is EsimForSequenceClassification
