"""Parquet and Arrow, in and out: the rows of text files, in their order, with types and papers."""

import datetime
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
import tiny
from pyarrow import feather, parquet
from test_prediction import PAIRS, Stub, lines_of, model, write_csv, write_jsonl  # noqa: F401  model: a fixture
from typer.testing import CliRunner

import neurogame
from neurogame.cli import app
from neurogame.data import DataError, iterate, read
from neurogame.explanation import Explanation, collection
from neurogame.jobs import tables
from neurogame.jobs.source import fingerprint
from neurogame.nli import NLI
from neurogame.prediction import Shard, predict_file

SUFFIXES = [".parquet", ".arrow"]
ROWS = [{"id": i, "premise": p, "hypothesis": h} for i, (p, h) in enumerate(PAIRS * 4)]


def write(path, table, **options):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, **options)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
    return path


def opened(path):
    return parquet.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()


@pytest.fixture(params=SUFFIXES)
def suffix(request):
    return request.param


def test_rows_are_those_of_json_lines(tmp_path, suffix):
    rows = [{**row, "label": i % 3, "tags": ["a", None]} for i, row in enumerate(ROWS)]
    source = write(
        tmp_path / f"x{suffix}", pa.Table.from_pylist(rows), **{"row_group_size": 5} if "q" in suffix else {}
    )
    names = ["entailment", "neutral", "contradiction"]
    expected = read(write_jsonl(tmp_path / "x.jsonl", rows), label_names=names)
    assert list(read(source, label_names=names)) == list(expected)


def test_an_arrow_stream_and_categories(tmp_path):
    table = pa.table({"text": pa.array(["a dog ."] * 3).dictionary_encode(), "text_pair": ["x", "", None]})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    found = list(iterate(tmp_path / "x.arrow", require_label=False, on_error="skip"))
    assert found[0].premise == "a dog ."
    assert [(row.line, row.reason) for row in found[1:]] == [(2, "empty hypothesis"), (3, "hypothesis is null")]


def test_a_feather_file(model, tmp_path):  # noqa: F811
    table = pa.Table.from_pylist([{**row, "label": "neutral"} for row in ROWS])
    feather.write_feather(table, tmp_path / "x.feather", compression="zstd")
    source = write(tmp_path / "x.arrow", table)
    assert list(read(tmp_path / "x.feather")) == list(read(source))
    for name in ("x.feather", "x.arrow"):
        predict_file(model, tmp_path / name, tmp_path / f"{name}.jsonl")
    assert (tmp_path / "x.feather.jsonl").read_bytes() == (tmp_path / "x.arrow.jsonl").read_bytes()
    with pytest.raises(DataError, match="predictions are written as"):
        predict_file(model, source, tmp_path / "out.feather")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1\0\0", b"nonsense" * 100])
def test_what_is_no_table_is_named(tmp_path, suffix, content):
    (tmp_path / f"x{suffix}").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.(parquet|arrow) is no (Parquet|Arrow) file|no rows"):
        read(tmp_path / f"x{suffix}")


def test_a_damaged_table_ends_where_it_cannot_be_read(tmp_path):
    source = write(tmp_path / "x.parquet", pa.Table.from_pylist(ROWS), row_group_size=8, compression="gzip")
    raw = bytearray(source.read_bytes())
    start = parquet.ParquetFile(source).metadata.row_group(1).column(0).dictionary_page_offset
    raw[start : start + 400] = b"\xff" * 400
    source.write_bytes(raw)
    *found, last = iterate(source, require_label=False, on_error="skip")
    assert last.is_end
    assert len(found) < len(ROWS)
    with pytest.raises(DataError, match="truncated or damaged"):
        predict_file(Stub(), source, tmp_path / "out.jsonl", chunk=4)


def test_columns_that_occur_twice(tmp_path, suffix):
    table = pa.Table.from_arrays([pa.array(["x"])] * 4, names=["premise", "hypothesis", "id", "id"])
    with pytest.raises(DataError, match="'id' occurs twice"):
        read(write(tmp_path / f"x{suffix}", table), require_label=False)


