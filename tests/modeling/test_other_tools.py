"""Our models in the tools of others: pipelines, CrossEncoder, Trainer."""

import pytest
import tiny
import torch
from transformers import pipeline

import neurogame
from neurogame.labels import LABELS
from neurogame.modeling import DamForSequenceClassification, NeuroGameConfig
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer


@pytest.fixture(scope="module", params=["neurogame", "dam"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    if request.param == "neurogame":
        model, tok = tiny.model(seed=5), tiny.tokenizer()
    else:
        tok = build_tokenizer([text for pair in tiny.PAIRS for text in pair], max_length=40)
        model = DamForSequenceClassification.from_words(tok, hidden_size=10, embedding_size=8)
    with torch.no_grad():  # apart from each other, so that a swapped pair of labels shows
        model.get_parameter("classifier.out.bias" if request.param == "neurogame" else "classifier.bias").copy_(
            torch.tensor([0.4, -0.3, 0.1])
        )
    model.save_pretrained(path)
    tok.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def expected(folder):
    nli = neurogame.load(folder)
    assert nli.temperature == 1.0
    assert nli.labels == LABELS
    return nli.predict(tiny.PAIRS)


def test_text_classification_pipeline(folder, expected):
    classify = pipeline("text-classification", model=folder, device="cpu")
    found = classify([{"text": p, "text_pair": h} for p, h in tiny.PAIRS], top_k=None)
    for rows, prediction in zip(found, expected, strict=True):
        assert rows[0]["label"] == prediction.label
        assert {row["label"]: row["score"] for row in rows} == pytest.approx(prediction.probabilities, abs=1e-5)


@pytest.mark.parametrize("build", [tiny.model, tiny.game_model], ids=["ffn", "game"])
def test_a_folded_temperature_is_one_probability_everywhere(build, tmp_path):
    nli = neurogame.NLI(build(), tiny.tokenizer(), name="tiny")
    nli.temperature = 0.4
    stored = [prediction.probabilities for prediction in nli.predict(tiny.PAIRS)]
    bare = nli.logits(tiny.PAIRS).softmax(-1)
    nli.model.fold_temperature()
    assert nli.temperature == 1.0
    nli.save_pretrained(tmp_path / "folded")
    classify = pipeline("text-classification", model=str(tmp_path / "folded"), device="cpu", top_k=None)
    for (premise, hypothesis), wanted, plain in zip(tiny.PAIRS, stored, bare, strict=True):
        answer = classify({"text": premise, "text_pair": hypothesis})
        assert {row["label"]: row["score"] for row in answer} == pytest.approx(wanted, abs=1e-5)
        assert max(abs(plain[i].item() - p) for i, p in enumerate(wanted.values())) > 1e-3  # 0.4 is not 1


def test_zero_shot_pipeline(folder):
    classify = pipeline("zero-shot-classification", model=folder, device="cpu")
    premise, words = "the old man sees a boat .", ["dogs", "song", "red"]
    found = classify(premise, candidate_labels=words, hypothesis_template="this is about {} .")
    nli = neurogame.load(folder)
    entailed = torch.tensor([nli.predict(premise, f"this is about {word} .").logits["entailment"] for word in words])
    expected = dict(zip(words, entailed.softmax(0).tolist(), strict=True))
    assert dict(zip(found["labels"], found["scores"], strict=True)) == pytest.approx(expected, abs=1e-5)


def test_cross_encoder(folder, expected):
    library = pytest.importorskip("sentence_transformers", reason="not among what `make compat` installs")
    model = library.CrossEncoder(folder, device="cpu")
    assert model.num_labels == 3
    found = model.predict(tiny.PAIRS, apply_softmax=True, show_progress_bar=False)
    for row, prediction in zip(found, expected, strict=True):
        assert dict(zip(LABELS, row.tolist(), strict=True)) == pytest.approx(prediction.probabilities, abs=1e-5)
        assert model.config.id2label[int(row.argmax())] == prediction.label
    single = model.predict(tiny.PAIRS[0], apply_softmax=True, show_progress_bar=False)
    assert single.tolist() == pytest.approx(found[0].tolist(), abs=1e-5)


# found by the fuzzer
def test_masks_and_labels_of_other_shapes(as_user):
    model, batch = tiny.model("mean"), dict(tiny.encoded())
    real = batch["attention_mask"].bool()
    wide = real[:, None, None, :].expand(-1, -1, real.shape[1], -1)  # BERT takes it
    with pytest.raises(ValueError, match=r"attention_mask must be \[batch, tokens\]"):
        model(**{**batch, "attention_mask": wide})
    with pytest.raises(ValueError, match="at least one real token"):  # not NaN
        model(**{**batch, "attention_mask": torch.zeros_like(batch["attention_mask"])})
    with pytest.raises(ValueError, match="num_labels = 1000000000000 is too large"):  # not all the memory there is
        NeuroGameConfig(num_labels=10**12)
    labels = torch.tensor([0, 1, 2, 0])
    assert torch.equal(model(**batch, labels=labels.view(-1, 1)).loss, model(**batch, labels=labels).loss)
