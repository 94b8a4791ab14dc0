"""Pairs on their way from a file to a batch and to a file of predictions, and run files: no row is ever lost."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import targets
import tiny
import yaml
from hypothesis import given
from hypothesis import strategies as st
from kinds import system
from support import changed, fuzz, scraps, spots, texts, tried, unicode, valid, values

from neurogame import data
from neurogame.data import Pair, PairDataset
from neurogame.labels import LABELS, NON_ENTAILMENT
from neurogame.prediction import Shard, already, check, predict_file
from neurogame.training import ConfigError, read_config
from neurogame.training.config import dump_config

names = st.sampled_from([*LABELS, *LABELS, NON_ENTAILMENT, None])
pairs = st.builds(Pair, texts, texts, names | scraps)
counts = st.sampled_from([1, 2, 5, 40, 0, -1, 2.5, True, "x", None])


@given(
    st.lists(pairs | st.builds(Pair, valid, valid, names), max_size=5),
    st.sampled_from([5, 8, 40, 40, 40, 41, 4, 0, -1, 12.5, float("nan"), True, "x", None]),
    st.none()
    | st.dictionaries(
        st.sampled_from([*LABELS, "CONTRADICTION", "a"]) | unicode,
        scraps | st.integers(0, 3),
    ),
    st.sampled_from(["bert", "roberta", "mpnet"]),
)
@fuzz(3)
def test_encode(rows, longest, label2id, family):
    tokenizer = tiny.tokenizer(family)
    with tried("data.encode") as outcome:
        found = data.encode(rows, tokenizer, max_length=longest, label2id=label2id)
        assert len(found) == len(found.lengths) == len(rows)
        assert all(0 < length <= longest for length in found.lengths)
        assert (found.labels is None) != (found.without_labels is None)
    if outcome.refused:
        return
    with tried("data.collate"):
        batch = data.collate(tokenizer)([found[i] for i in range(len(found))])
        assert batch["input_ids"].shape == (len(rows), max(found.lengths))
        assert batch["attention_mask"].sum(1).tolist() == found.lengths


@given(
    st.lists(st.fixed_dictionaries({}, optional={"input_ids": st.lists(st.integers(0, 9)), "x": scraps}), max_size=2)
)
@fuzz(2)
def test_collate_what_is_no_row(rows):
    with tried("data.collate"):
        assert len(data.collate(tiny.tokenizer())(rows)["input_ids"]) == len(rows)


@given(st.lists(st.integers(0, 9) | scraps, max_size=9) | st.lists(st.integers(0, 9), max_size=9), counts | scraps)
@fuzz(3)
def test_sorted_batches(lengths, size):
    with tried("data.sorted_batches"):
        found = data.sorted_batches(lengths, size)
        assert sorted(i for batch in found for i in batch) == list(range(len(lengths)))
        assert all(len(batch) <= size for batch in found)
        flat = [lengths[i] for batch in found for i in batch]
        assert flat == sorted(flat, reverse=True)


sets = st.builds(PairDataset, st.lists(pairs, max_size=4).map(tuple), unicode, texts, st.integers(0, 3))


@given(unicode, st.lists(sets, max_size=3), st.integers() | scraps, st.floats() | scraps, counts)
@fuzz(2)
def test_data_sets(name, parts, seed, fraction, limit):
    with tried("data.concatenate"):
        found = data.concatenate(name, parts)
        assert list(found) == [pair for part in parts for pair in part]
        assert found.without_gold == sum(part.without_gold for part in parts)
        assert len(found.fingerprint) == 64
    with tried("data.PairDataset.take"):
        taken = found.take(limit, seed)
        assert len(taken) == min(limit, len(found)) if limit is not None else taken is found
    with tried("data.PairDataset.split"):
        rest, held = found.split(fraction, seed)
        assert len(rest) + len(held) == len(found)
        assert len(rest) * len(held) > 0
    with tried("data.PairDataset.summary"):
        assert len(found.shuffled(seed)) == len(found)
        assert found.summary()


@given(st.integers(-2, 40) | scraps, st.integers() | scraps)
@fuzz()
def test_generate(count, seed):
    with tried("data.generate"):
        found = data.generate(count if not isinstance(count, int) else min(count, 50), seed)
        assert len({(pair.premise, pair.hypothesis) for pair in found}) == len(found)
        assert all(pair.label in LABELS for pair in found)


# --- files --------------------------------------------------------------------------------------------------------

sentence = valid.map(lambda text: text.replace("\0", "0") + "a")


@given(
    st.lists(st.tuples(sentence, sentence, st.sampled_from(LABELS)), min_size=1, max_size=4),
    st.sampled_from([".jsonl", ".csv"]),
    counts,
)
@fuzz(2)
def test_what_is_written_is_read(tmp_path_factory, rows, suffix, limit):
    path = tmp_path_factory.mktemp("read") / f"pairs{suffix}"
    header = ("premise", "hypothesis", "label")
    with path.open("w", encoding="utf-8", newline="") as file:
        if suffix == ".csv":
            csv.writer(file).writerows([header, *rows])
        else:
            file.writelines(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
    with tried("data.read"):
        found = data.read(path, limit=limit)
        assert [(pair.premise, pair.hypothesis, pair.label) for pair in found] == rows[:limit]
    shutil.rmtree(path.parent)


@given(st.text(st.sampled_from("0123456789/٣²-+ 1."), max_size=6) | unicode, counts | scraps, counts | scraps)
@fuzz(3)
def test_shards(text, number, count):
    with tried("Shard.parse"):
        found = Shard.parse(text)
        assert Shard.parse(str(found)) == found
    with tried("Shard"):
        made = Shard(number, count)
        assert Shard.parse(str(made)) == made
        assert count > 99 or sum(made.owns(chunk) for chunk in range(2 * count)) == 2


@pytest.fixture(scope="module")
def nli():
    return system("mean")


paths = st.sampled_from(["in.csv", "in.jsonl", "out.jsonl", "out.csv.gz", "no/out.csv", "", ".", "x", "out.txt"])


@given(
    source=paths | unicode,
    output=st.none() | paths | unicode,
    columns=st.none() | st.dictionaries(st.sampled_from(["premise", "label", "x"]), scraps | st.just("a"), max_size=2),
    resume=st.booleans(),
    shard=st.sampled_from([None, Shard(), Shard(2, 3)]),
)
@fuzz(2)
def test_check(tmp_path_factory, source, output, columns, **options):
    folder = tmp_path_factory.mktemp("check")
    (folder / "in.csv").write_bytes(targets.SEEDS[0])
    goal = output if output is None else folder / output
    with tried("prediction.check"):
        check(folder / source, goal, columns, **options)
        assert goal is None or options["resume"] or not goal.exists()
    with tried("prediction.already"):
        done = already(folder / (output or "x"), options["shard"] or Shard())
        assert (done is not None) == (folder / (output or "x")).exists()
    assert [path.name for path in folder.iterdir()] == ["in.csv"]
    shutil.rmtree(folder)


@given(
    content=st.lists(st.sampled_from(targets.SEEDS[:5]) | valid.map(str.encode) | st.just(b"\n"), max_size=4),
    suffix=st.sampled_from([".csv", ".tsv", ".jsonl"]),
    goal=st.sampled_from(["out.jsonl", "out.csv", "out.jsonl.gz"]),
    on_error=st.sampled_from(["skip", "skip", "raise", "x"]),
    batch_size=counts | st.just(32),
    chunk=counts | st.just(3),
    parts=st.sampled_from([1, 1, 2]),
)
@fuzz(2)
def test_predict_file(nli, tmp_path_factory, content, suffix, goal, parts, **options):
    folder = tmp_path_factory.mktemp("predicted")
    source, output = folder / f"in{suffix}", folder / goal
    source.write_bytes(b"".join(content))
    with tried("prediction.predict_file") as outcome:
        for number in range(1, parts + 1):
            done = predict_file(nli, source, output, shard=Shard(number, parts), **options)
        rows = data.read(output, require_label=False)
        assert len(rows) == done.pairs == len(data.read(source, require_label=False, on_error="skip"))
    if outcome.refused and parts == 1:
        assert [path.name for path in folder.iterdir()] == [source.name]
    shutil.rmtree(folder)


# --- run files ----------------------------------------------------------------------------------------------------

RUNS = sorted(Path(__file__).parents[2].glob("configs/**/*.yaml"))
BITS = [
    "model: ",
    "data:",
    "training: {",
    "}",
    "\n",
    "- ",
    "&a ",
    "*a",
    "? ",
    "!!int x",
    "0b_",
    "2001-99-99",
    "[" * 999,
]
BITS += [
    "kind: dam",
    "train: x",
    "dev: x",
    "name: a",
    "'",
    ": ",
    "  ",
    "\t",
    "1e-5",
    "~",
    "!!python/name:os.system",
    "%",
]
overrides = st.lists(
    st.tuples(
        st.sampled_from(["training.epochs", "model.options.dropout", "name", "a.b", "", ".", "data..x"]) | unicode,
        st.sampled_from(["=", ""]),
        st.sampled_from([*BITS, "1", "null"]) | unicode,
    ).map("".join),
    max_size=2,
)


@given(st.lists(st.sampled_from(BITS) | unicode, max_size=8) | st.lists(st.binary(max_size=9)))
@fuzz(2)
def test_a_run_file_of_any_text(tmp_path_factory, parts):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(b"".join(p if isinstance(p, bytes) else p.encode(errors="surrogatepass") for p in parts))
    with tried("training.read_config", ConfigError):
        read_config(path)


@given(st.data(), overrides)
@fuzz(2)
def test_a_run_file_with_one_thing_changed(tmp_path_factory, data, settings):
    told = yaml.safe_load(data.draw(st.sampled_from(RUNS)).read_text())
    if data.draw(st.booleans()):
        told = changed(told, data.draw(st.sampled_from(list(spots(told)))), data.draw(values))
    path = tmp_path_factory.getbasetemp() / "changed.yaml"
    path.write_text(yaml.safe_dump(told))
    with tried("training.read_config", ConfigError):
        found = read_config(path, settings)
        path.write_text(dump_config(found))
        assert read_config(path) == found
