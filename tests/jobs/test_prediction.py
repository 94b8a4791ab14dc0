"""`predict_file`: every format in and out, row by row in order, malformed rows, and files that are whole or absent."""

import csv
import gzip
import io
import json
import os
import sys
import threading

import pytest
import tiny

from neurogame.data.pairs import DataError
from neurogame.labels import LABELS
from neurogame.modeling.baselines.dam import DamForSequenceClassification
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.nli import NLI, Prediction
from neurogame.prediction import Shard, check, predict_file

PAIRS = [
    ("A tailor mends a coat.", "Someone mends a coat."),
    ("The ferry leaves at noon, and two goats are on it.", "The ferry stays."),
    ('A boy says "hello".', "A boy speaks."),
    ("Rain falls.", "It is dry; nobody is wet."),
    ("Three painters share one ladder in a narrow street.", "A ladder is shared."),
    ("A goat sleeps.", "The tailor sleeps."),
]


@pytest.fixture(scope="module")
def model():
    words = build_tokenizer([text for pair in PAIRS for text in pair], max_length=24)
    return NLI(DamForSequenceClassification.from_words(words, embedding_size=16, hidden_size=16, seed=2), words)


@pytest.fixture(scope="module")
def expected(model):
    return [model.predict(*pair) for pair in PAIRS]


class Stub(NLI):
    """A model whose forward pass is never run; `on_call` sees how many calls there were before."""

    def __init__(self, on_call=lambda calls: None):
        super().__init__(tiny.model(), tiny.tokenizer(), name="stub")
        self.calls, self.on_call = 0, on_call

    def predict(self, pairs, *, batch_size, progress):
        self.on_call(self.calls)
        self.calls += 1
        uniform = dict.fromkeys(LABELS, 1 / 3)
        return [Prediction("neutral", uniform, dict.fromkeys(LABELS, 0.0), "long" in p) for p, _ in pairs]


