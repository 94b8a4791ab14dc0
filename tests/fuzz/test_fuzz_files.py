"""Files of any content: pairs, word vectors, folders of models, and the pages that are drawn of what was in them."""

import json
import shutil

import pytest
import targets
import tiny
from hypothesis import example, given
from hypothesis import strategies as st
from kinds import system
from support import HOSTILE, changed, fuzz, scraps, spots, texts, tried, unicode, values

import neurogame
from neurogame import data, labels
from neurogame._common.printing import cut, printable
from neurogame.data.pairs import DataError
from neurogame.data.rationales import parse
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.modeling.baselines.word_vectors import read_vectors

lines = st.lists(
    st.sampled_from([*targets.SEEDS, *(word.encode() for word in targets.WORDS), b"\n", b"\t", b",", b'"', b"{", b"}"])
    | st.binary(max_size=12)
    | texts.map(lambda text: text.encode(errors="surrogatepass")),
    max_size=12,
).map(b"".join)


@given(st.integers(0, 255), lines)
@example(0, b"")
@fuzz(4)
def test_a_file_of_any_bytes(first, content):
    with tried("data.iterate"):
        targets.readers(bytes([first]) + content)


@given(st.binary(max_size=400) | lines)
@fuzz(2)
def test_a_page_of_any_text(content):
    with tried("explanation.page"):
        targets.html(content)


@given(st.lists(st.tuples(st.integers(0, 255), st.lists(st.sampled_from(HOSTILE), max_size=4)), min_size=2, max_size=5))
@fuzz(2)
def test_a_page_of_hostile_text(parts):
    with tried("explanation.page"):
        pieces = [" ".join(words).encode(errors="replace")[:47] for _, words in parts]
        targets.html(bytes([parts[0][0]]) + b"".join(bytes([len(piece)]) + piece for piece in pieces))


@given(unicode | st.sampled_from(["snli/dev", "toy/dev", "mnli", "hans", "-x", "a/b/c", ".csv", "nothing.csv"]))
@fuzz()
def test_a_data_set_of_any_name(tmp_path_factory, name):
    root = tmp_path_factory.getbasetemp()
    with tried("data.load", (DataError, OSError, ValueError)):
        found = data.load(name, root=root, limit=3)
        assert 0 < len(found) <= 3


@given(scraps | st.sampled_from(["e", "Neutral ", "not_entailment", "-1", "0", "7"]), st.none() | st.lists(unicode))
@fuzz(3)
def test_any_label(label, names):
    with tried("labels.canonical"):
        found = labels.canonical(label, names)
        assert found is None or found in (*labels.LABELS, labels.NON_ENTAILMENT)


@given(texts, texts | st.none())
@fuzz(3)
def test_any_rationale(marked, sentence):
    with tried("data.rationales"):
        found = parse(marked, sentence)
        assert found.words in (tuple(marked.replace("*", "").split()), tuple((sentence or "").split()))
        assert len(found.marked) == len(found.words)


@given(unicode, st.integers(1, 80))
@fuzz(3)
def test_anything_can_be_printed(text, most):
    with tried("printing"):
        shown = printable(text)
        shown.encode()
        assert shown.isprintable() or not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
        assert len(shown.splitlines()) <= 1
        assert len(cut(text, most)) <= most


@given(st.lists(texts, max_size=4), st.integers(-1, 3), st.booleans())
@fuzz()
def test_a_vocabulary_of_any_text(sentences, least, lower):
    with tried("word_tokenizer.build_tokenizer"):
        made = build_tokenizer(sentences, min_count=least, lowercase=lower)
        for sentence in sentences:
            assert all(0 <= i < len(made) for i in made(sentence, sentence)["input_ids"])


@given(
    st.sampled_from(["x.txt", "x.vec", "x.npz", "x.npy", "x.txt.gz"]),
    lines
    | st.lists(st.tuples(unicode, st.lists(st.floats(width=32), max_size=3))).map(
        lambda rows: "\n".join(" ".join([word, *map(str, row)]) for word, row in rows).encode(errors="replace")
    ),
    st.none() | st.integers(-1, 4),
)
@fuzz(2)
def test_word_vectors_of_any_bytes(tmp_path_factory, name, content, dim):
    place = tmp_path_factory.mktemp("vectors")
    (place / name).write_bytes(content)
    with tried("word_vectors.read_vectors"):
        words, vectors = read_vectors(place / name, dim=dim)
        assert len(words) == len(set(words)) == len(vectors)
        assert vectors.isfinite().all()
    shutil.rmtree(place)


# --- folders of models --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzzed")
    for kind in ("mean", "dam"):
        system(kind).save_pretrained(place / kind)
    return place


@given(st.data())
@fuzz(1.5)
def test_a_model_with_one_thing_changed(folders, tmp_path_factory, data):
    """It loads and answers, or is refused in one line; a value of its JSON files, or a byte of its weights."""
    kind = data.draw(st.sampled_from(["mean", "dam"]))
    name = data.draw(st.sampled_from(["config.json", "config.json", "tokenizer.json", "tokenizer_config.json", "w"]))
    folder = tmp_path_factory.mktemp("changed") / "model"
    shutil.copytree(folders / kind, folder)
    if name == "w":
        path = folder / "model.safetensors"
        raw = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, min(len(raw), 4000) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        path.write_bytes(raw)
    else:
        found = json.loads((folder / name).read_text())
        places = [path for path in spots(found) if path]
        found = changed(found, data.draw(st.sampled_from(places)), data.draw(values))
        (folder / name).write_text(json.dumps(found))
    with tried("load of a changed model"):
        nli = neurogame.load(folder)
        said = nli.predict([tiny.PAIRS[0], tiny.PAIRS[1]])
        assert all(abs(sum(one.probabilities.values()) - 1.0) < 1e-5 for one in said)
    shutil.rmtree(folder)