# --- predictions ------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_json_lines(model, tmp_path, suffix):  # noqa: F811
    source = write_jsonl(tmp_path / "a.jsonl", [{**row, "label": "neutral"} for row in ROWS])
    predict_file(model, source, tmp_path / "out.jsonl", chunk=5)
    done = predict_file(model, source, tmp_path / f"out{suffix}", chunk=5)
    found, expected = opened(tmp_path / f"out{suffix}"), lines_of((tmp_path / "out.jsonl").read_text())
    ours = ["premise", "hypothesis", "gold", "label", *(f"p_{name}" for name in model.labels), "truncated"]
    assert found.column_names == ["id", *ours]
    for row, line in zip(found.to_pylist(), expected, strict=True):
        assert row["id"] == str(line["id"])  # of a text file a column may hold anything, and is text
        assert {name: row[name] for name in ("premise", "hypothesis", "gold", "label", "truncated")} == {
            name: line[name] for name in ("premise", "hypothesis", "gold", "label", "truncated")
        }
        assert {name: row[f"p_{name}"] for name in model.labels} == line["probabilities"]
    assert done.pairs == len(ROWS)
    papers = tables.metadata(tmp_path / f"out{suffix}")
    assert papers.pop("rows")
    assert papers == {"version": neurogame.__version__, "model": model.name, "digest": fingerprint(model)}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.jsonl", "out.jsonl", f"out{suffix}"])


def test_columns_keep_their_types(tmp_path, suffix):
    now, day = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), datetime.date(2026, 1, 2)
    rows = [{"premise": "A goat.", "hypothesis": "Rain.", "n": i, "x": x, "at": now, "day": day, "raw": b"\xff",
             "cost": Decimal("1.50"), "tags": [1, None], "who": {"name": "a", "when": day}}
            for i, x in enumerate([0.5, math.nan, math.inf])]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    source = write(tmp_path / f"in{suffix}", table)
    predict_file(Stub(), source, tmp_path / f"out{suffix}", chunk=2)
    found = opened(tmp_path / f"out{suffix}")
    for name in ("n", "x", "at", "day", "raw", "cost", "tags", "who"):
        assert found.schema.field(name).type == table.schema.field(name).type
        assert str(found[name].to_pylist()) == str(table[name].to_pylist())
    predict_file(Stub(), source, tmp_path / "out.jsonl")
    predict_file(Stub(), source, tmp_path / "out.csv")
    first, second, third = lines_of((tmp_path / "out.jsonl").read_text())
    plain = {"at": "2026-01-02T03:04:05+00:00", "day": "2026-01-02", "raw": "ff", "cost": "1.50", "tags": [1, None]}
    plain |= {"n": 0, "x": 0.5, "who": {"name": "a", "when": "2026-01-02"}}
    assert {name: first[name] for name in plain} == plain
    assert [second["x"], third["x"]] == [None, None]  # JSON has no other
    assert "NaN" not in (tmp_path / "out.jsonl").read_text()


class Dying(Stub):
    def predict(self, pairs, **options):
        if self.calls == 2:
            raise KeyboardInterrupt
        return super().predict(pairs, **options)


@pytest.mark.parametrize("count", [1, 3])
def test_interrupted_and_dealt_out(tmp_path, suffix, count):
    """Resumed or joined it has the bytes of one undisturbed run."""
    source, out = write_jsonl(tmp_path / "a.jsonl", ROWS), tmp_path / f"out{suffix}"
    predict_file(Stub(), source, tmp_path / f"whole{suffix}", chunk=2)
    for number in range(count, 0, -1):
        shard = Shard(number, count)
        with pytest.raises(KeyboardInterrupt):
            predict_file(Dying(), source, out, chunk=2, shard=shard)
        done = predict_file(Stub(), source, out, chunk=2, shard=shard, resume=True)
        assert done.resumed == 4
    assert out.read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()
    assert predict_file(Stub(), source, out, chunk=2, resume=True).already
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.jsonl", out.name, f"whole{suffix}"])


