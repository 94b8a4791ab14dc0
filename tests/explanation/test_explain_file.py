"""`neurogame explain FILE`: JSON lines and pages, rows that fail, runs that are interrupted."""

import json
from html.parser import HTMLParser

import pytest
import tiny
from typer.testing import CliRunner

from neurogame.cli import app
from neurogame.explanation import Explanation, collection, pipeline
from neurogame.explanation.views import index
from neurogame.nli import NLI

runner = CliRunner()
ROWS = [
    {"id": 7, "premise": "the old man sees a dog .", "hypothesis": "a man sees .", "label": "entailment"},
    {"id": 8, "premise": "two dogs sleep .", "hypothesis": "", "label": "neutral"},
    {
        "id": 9,
        "premise": "<script>x</script> {{7*7}} \x1b[31m",
        "hypothesis": "</title><b> \u202eabc",
        "label": "neutral",
    },
    {"id": 10, "premise": "nobody sings .", "hypothesis": "a man sings a song ."},
]


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


@pytest.fixture(scope="module")
def model(tmp_path_factory, nli):
    where = tmp_path_factory.mktemp("models") / "tiny"
    nli.save_pretrained(where)
    return where


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def lines(folder):
    return [json.loads(line) for line in (folder / collection.LINES).read_text(encoding="utf-8").splitlines()]


