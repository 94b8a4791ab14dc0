"""Single texts from files and over the wire: `neurogame ground`, `explain FILE --explainer`, `serve --explainer`."""

import gzip
import json
import random

import pytest
import tiny
import torch
from fastapi.testclient import TestClient
from transformers import BertForSequenceClassification
from typer.testing import CliRunner

import neurogame
from neurogame import Explanation
from neurogame.cli import app
from neurogame.data.pairs import DataError, Malformed
from neurogame.data.texts import Text, is_single, iterate_texts
from neurogame.explanation import collection
from neurogame.serving.app import create_app

WORDS = [w for w in tiny.WORDS if w != "."]


def texts(count, seed=0):
    draws = random.Random(seed)
    return [" ".join(draws.choices(WORDS, k=draws.randint(3, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a classifier of single texts."""
    torch.manual_seed(0)
    config = tiny.encoder_config("bert", initializer_range=0.2, num_labels=2)
    config.id2label, config.label2id = {0: "bad", 1: "good"}, {"bad": 0, "good": 1}
    place = tmp_path_factory.mktemp("model")
    BertForSequenceClassification(config).save_pretrained(place)
    tiny.tokenizer().save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def explainer(model, tmp_path_factory):
    """What the command writes for it."""
    place = tmp_path_factory.mktemp("data")
    (place / "texts.txt").write_text("\n".join(texts(60)) + "\n", encoding="utf-8")
    options = ["--steps", "3", "--coalitions", "2", "-o", str(place / "explainer")]
    done = run("ground", str(model), "--data", str(place / "texts.txt"), *options)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("R² on held-out coalitions of held-out texts: ")
    assert not list(place.glob("*.part*"))
    return place / "explainer"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def written(place, name, lines):
    (place / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place / name


# --- files of texts -------------------------------------------------------------------------------------------------


def test_texts_of_every_kind_of_file(tmp_path):
    listed = ["a dog", "two cats , a man"]
    files = [
        written(tmp_path, "plain.txt", ["a dog", "", "two cats , a man"]),
        written(tmp_path, "table.csv", ["label,Review", "1,a dog", '0,"two cats , a man"']),
        written(tmp_path, "table.tsv", ["content\tid", "a dog\t1", "two cats , a man\t2"]),
        written(tmp_path, "lines.jsonl", [json.dumps({"text": text, "n": 1}) for text in listed]),
    ]
    (tmp_path / "plain.txt.gz").write_bytes(gzip.compress(files[0].read_bytes()))
    for file in (*files, tmp_path / "plain.txt.gz"):
        assert [row.text for row in iterate_texts(file)] == listed, file
        assert is_single(file)
    assert next(iterate_texts(files[3])).extras == {"n": 1}
    named = written(tmp_path, "own.csv", ["body,premise", "a dog,x"])
    assert next(iterate_texts(named, column="body")) == Text("a dog", {"premise": "x"})
    assert is_single(named, {"text": "body"})


def test_pairs_are_no_single_texts(tmp_path):
    assert not is_single(written(tmp_path, "a.csv", ["premise,hypothesis", "a,b"]))
    assert not is_single(written(tmp_path, "b.csv", ["text,text_pair", "a,b"]))
    assert not is_single(written(tmp_path, "c.txt", ["sentence1\tsentence2", "a\tb"]))
    assert not is_single(written(tmp_path, "d.csv", ["text,other", "a,b"]), {"premise": "text", "hypothesis": "other"})
    assert not is_single("-")
    assert not is_single(tmp_path / "nowhere.csv")


def test_rows_that_are_no_texts(tmp_path):
    file = written(tmp_path, "a.jsonl", ['{"text": "a dog"}', '{"text": 3}', '{"text": " "}'])
    _, second, third = iterate_texts(file, on_error="skip")
    assert isinstance(second, Malformed)
    assert (second.reason, third.reason) == ("text is int, not text", "empty text")
    with pytest.raises(DataError, match="text is int, not text"):
        list(iterate_texts(file))
    with pytest.raises(DataError, match=r"no column for text; columns: 'body'; needed: text or sentence or"):
        list(iterate_texts(written(tmp_path, "b.csv", ["body", "a"])))
    with pytest.raises(DataError, match="no rows"):
        list(iterate_texts(written(tmp_path, "c.txt", [""])))


# --- the command line -----------------------------------------------------------------------------------------------


def test_the_explainer_of_the_command_is_that_of_the_library(model, explainer):
    papers = json.loads((explainer / "explainer.json").read_text())
    assert (papers["parts"], papers["output"], papers["level"], papers["removal"]) == (1, "softmax", "word", "delete")
    nli = neurogame.load(model, explainer=explainer)
    assert nli.explain("a dog sleeps").text == "a dog sleeps"


def test_an_interrupted_command_is_resumed_only_if_asked(model, tmp_path):
    data = written(tmp_path, "texts.txt", texts(20))
    options = ["--data", data, "--steps", "2", "-o", tmp_path / "explainer"]
    done = run("ground", model, *options, "--resume")
    assert done.exit_code == 1
    assert "there is nothing to resume" in done.stderr
    (tmp_path / "explainer.passes.part.journal").write_text("")
    done = run("ground", model, *options)
    assert done.exit_code == 1
    assert "holds an interrupted run; --resume continues it" in done.stderr


def test_one_text_is_explained_by_the_command(model, explainer):
    done = run("explain", "the old man sees a dog", "--model", model, "--explainer", explainer, "--json")
    assert done.exit_code == 0, done.output
    found = Explanation.from_dict(json.loads(done.stdout))
    assert found.words == ("the", "old", "man", "sees", "a", "dog")
    assert found.text == "the old man sees a dog"


def test_a_file_of_texts_is_explained(model, explainer, tmp_path):
    data = written(tmp_path, "reviews.csv", ["id,review", "1,a dog sleeps", "2,two cats run", "3,"])
    done = run("explain", data, "--model", model, "--explainer", explainer, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "2 texts explained, 1 failed" in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "explanations.jsonl").read_text().splitlines()]
    assert [line.get("text") for line in lines] == ["a dog sleeps", "two cats run", None]
    assert lines[0]["columns"] == {"id": "1"}
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8").partition("</style>")[2]
    assert "premise" not in page
    streamed = run("explain", data, "--model", model, "--explainer", explainer, "--json")
    assert [json.loads(line).get("text") for line in streamed.stdout.splitlines()] == [
        "a dog sleeps",
        "two cats run",
        None,
    ]


def test_a_table_of_texts(model, explainer, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    nli = neurogame.load(model, explainer=explainer)
    data = written(tmp_path, "texts.txt", ["a dog sleeps", "two cats run"])
    collection.explain_file(nli, data, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["text"] for row in found] == ["a dog sleeps", "two cats run"]
    assert "premise" not in found[0]


def test_a_column_that_single_texts_do_not_have_is_refused(model, explainer, tmp_path):
    data = written(tmp_path, "texts.csv", ["body", "a dog sleeps"])
    arguments = ("explain", data, "--model", model, "--explainer", explainer, "--json")
    assert json.loads(run(*arguments, "--column", "text=body").stdout)["text"] == "a dog sleeps"
    done = run(*arguments, "--column", "premise=body")
    assert done.exit_code == 1
    assert "the explainer is for single texts; allowed: text" in done.stderr


# --- over the wire --------------------------------------------------------------------------------------------------


def test_the_api_takes_a_text(model, explainer):
    nli = neurogame.load(model, explainer=explainer)
    with TestClient(create_app(nli), base_url="http://127.0.0.1") as client:
        found = client.post("/explain", json={"text": "a dog sleeps", "target": "good"})
        assert found.status_code == 200, found.text
        answer = found.json()
        assert answer["text"] == "a dog sleeps"
        assert "premise" not in answer
        assert answer["scores"] == pytest.approx(nli.explain("a dog sleeps", target="good").scores)
        page = client.post("/explain.html", json={"text": "a dog sleeps"})
        assert "hypothesis" not in page.text.partition("</style>")[2]
        for body, status, message in (
            ({"text": 3}, 422, "text: Input should be a valid string, got 3"),
            ({"text": "a", "premise": "b"}, 422, "premise: Extra inputs are not permitted, got 'b'"),
            ({"premise": "b"}, 422, "hypothesis: Field required"),
            ({"premise": "a dog", "hypothesis": "a cat"}, 400, "was fitted on single texts, got a pair"),
            ({"text": "a " * 700}, 413, "the text has 700 words; at most 600 are explained"),
            ({"text": " "}, 400, "text is empty: there is no word to explain"),
        ):
            refused = client.post("/explain", json=body)
            assert refused.status_code == status, (body, refused.text)
            assert message in refused.json()["error"]