def test_a_file_of_another_is_not_taken_for_the_result(tmp_path, suffix):
    """One that appears under the name of the result while a part is complete; parts are not deleted for it."""
    source, out = write_jsonl(tmp_path / "a.jsonl", ROWS), tmp_path / f"out{suffix}"
    predict_file(Stub(), source, out, chunk=2, shard=Shard(1, 2))
    write(out, pa.table({"x": [1]}))
    before = out.read_bytes()
    with pytest.raises(DataError, match="exists already"):
        predict_file(Stub(), source, out, chunk=2, shard=Shard(2, 2))
    assert out.read_bytes() == before
    assert len(list(tmp_path.glob("*.part"))) >= 1


def test_on_the_command_line(tmp_path, suffix):
    NLI(tiny.model(), tiny.tokenizer(), name="tiny").save_pretrained(tmp_path / "tiny")
    source = write(tmp_path / f"in{suffix}", pa.Table.from_pylist(ROWS[:3]))
    result = CliRunner().invoke(
        app, ["predict", str(source), "-m", str(tmp_path / "tiny"), "-o", str(tmp_path / "o.parquet")]
    )
    assert (result.exit_code, result.stderr) == (0, "3 pairs labelled\n")
    assert opened(tmp_path / "o.parquet")["id"].to_pylist() == [0, 1, 2]
    command = ["explain", str(source), "-m", str(tmp_path / "tiny"), "-o", str(tmp_path / f"why{suffix}"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["explained"] == 3
    assert "index.html" not in result.stderr


# --- explanations -----------------------------------------------------------------------------------------------


def test_explanations_as_a_table(tmp_path, suffix):
    nli = NLI(tiny.model(), tiny.tokenizer(), name="tiny")
    rows = [{"id": i, "premise": p, "hypothesis": h} for i, (p, h) in enumerate(tiny.PAIRS)]
    rows[1]["hypothesis"] = ""
    source, out = write(tmp_path / f"in{suffix}", pa.Table.from_pylist(rows)), tmp_path / f"out{suffix}"
    done = collection.explain_file(nli, source, out, method="decision")
    collection.explain_file(nli, source, tmp_path / "folder", method="decision")
    assert (done.explained, done.failed) == (3, 1)
    expected = lines_of((tmp_path / "folder" / collection.LINES).read_text())
    found = opened(out).to_pylist()
    assert [row["row"] for row in found] == [1, 2, 3, 4]
    for row, line in zip(found, expected, strict=True):
        if "error" in line:
            assert (row["error"], row["explanation"], row["scores"]) == (line["error"], None, None)
            continue
        whole = json.loads(row["explanation"])
        assert {**whole, "diagnostics": 0} == {**line, "diagnostics": 0}  # they have the time it took
        assert (row["words"], row["sides"], row["scores"]) == (line["words"], line["sides"], line["scores"])
        assert (row["label"], row["method"]) == (line["prediction"]["label"], "decision")
        assert json.loads(row["columns"]) == line["columns"]
        assert Explanation.from_dict(json.loads(row["explanation"])).premise == row["premise"]
    papers = tables.metadata(out)
    assert papers.pop("rows")
    assert papers == {"version": neurogame.__version__, "model": "tiny", "digest": fingerprint(nli)}
    with pytest.raises(FileExistsError, match="never overwritten"):
        collection.explain_file(nli, source, out)


def test_interrupted_explanations_are_resumed_into_a_table(tmp_path, suffix):
    nli = NLI(tiny.model(), tiny.tokenizer(), name="tiny")
    rows = [{"id": i, "premise": p, "hypothesis": h} for i, (p, h) in enumerate(tiny.PAIRS)]
    source, out = write(tmp_path / f"in{suffix}", pa.Table.from_pylist(rows)), tmp_path / f"out{suffix}"
    asked = {"method": "decision", "together": 1}
    collection.explain_file(nli, source, tmp_path / f"whole{suffix}", **asked)
    seen = []

    def interrupted(count):
        seen.append(count)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collection.explain_file(nli, source, out, progress=interrupted, **asked)
    assert not out.exists()
    done = collection.explain_file(nli, source, out, resume=True, **asked)
    assert (done.explained, 0 < done.resumed < len(rows)) == (len(rows), True)
    found, whole = (opened(path).drop_columns(["explanation"]) for path in (out, tmp_path / f"whole{suffix}"))
    assert found.equals(whole)
    assert tables.metadata(out) == tables.metadata(tmp_path / f"whole{suffix}")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, out.name, f"whole{suffix}"])