def run(*arguments, code=0):
    result = runner.invoke(app, ["explain", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.stderr
    return result


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.text = [], [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name == "href"]
        self.ids |= {value for name, value in attrs if name == "id"}

    def handle_data(self, data):
        self.text += data


def test_a_file_becomes_lines_and_pages(nli, source, tmp_path):
    told = []
    done = collection.explain_file(nli, source, tmp_path / "out", progress=told.append, method="decision")
    assert (done.explained, done.failed, told) == (3, 1, [1, 1, 1, 1])
    assert "line 2: empty hypothesis" in done.first_failure
    found = lines(tmp_path / "out")
    assert [row["row"] for row in found] == [1, 2, 3, 4]
    assert [row.get("gold") for row in found] == ["entailment", None, "neutral", None]
    assert found[0]["columns"] == {"id": 7}
    expected = nli.explain(ROWS[0]["premise"], ROWS[0]["hypothesis"], method="decision")
    assert Explanation.from_dict(found[0]).scores == expected.scores
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["explanations.jsonl", "index.html", "pairs"]
    assert sorted(path.name for path in (tmp_path / "out" / "pairs").iterdir()) == ["1.html", "3.html", "4.html"]


def test_every_link_leads_somewhere_and_no_text_is_markup(nli, source, tmp_path, monkeypatch):
    monkeypatch.setattr(index, "PER_PAGE", 2)
    collection.explain_file(nli, source, tmp_path / "out")
    pages = sorted((tmp_path / "out").rglob("*.html"))
    assert {page.name for page in pages} == {"index.html", "index-2.html", "1.html", "3.html", "4.html"}
    seen = {page.resolve(): Links(page.read_text(encoding="utf-8")) for page in pages}
    for page, found in seen.items():
        assert found.links
        for link in found.links:
            file, _, place = link.partition("#")
            assert place in seen[(page.parent / file).resolve()].ids or not place
        assert not {"script", "img"} & set(found.tags)
        assert "\x1b" not in found.text
        assert "\u202e" not in found.text
    assert "<script>x</script>" in seen[(tmp_path / "out" / "index-2.html").resolve()].text
    assert "empty hypothesis" in seen[(tmp_path / "out" / "index.html").resolve()].text


def test_an_interrupted_run_goes_on(nli, source, tmp_path, monkeypatch):
    whole, folder = tmp_path / "whole", tmp_path / "out"
    collection.explain_file(nli, source, whole)
    calls = []

    def stop(self, *texts, **question):
        calls.append(texts)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return explain(self, *texts, **question)

    explain = pipeline.explain
    monkeypatch.setattr(pipeline, "explain", stop)
    with pytest.raises(KeyboardInterrupt):
        collection.explain_file(nli, source, folder)
    assert not (folder / collection.LINES).exists()
    part = folder / f"{collection.LINES}.part"
    with part.open("a") as file:  # as a run that was killed while writing leaves it
        file.write('{"row": 3, "prem')
    with pytest.raises(FileExistsError, match="--resume"):
        collection.explain_file(nli, source, folder)
    with pytest.raises(ValueError, match="another level"):
        collection.explain_file(nli, source, folder, resume=True, level="token")
    done = collection.explain_file(nli, source, folder, resume=True)
    assert (done.explained, done.failed, done.resumed) == (3, 1, 2)
    assert len(calls) == 4  # one before the stop, the one that was stopped, two after it
    assert [row.get("scores") for row in lines(folder)] == [row.get("scores") for row in lines(whole)]
    with pytest.raises(FileExistsError, match="already holds"):
        collection.explain_file(nli, source, folder, resume=True)
    with pytest.raises(FileNotFoundError, match="nothing to resume"):
        collection.explain_file(nli, source, tmp_path / "new", resume=True)


def test_other_columns_are_another_run(nli, tmp_path, monkeypatch):
    source, folder = tmp_path / "pairs.csv", tmp_path / "out"
    source.write_text("premise,hypothesis,other\na dog .,a man .,the girl .\na cat .,a man .,the boat .\n")
    explain = pipeline.explain

    def stop(self, premise, *texts, **question):
        if "cat" in premise:
            raise KeyboardInterrupt
        return explain(self, premise, *texts, **question)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "explain", stop)
        with pytest.raises(KeyboardInterrupt):
            collection.explain_file(nli, source, folder, columns={"hypothesis": "other"})
    for columns in (None, {"premise": "other"}):
        with pytest.raises(ValueError, match="another columns"):
            collection.explain_file(nli, source, folder, columns=columns, resume=True)
    assert collection.explain_file(nli, source, folder, columns={"hypothesis": "other"}, resume=True).explained == 2
    assert lines(folder)[0]["hypothesis"] == "the girl ."


@pytest.fixture
def swallowing(tmp_path):
    """A quote in the third row that is never closed."""
    path = tmp_path / "pairs.csv"
    path.write_text('premise,hypothesis\na dog .,a man .\na cat .,a man .\n"a girl .,a man .\na book .,a man .\n')
    return path


def test_a_source_that_cannot_be_read_to_its_end(model, swallowing, tmp_path):
    """One malformed row it was, and exit 0."""
    folder = tmp_path / "out"
    for _ in range(2):
        result = run(swallowing, "-m", model, "-o", folder, *["--resume"] * folder.exists(), code=1)
        assert "pairs.csv:4: " in result.stderr
        assert result.stderr.count("\n") == 1
    assert "pairs.csv:4: " in run(swallowing, "-m", model, "--json", code=1).stderr
    assert not (folder / collection.LINES).exists()
    whole = swallowing.read_text().replace('"', "")
    swallowing.write_text(whole.replace("a dog", "two dogs"))
    assert "its first 2 rows differ" in run(swallowing, "-m", model, "-o", folder, "--resume", code=1).stderr
    swallowing.write_text(whole)
    run(swallowing, "-m", model, "-o", folder, "--resume")
    assert [row["premise"] for row in lines(folder)] == ["a dog .", "a cat .", "a girl .", "a book ."]
    assert sorted(path.name for path in folder.iterdir()) == ["explanations.jsonl", "index.html", "pairs"]


@pytest.mark.attack(point=10)
def test_a_source_that_has_changed_since_is_refused(nli, swallowing, tmp_path, monkeypatch):
    swallowing.write_text(swallowing.read_text().replace('"', ""))
    folder, explain = tmp_path / "out", pipeline.explain

    def stop(self, premise, *texts, **question):
        if "girl" in premise:
            raise KeyboardInterrupt
        return explain(self, premise, *texts, **question)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "explain", stop)
        with pytest.raises(KeyboardInterrupt):
            collection.explain_file(nli, swallowing, folder)
    swallowing.write_text(swallowing.read_text().replace("a book", "a song"))  # of a row that was not done yet
    with pytest.raises(ValueError, match="another source: the file has changed since"):
        collection.explain_file(nli, swallowing, folder, resume=True)


def test_links_are_not_followed(nli, source, tmp_path):
    folder, precious = tmp_path / "out", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("do not touch\n")
    for suffix in (".part", ".part.journal"):
        link = folder / f"{collection.LINES}{suffix}"
        link.symlink_to(precious)
        for resume in (True, False):
            with pytest.raises((ValueError, OSError)):
                collection.explain_file(nli, source, folder, resume=resume)
        link.unlink()
    assert precious.read_text() == "do not touch\n"


def test_lines_without_their_question_cannot_be_resumed(nli, source, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / f"{collection.LINES}.part").write_text('{"row": 1, "error": "x"}\n')
    for resume in (True, False):
        with pytest.raises(ValueError, match=r"explanations\.jsonl\.part has no journal beside it"):
            collection.explain_file(nli, source, folder, resume=resume)


