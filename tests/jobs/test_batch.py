"""`neurogame.batch.Predict`: the rows and labels of `predict_file`, whatever engine brings the batches."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tiny
from pyarrow import parquet as pq
from test_prediction import lines_of
from transformers import PreTrainedTokenizerBase

import neurogame
from neurogame import classifier
from neurogame.batch import Predict, _open_model
from neurogame.data import DataError
from neurogame.explanation import Explanation
from neurogame.modeling.checking import ModelError
from neurogame.nli import NLI
from neurogame.prediction import predict_file

ROWS = [{"id": i, "premise": p, "hypothesis": h, "label": i % 3} for i, (p, h) in enumerate(tiny.PAIRS * 3)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "tiny"
    NLI(tiny.model(), tiny.tokenizer(), name="tiny").save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def expected(folder, tmp_path_factory):
    """What `predict_file` writes."""
    place = tmp_path_factory.mktemp("rows")
    (place / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    predict_file(neurogame.load(folder), place / "a.jsonl", place / "out.jsonl")
    return lines_of((place / "out.jsonl").read_text())


def same(rows, expected):
    assert len(rows) == len(expected)
    for row, line in zip(rows, expected, strict=True):
        assert {name: row[name] for name in ("id", "premise", "hypothesis", "gold", "label", "truncated")} == {
            name: line[name] for name in ("id", "premise", "hypothesis", "gold", "label", "truncated")
        }
        assert {name: row[f"p_{name}"] for name in line["logits"]} == pytest.approx(line["probabilities"], abs=2.5e-6)
        assert row["error"] is None


def rows_of(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_every_kind_of_batch(folder, expected):
    predict = Predict(folder, batch_size=2)
    same(rows_of(predict(COLUMNS)), expected)
    arrays = predict({name: np.array(column) for name, column in COLUMNS.items()})
    assert {type(column) for column in arrays.values()} == {np.ndarray}
    assert arrays["p_neutral"].dtype == np.float64
    same(rows_of(arrays), expected)
    frame = pd.DataFrame(COLUMNS, index=range(5, 5 + len(ROWS)))
    found = predict(frame)
    assert list(found.index) == list(frame.index)
    same(found.astype(object).where(found.notna(), None).to_dict("records"), expected)
    same(predict(pa.table(COLUMNS)).to_pylist(), expected)
    halves = predict(iter([frame[:4], frame[4:]]))  # as Spark's mapInPandas calls it
    assert [len(half) for half in halves] == [4, len(ROWS) - 4]
    assert list(COLUMNS) == ["id", "premise", "hypothesis", "label"]  # what was given stays as it was


def test_one_model_for_all_copies_in_a_process(folder):
    predict = Predict(folder)
    packed = pickle.dumps(predict)
    assert len(packed) < 2000
    _open_model.cache_clear()
    first = pickle.loads(packed).nli
    assert pickle.loads(packed).nli is first is predict.nli


@pytest.mark.slow
def test_ray_with_a_worker_that_is_killed(folder, expected, tmp_path):
    """Two workers on a real Ray, one of them killed by SIGKILL in the middle: no row is lost, none is there twice."""
    pytest.importorskip("ray")
    rows = [{**row, "id": 12 * turn + row["id"]} for turn in range(20) for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    script = Path(__file__).with_name("ray_job.py")
    places = [str(place) for place in (folder, tmp_path / "rows.parquet", tmp_path / "out", tmp_path / "killed")]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    place = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": cache}  # Ray leaves a token there
    command = [sys.executable, str(script), *places]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=place)
    assert done.returncode == 0, done.stderr[-3000:]
    found = pq.read_table(tmp_path / "out").to_pylist()
    assert [row["id"] for row in found] == list(range(len(rows)))
    same([{**row, "id": row["id"] % 12} for row in found], expected * 20)
    processes = json.loads(done.stdout.splitlines()[-1])["processes"]
    killed = int((tmp_path / "killed").read_text())
    workers = {int(path.name.removeprefix("worker-")) for path in tmp_path.glob("worker-*")}
    assert killed in workers
    assert len(workers) >= 2  # two were there when it was killed
    assert set(processes) <= workers - {killed}  # what it had begun, another has done
    assert processes


def test_datasets_map(folder, expected):
    source = datasets.Dataset.from_dict(COLUMNS)
    found = source.map(Predict(folder), batched=True, batch_size=5, remove_columns=source.column_names)
    same(list(found), expected)


def test_rows_that_are_no_pairs_stay(folder):
    batch = {"premise": ["a dog .", None, "two dogs ."], "hypothesis": ["a man .", "a man .", " "], "gold": [1, 2, 3]}
    found = Predict(folder)(batch)
    assert found["error"] == [None, "premise is null", "empty hypothesis"]
    assert [label is None for label in found["label"]] == [False, True, True]
    assert found["gold"] == [1, 2, 3]
    arrays = Predict(folder)({name: np.array(column, dtype=object) for name, column in batch.items()})
    assert list(np.isnan(arrays["p_neutral"])) == [False, True, True]
    assert Predict(folder)(pa.table(batch))["label"].null_count == 2
    nothing = Predict(folder)({"premise": [], "hypothesis": []})
    assert (nothing["label"], nothing["error"]) == ([], [])


class PanicException(BaseException):
    """As pyo3 names the panics of tokenizers."""


def panic_over(monkeypatch, word, where):
    """A tokenizer whose native code fails over texts with a word."""
    real = where.encode

    def fails(*args, **options):
        if word in repr(args):
            raise PanicException("index out of bounds")
        return real(*args, **options)

    monkeypatch.setattr(where, "encode", fails)


def test_a_row_over_which_the_tokenizer_panics_fails_alone(folder, expected, monkeypatch):
    panic_over(monkeypatch, "a dragon", classifier)
    batch = {name: [*column[:5], *column[:1], *column[5:]] for name, column in COLUMNS.items()}
    batch["premise"][5] = "a dragon ."
    found = rows_of(Predict(folder, batch_size=2)(batch))
    bad = found.pop(5)
    same(found, expected)
    assert "the tokenizer fails in native code (index out of bounds)" in bad["error"]
    assert (bad["label"], bad["p_neutral"], bad["truncated"]) == (None, None, None)
    batch["premise"][5] = None
    monkeypatch.undo()
    panic_over(monkeypatch, "'", classifier)  # whatever the text
    with pytest.raises(ModelError, match="native code"):
        Predict(folder)(batch)


def test_an_explanation_over_which_the_tokenizer_panics(folder, monkeypatch):
    real = PreTrainedTokenizerBase.__call__

    def fails(self, *texts, **options):
        if "a dragon" in repr(texts):
            raise PanicException("index out of bounds")
        return real(self, *texts, **options)

    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", fails)
    predict = Predict(folder, explain=True, method="decision")
    with pytest.raises(ModelError, match="native code"):
        predict.nli.explain("a dragon .", "a man .")
    found = predict({"premise": ["a dragon .", "a dog ."], "hypothesis": ["a man .", "a man ."]})
    assert "native code" in found["error"][0]
    assert found["error"][1] is None


def test_explanations(folder):
    batch = {name: column[:2] for name, column in COLUMNS.items()} | {"premise": ["a girl reads .", ""]}
    found = Predict(folder, explain=True, method="decision", target="neutral")(batch)
    why = Explanation.from_dict(json.loads(found["explanation"][0]))
    assert (found["method"][0], found["target"][0], why.premise) == ("decision", "neutral", "a girl reads .")
    asked = {"method": "decision", "target": "neutral"}
    assert why.scores == neurogame.load(folder).explain(why.premise, why.hypothesis, **asked).scores
    assert (found["explanation"][1], found["error"][1]) == (None, "empty premise")
    assert Predict(folder, explain=True, target="perhaps")(batch)["error"][0].startswith("target = 'perhaps'")


def test_mistakes(folder):
    with pytest.raises(DataError, match="a batch has no column for hypothesis"):
        Predict(folder)({"premise": ["a"]})
    with pytest.raises(TypeError, match="a mapping of columns, a DataFrame or a Table; got list"):
        Predict(folder)([("a", "b")])
    with pytest.raises(TypeError, match="method: only explanations take these"):
        Predict(folder, method="game")
    pair = {"premise": ["a dog ."], "hypothesis": ["a man ."]}
    for name in ("error", "p_neutral", "truncated"):
        for batch in (
            {**pair, name: ["mine"]},
            pa.table({**pair, name: ["mine"]}),
            pd.DataFrame({**pair, name: ["mine"]}),
        ):
            with pytest.raises(DataError, match=f"a column '{name}', which would be overwritten"):
                Predict(folder)(batch)
    with pytest.raises(DataError, match="'label', which becomes 'gold', and 'gold'"):
        Predict(folder)({**pair, "label": ["n"], "gold": ["e"]})
    assert Predict(folder)({**pair, "method": ["mine"]})["method"] == ["mine"]
    with pytest.raises(DataError, match="a column 'method'"):
        Predict(folder, explain=True)({**pair, "method": ["mine"]})
    mapped = Predict(folder, columns={"premise": "first"})({"first": ["a dog ."], "hypothesis": ["a man ."]})
    assert mapped["error"] == [None]