def write_csv(path, rows, header=("premise", "hypothesis"), delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


def write_jsonl(path, rows):
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def objects(pairs=PAIRS, **more):
    return [{"premise": p, "hypothesis": h, **more} for p, h in pairs]


def stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


# --- in ---------------------------------------------------------------------------------------------------------


def sources(tmp_path, monkeypatch):
    """The same pairs in every format."""
    write_csv(tmp_path / "a.csv", PAIRS)
    write_csv(tmp_path / "semi.csv", PAIRS, delimiter=";")
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\n" + "".join(f"{p}\t{h}\n" for p, h in PAIRS))
    write_jsonl(tmp_path / "a.jsonl", objects())
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    for name in ("a.csv", "semi.csv", "a.tsv", "a.jsonl", "a.csv.gz", "a.tsv.gz", "a.jsonl.gz"):
        yield str(tmp_path / name)
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        stdin(monkeypatch, (tmp_path / name).read_bytes())
        yield "-"


def test_every_format_gives_the_same_lines_in_order(model, expected, tmp_path, monkeypatch, capsys):
    count = 0
    for source in sources(tmp_path, monkeypatch):
        done = predict_file(model, source, as_json=True, batch_size=2, chunk=4)
        out, err = capsys.readouterr()
        assert [(row["premise"], row["hypothesis"]) for row in lines_of(out)] == PAIRS
        for row, said in zip(lines_of(out), expected, strict=True):
            assert row["label"] == said.label
            assert row["probabilities"] == pytest.approx(said.probabilities, abs=1e-5)
            assert row["logits"] == pytest.approx(said.logits, abs=1e-5)
        assert (done.pairs, done.malformed_count, err) == (6, 0, "")
        count += 1
    assert count == 10


def test_columns_of_another_name(model, tmp_path, capsys):
    source = write_csv(tmp_path / "a.csv", PAIRS, ("first", "second"))
    with pytest.raises(DataError, match="no column for premise"):
        predict_file(model, source)
    predict_file(model, source, columns={"premise": "second", "hypothesis": "first"}, as_json=True)
    assert [(row["hypothesis"], row["premise"]) for row in lines_of(capsys.readouterr().out)] == PAIRS


# --- out --------------------------------------------------------------------------------------------------------


def test_text_on_stdout(model, expected, tmp_path, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", [*objects(), {"premise": "Two\tlines\n here", "hypothesis": " x "}])
    predict_file(model, source)
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[:-1] == [
        [said.label, f"{said.probabilities[said.label]:.3f}", *pair] for said, pair in zip(expected, PAIRS, strict=True)
    ]
    assert rows[-1][2:] == ["Two lines here", "x"]  # a row stays one line of four columns


def test_a_file_of_json_lines_is_what_stdout_gets(model, tmp_path, capsys):
    source = write_csv(tmp_path / "a.csv", PAIRS)
    predict_file(model, source, as_json=True)
    out = capsys.readouterr().out
    predict_file(model, source, tmp_path / "out.jsonl")
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out.jsonl").read_text() == out


def test_csv_out(model, expected, tmp_path):
    source = write_csv(tmp_path / "a.csv", PAIRS)
    done = predict_file(model, source, str(tmp_path / "OUT.CSV"))
    with (tmp_path / "OUT.CSV").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["premise", "hypothesis", "label", *(f"p_{name}" for name in LABELS), "truncated"]
    assert [(row["premise"], row["hypothesis"]) for row in rows] == PAIRS
    for row, said in zip(rows, expected, strict=True):
        assert row["label"] == said.label
        assert {name: float(row[f"p_{name}"]) for name in LABELS} == pytest.approx(said.probabilities, abs=2e-6)
        assert row["truncated"] == "false"
    assert done.left_out == ()


def test_the_rows_own_columns_stay(tmp_path, capsys):
    rows = [
        {
            "id": 7,
            "premise": "A goat.",
            "hypothesis": "A tailor.",
            "label": "entailment",
            "logits": "old",
            "who": ["a"],
        },
        {"id": 8, "premise": "A goat.", "hypothesis": "No goat.", "label": "-", "truncated": "old"},
        {"id": 9, "premise": "A goat.", "hypothesis": "Rain.", "label": 2},
        {"id": 10, "premise": "A goat.", "hypothesis": "A ferry.", "label": "neutral", "gold": "contradiction"},
    ]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    predict_file(Stub(), source, as_json=True)
    found = lines_of(capsys.readouterr().out)
    ours = ["premise", "hypothesis", "label", "probabilities", "logits", "truncated"]
    assert (
        [list(row) for row in found]
        == [
            ["id", "who", *ours[:2], "gold", *ours[2:]],
            ["id", *ours],  # no gold label, so none is written
            ["id", *ours[:2], "gold", *ours[2:]],
            ["id", *ours[:2], "gold", *ours[2:]],
        ]
    )
    assert [row["id"] for row in found] == [7, 8, 9, 10]
    assert [row.get("gold") for row in found] == ["entailment", None, 2, "contradiction"]
    assert {row["label"] for row in found} == {"neutral"}  # the model's
    assert found[0]["logits"] == dict.fromkeys(LABELS, 0.0)
    assert found[1]["truncated"] is False

    predict_file(Stub(), source, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0])[:6] == ["id", "logits", "who", "premise", "hypothesis", "gold"]
    assert [row["gold"] for row in table] == ["entailment", "", "2", "contradiction"]
    assert [row["who"] for row in table] == ['["a"]', "", "", ""]


def test_a_column_that_comes_after_the_header_is_named(tmp_path):
    rows = [*objects(PAIRS[:2], id=1), *objects(PAIRS[2:], note="late", label="neutral")]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    done = predict_file(Stub(), source, tmp_path / "out.csv", chunk=2)
    assert done.left_out == ("note", "gold")
    assert "columns not written" in done.summary()
    assert "note, gold" in done.summary()
    assert predict_file(Stub(), source, tmp_path / "out.jsonl", chunk=2).left_out == ()
    with (tmp_path / "out.csv").open(newline="") as file:
        assert {len(row) for row in csv.reader(file)} == {8}


def test_half_of_a_surrogate_pair_in_a_column(tmp_path, capsys):
    """JSON can hold what UTF-8 cannot."""
    source = write_jsonl(tmp_path / "a.jsonl", ['{"premise": "A goat.", "hypothesis": "Rain.", "who": "\\ud83d é"}\n'])
    predict_file(Stub(), source, as_json=True)
    predict_file(Stub(), source, tmp_path / "out.jsonl")
    predict_file(Stub(), source, tmp_path / "out.csv")
    out = capsys.readouterr().out
    assert json.loads(out)["who"] == "\ud83d é"
    assert (tmp_path / "out.jsonl").read_text() == out
    assert "\\ud83d é" in (tmp_path / "out.csv").read_text()


def test_what_was_cut_is_counted(model, tmp_path, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", objects([*PAIRS, ("goat " * 40, "Rain.")]))
    done = predict_file(model, source, as_json=True)
    assert [row["truncated"] for row in lines_of(capsys.readouterr().out)] == [False] * 6 + [True]
    assert (done.pairs, done.truncated) == (7, 1)
    assert done.summary() == "7 pairs labelled, 1 longer than the model reads and cut"


def test_progress_is_told_of_every_pair(model, tmp_path):
    told = []
    predict_file(model, write_csv(tmp_path / "a.csv", PAIRS), batch_size=2, chunk=5, progress=told.append)
    assert told == [2, 2, 1, 1]


# --- malformed rows ---------------------------------------------------------------------------------------------


@pytest.fixture
def spoilt(tmp_path):
    """Six pairs and eight rows that are none."""
    bad = ["{\n", "[1]\n", {"premise": "A goat."}, {"premise": "", "hypothesis": "x"}]
    bad += [{"premise": 3, "hypothesis": "x"}, {"premise": "x", "hypothesis": None}, "nonsense\n", "{}\n"]
    rows = objects()
    return write_jsonl(tmp_path / "spoilt.jsonl", [rows[0], *bad[:4], *rows[1:4], *bad[4:], *rows[4:]])


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_malformed_rows_are_skipped_counted_and_the_first_five_shown(spoilt, capsys, chunk):
    done = predict_file(Stub(), spoilt, as_json=True, chunk=chunk)
    assert [(row["premise"], row["hypothesis"]) for row in lines_of(capsys.readouterr().out)] == PAIRS
    assert (done.pairs, done.malformed_count, len(done.malformed)) == (6, 8, 5)
    first, *shown, more = done.summary().splitlines()
    assert first == "6 pairs labelled, 8 malformed rows skipped"
    assert [line.partition(": ")[0] for line in shown] == [f"{spoilt}:{n}" for n in (2, 3, 4, 5, 9)]
    assert more == "… and 3 more"
    assert json.loads(json.dumps(done.to_dict()))["malformed_count"] == 8


def test_or_end_everything(spoilt, tmp_path):
    with pytest.raises(DataError, match=r"spoilt\.jsonl:2: not valid JSON"):
        predict_file(Stub(), spoilt, tmp_path / "out.jsonl", on_error="raise")
    assert not (tmp_path / "out.jsonl").exists()


def test_one_is_not_several(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", [*objects(PAIRS[:1]), "{\n"])
    done = predict_file(Stub(), source, tmp_path / "out.jsonl")
    assert done.summary().startswith("1 pair labelled, 1 malformed row skipped\n")


def test_nothing_to_label(tmp_path):
    for name, rows in (("a.jsonl", ["{\n", '{"premise": "", "hypothesis": ""}\n']), ("b.jsonl", [])):
        with pytest.raises(DataError, match=r"no pair to label, 2 malformed rows \(the first: |no rows"):
            predict_file(Stub(), write_jsonl(tmp_path / name, rows), tmp_path / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


# --- one chunk at a time ----------------------------------------------------------------------------------------


class Endless(io.RawIOBase):
    """Rows without end, and how many have been asked for."""

    def __init__(self):
        super().__init__()
        self.rows = 0

    def readline(self, size=-1):
        self.rows += 1
        return json.dumps({"premise": f"Row {self.rows}.", "hypothesis": "Rain."}).encode() + b"\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_stream_is_read_only_as_far_as_it_is_written(monkeypatch, as_json):
    class EnoughError(Exception):
        pass

    def at_most_three(calls):
        assert stream.rows <= 8 * (calls + 1) + 1
        assert written.getvalue().count(b"\n") == 8 * calls  # what came before has left the program
        if calls == 3:
            raise EnoughError

    stream, written = Endless(), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stream}))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    with pytest.raises(EnoughError):
        predict_file(Stub(at_most_three), "-", chunk=8, as_json=as_json)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_answered_while_it_is_open(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    answered, in_time = threading.Event(), []

    def write():
        with (tmp_path / "pipe").open("w") as pipe:
            pipe.writelines(json.dumps(row) + "\n" for row in objects(PAIRS[:2]))
            pipe.flush()
            in_time.append(answered.wait(timeout=30))  # never, if the whole pipe were read first
            pipe.writelines(json.dumps(row) + "\n" for row in objects(PAIRS[2:]))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    done = predict_file(Stub(lambda calls: answered.set()), tmp_path / "pipe", chunk=2, as_json=True)
    writer.join(timeout=30)
    assert in_time == [True]
    assert done.pairs == len(PAIRS) == len(capsys.readouterr().out.splitlines())


# --- whole or absent --------------------------------------------------------------------------------------------


def test_what_can_be_refused_is_refused_before_a_model_is_asked(tmp_path):
    source = write_csv(tmp_path / "a.csv", PAIRS)
    (tmp_path / "there.jsonl").write_text("mine")
    (tmp_path / "link.csv").symlink_to(tmp_path / "there.jsonl")
    for output, message in (
        ("there.jsonl", "exists already"),
        ("link.csv", "exists already"),
        ("a.csv", "exists already"),
        ("out.xlsx", "written as .jsonl or .csv or .parquet or .arrow, it has '.xlsx'"),
        ("out", "it has no suffix"),
        ("out.parquet.gz", "text may have .gz"),
        ("nowhere/out.csv", "folder .*nowhere does not exist"),
    ):
        for ask in (check, lambda *paths: predict_file(None, *paths)):
            with pytest.raises(DataError, match=message):
                ask(source, tmp_path / output)
    for bad, message in (("b.csv", "does not exist; there is"), ("a.xlsx", "does not exist"), ("", "is a folder")):
        with pytest.raises(DataError, match=message):
            check(tmp_path / bad, None)
    with pytest.raises(DataError, match="columns maps 'text'"):
        check(source, None, {"text": "premise"})
    assert (tmp_path / "there.jsonl").read_text() == "mine"
    assert check("-", tmp_path / "new.csv") is None


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["out.jsonl", "out.csv"])
def test_a_crash_leaves_nothing_under_the_name(tmp_path, name, error):
    """Complete chunks are kept to be resumed; before the first chunk there is nothing to keep."""
    source = write_csv(tmp_path / "a.csv", PAIRS)
    for fatal, left in ((0, []), (2, [f"{name}.part", f"{name}.part.journal"])):

        def crash(calls, fatal=fatal):
            if calls == fatal:
                assert not (tmp_path / name).exists()  # not there in part either
                raise error

        with pytest.raises(type(error)):
            predict_file(Stub(crash), source, tmp_path / name, chunk=2)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", *left]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    """Nor is the work lost."""
    source, out = write_csv(tmp_path / "a.csv", PAIRS), tmp_path / "out.csv"
    with pytest.raises(DataError, match="exists already"):
        predict_file(Stub(lambda calls: out.write_text("mine")), source, out)
    assert out.read_text() == "mine"
    with pytest.raises(DataError, match=r"exists already.*move it away"):
        predict_file(Stub(), source, out, resume=True)
    out.rename(tmp_path / "mine.csv")
    done = predict_file(Stub(), source, out, resume=True)
    assert (done.pairs, done.resumed) == (6, 6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "mine.csv", "out.csv"]


def test_a_wrong_chunk(tmp_path):
    with pytest.raises(ValueError, match="chunk"):
        predict_file(Stub(), write_csv(tmp_path / "a.csv", PAIRS), chunk=0)


# found by the fuzzer
@pytest.mark.parametrize("part", [(1.5, 2), ("1", "2"), (True, 1)])
def test_parts_are_whole_numbers(part):
    with pytest.raises(TypeError, match="two whole numbers"):
        Shard(*part)