def test_pages_of_pairs_lead_to_their_neighbours(nli, source, tmp_path):
    collection.explain_file(nli, source, tmp_path / "out")
    found = {n: Links((tmp_path / "out" / "pairs" / f"{n}.html").read_text(encoding="utf-8")).links for n in (1, 3, 4)}
    assert found == {  # row 2 failed, and has no page
        1: ["../index.html#row-1", "3.html"],
        3: ["../index.html#row-3", "1.html", "4.html"],
        4: ["../index.html#row-4", "3.html"],
    }


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({}, ("blue, solid: for the label explained", "orange, dashed: against it")),
        ({"contrast": "neutral", "target": "entailment"}, ("for the label explained", "against it, for neutral")),
        ({"method": "game"}, ("blue, solid: adds", "orange, dashed: takes away")),
    ],
)
def test_the_index_says_what_the_colours_mean(nli, source, tmp_path, question, said):
    collection.explain_file(nli, source, tmp_path / "out", limit=1, **question)
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert all(line in Links(text).text for line in said)
    row = lines(tmp_path / "out")[0]["prediction"]
    shown = f"<bdi>{row['label']}</bdi> {row['probabilities'][row['label']]:.3f}"
    assert f'<a href="pairs/1.html">{shown}</a>' in text


def test_labels_may_have_any_name(source, tmp_path):
    nli = NLI(tiny.model(), tiny.tokenizer(), name="tiny", label_names=["right", "gold", "failed"])
    collection.explain_file(nli, source, tmp_path / "out")
    label = lines(tmp_path / "out")[0]["prediction"]["label"]
    counted = [row["prediction"]["label"] for row in lines(tmp_path / "out") if "error" not in row].count(label)
    text = Links((tmp_path / "out" / "index.html").read_text(encoding="utf-8")).text
    assert f"{label} {counted}" in text
    assert "0 of 2 as labelled in the file · 1 failed" in text


def test_a_row_that_fails_does_not_end_the_run(nli, source, tmp_path, monkeypatch):
    explain = pipeline.explain

    def sometimes(self, premise, *texts, **question):
        if premise == ROWS[0]["premise"]:
            raise RuntimeError("out of\n memory")
        return explain(self, premise, *texts, **question)

    monkeypatch.setattr(pipeline, "explain", sometimes)
    done = collection.explain_file(nli, source, tmp_path / "out")
    assert (done.explained, done.failed) == (2, 2)
    first = lines(tmp_path / "out")[0]
    texts = {name: ROWS[0][name] for name in ("premise", "hypothesis")}
    assert first == {**texts, "row": 1, "gold": "entailment", "columns": {"id": 7}, "error": "out of memory"}


def test_a_question_that_no_row_can_answer_leaves_nothing(nli, source, tmp_path):
    with pytest.raises(ValueError, match=r"none of 4 rows .* row 1: target = 'maybe'"):
        collection.explain_file(nli, source, tmp_path / "out", target="maybe")
    assert not list((tmp_path / "out").iterdir())


def test_command(model, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(source, "-m", model, "--limit", "2")
    assert result.stdout == ""
    assert result.stderr.splitlines()[0].startswith("1 pair explained, 1 failed")
    assert (tmp_path / "pairs-explained" / "index.html").exists()
    counted = run(source, "-m", model, "-o", tmp_path / "other", "--json", "--method", "game", "--level", "token")
    assert json.loads(counted.stdout)["explained"] == 3
    assert {row["method"] for row in lines(tmp_path / "other") if "method" in row} == {"game"}
    streamed = run(source, "-m", model, "--json", "--limit", "1")
    assert Explanation.from_dict(json.loads(streamed.stdout)).premise == ROWS[0]["premise"]
    piped = runner.invoke(app, ["explain", "-", "-m", str(model), "--json"], input=source.read_text(encoding="utf-8"))
    assert len(piped.stdout.splitlines()) == 4


def test_mistakes(model, source, tmp_path):
    (tmp_path / "file").write_text("")
    for arguments, code, said in [
        ((tmp_path / "absent.csv",), 1, "absent.csv does not exist"),
        ((source, "-o", tmp_path / "file"), 1, "is a file"),
        ((source, "-o", tmp_path / "out", "--target", "maybe"), 1, "none of 4 rows"),
        ((source, "-o", tmp_path / "out", "--resume"), 1, "nothing to resume"),
        ((source, "--column", "premise=nothing", "-o", tmp_path / "out"), 1, "nothing"),
        ((source, "--html", tmp_path / "x.html"), 2, "--html"),
        (("a dog .", "a cat .", "--limit", "3"), 2, "FILE"),
        (("a premise alone",), 2, "HYPOTHESIS"),
        (("x" * 100_000,), 2, "HYPOTHESIS"),
    ]:
        result = run(*arguments, "-m", model, code=code)
        assert said in result.stderr
        assert result.stdout == ""
        if code == 1:
            assert result.stderr.count("\n") == 1
