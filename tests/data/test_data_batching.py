"""Encoding, padding and batches: the same numbers as the tokenizer gives pair by pair."""

import pickle

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, Trainer, TrainingArguments
from transformers.trainer_pt_utils import LengthGroupedSampler

from neurogame.data import DataError, Pair, PairDataset, batching, collate, encode, generate, sorted_batches

WORDS = sorted({w for p in generate(600, 0) for text in (p.premise, p.hypothesis) for w in text.lower()[:-1].split()})


@pytest.fixture(scope="module")
def tokenizer():
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS])}
    return BertTokenizer(vocab=vocabulary, model_max_length=64)


@pytest.fixture(scope="module")
def pairs():
    return generate(60, 1)


def test_rows_are_the_tokenizers(tokenizer, pairs, monkeypatch):
    monkeypatch.setattr(batching, "CHUNK", 7)  # chunks must not show
    found = encode(pairs, tokenizer, max_length=32)
    assert len(found) == 60
    for pair, row in zip(pairs, found, strict=True):
        alone = tokenizer(pair.premise, pair.hypothesis)
        assert {name: row[name] for name in alone} == dict(alone)
        assert row["length"] == len(row["input_ids"])
        assert row["labels"] == {"entailment": 0, "neutral": 1, "contradiction": 2}[pair.label]
    assert found.lengths == [row["length"] for row in found]
    assert found[-1] == found[59]
    assert found.truncated == 0
    with pytest.raises(IndexError):
        found[60]


def test_truncation_is_of_the_longer_sentence_and_counted(tokenizer):
    data = [Pair("dog " * n, "cat", "neutral") for n in (1, 12, 13, 14, 40)]
    found = encode(data, tokenizer, max_length=16)  # 3 special tokens, 1 of the hypothesis, 12 of the premise
    assert found.lengths == [5, 16, 16, 16, 16]
    assert found.truncated == 3
    assert all(tokenizer.convert_tokens_to_ids("cat") in row["input_ids"] for row in found)


def test_truncation_with_a_tokenizer_warning_free(tokenizer, caplog):
    assert encode([Pair("dog " * 500, "cat")], tokenizer, max_length=64).truncated == 1
    assert "longer than" not in caplog.text


@pytest.mark.parametrize("max_length", [0, 4, 65])
def test_impossible_lengths(tokenizer, pairs, max_length):
    with pytest.raises(DataError, match=f"max_length {max_length} .* 5 to 64"):
        encode(pairs, tokenizer, max_length=max_length)


def test_labels_go_by_name(tokenizer, pairs):
    ids = {"CONTRADICTION": 0, "Entailment": 1, "neutral": 2}
    found = encode(pairs, tokenizer, max_length=32, label2id=ids)
    expected = {"contradiction": 0, "entailment": 1, "neutral": 2}
    assert [row["labels"] for row in found] == [expected[pair.label] for pair in pairs]
    with pytest.raises(DataError, match="label 'contradiction' is not among the model's; allowed: entailment, LABEL_1"):
        encode(pairs, tokenizer, max_length=32, label2id={"entailment": 0, "LABEL_1": 1})


def test_two_way_labels_are_left_off(tokenizer):
    hans = [Pair("a dog", "a cat", "non-entailment"), Pair("a dog", "a dog", "entailment")]
    found = encode(hans, tokenizer, max_length=32)
    assert found.labels is None
    assert "labels" not in found[0]
    assert "non-entailment" in found.without_labels
    two_way = encode(hans, tokenizer, max_length=32, label2id={"not_entailment": 0, "entailment": 1})
    assert [row["labels"] for row in two_way] == [0, 1]
    assert two_way.without_labels is None


def test_missing_labels_are_left_off(tokenizer):
    found = encode([Pair("a dog", "a cat"), Pair("a dog", "a dog", "neutral")], tokenizer, max_length=32)
    assert found.labels is None
    assert found.without_labels == "1 of 2 pairs have no label"
    with pytest.raises(DataError, match="no pair"):
        encode(PairDataset(()), tokenizer, max_length=32)


def test_batches_are_padded_to_their_longest_row(tokenizer, pairs):
    found = encode(pairs, tokenizer, max_length=32)
    batch = collate(tokenizer)([found[i] for i in range(5)])
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    longest = max(found.lengths[:5])
    for i in range(5):
        n = found.lengths[i]
        assert batch["input_ids"][i].tolist() == found[i]["input_ids"] + [tokenizer.pad_token_id] * (longest - n)
        assert batch["attention_mask"][i].tolist() == [1] * n + [0] * (longest - n)
    assert batch["labels"].dtype == torch.long


def test_a_loader_with_workers_gets_the_same_batches(tokenizer, pairs):
    found = encode(pairs, tokenizer, max_length=32)
    assert pickle.loads(pickle.dumps(found))[3] == found[3]
    collator = pickle.loads(pickle.dumps(collate(tokenizer)))
    batches = sorted_batches(found.lengths, 16)
    loader = DataLoader(found, batch_sampler=batches, collate_fn=collator)
    for batch, indices in zip(loader, batches, strict=True):
        assert batch["attention_mask"].sum(dim=1).tolist() == [found.lengths[i] for i in indices]


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 9))
def test_sorted_batches_cover_each_index_once_longest_first(lengths, size):
    batches = sorted_batches(lengths, size)
    flat = [i for batch in batches for i in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert flat == sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(batches)


def test_batch_size_is_positive():
    with pytest.raises(DataError, match="batch_size 0"):
        sorted_batches([1, 2], 0)


def test_the_samplers_of_transformers_take_it(tokenizer, pairs):
    found = encode(pairs, tokenizer, max_length=32)
    sampler = LengthGroupedSampler(8, dataset=found, generator=torch.Generator().manual_seed(0))
    assert sampler.lengths == found.lengths
    assert sorted(sampler) == list(range(60))


def test_the_trainer_takes_it(tokenizer, pairs, tmp_path):
    """Grouped by length, with the trainer's own removal of columns; `length` does not reach the model."""
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=3,
    )
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        train_sampling_strategy="group_by_length",
        per_device_train_batch_size=16,
        max_steps=2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        BertForSequenceClassification(config),
        arguments,
        train_dataset=encode(pairs, tokenizer, max_length=32),
        data_collator=collate(tokenizer),
    )
    loss = trainer.train().training_loss
    assert 0 < loss < 10


# found by the fuzzer
@pytest.mark.parametrize("rows", [[], [{"labels": 1}]])
def test_what_is_no_batch_is_refused(rows):
    with pytest.raises(DataError, match="see `encode`"):
        collate(tiny.tokenizer())(rows)
