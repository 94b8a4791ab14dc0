"""Data sets by name: the layouts they are published in, where they are looked for, and the hub's tables."""

import csv
import gzip
import json
import sys

import pytest

from neurogame.data import DataError, load, rationales
from neurogame.data.reading import Rule
from neurogame.data.sets import NAMES, from_table, resolve


def write(root, name, header, *rows):
    """A file in the format its name stands for."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    bare = name.removesuffix(".gz")
    if bare.endswith(".jsonl"):
        text = "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
    elif bare.endswith(".csv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        text = path.read_text(encoding="utf-8")
    else:
        text = "".join("\t".join(row) + "\n" for row in (header, *rows))
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


PLAIN = ("premise", "hypothesis", "label")
SNLI = ("gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "pairID", "label1", "label2")
SNLI_ROWS = (
    ("neutral", "( A ( boat . ) )", 'A boat, "Ida", is red.', "It is fast.", "1#0", "neutral", "entailment"),
    ("-", "( A ( boat . ) )", "A boat is red.", "It is old.", "1#1", "neutral", "contradiction"),
    ("contradiction", "( A ( boat . ) )", "A boat is red.", "It is blue.", "1#2", "contradiction", ""),
)


@pytest.mark.parametrize("name", ["snli/train", "snli/dev", "snli/test"])
@pytest.mark.parametrize("form", ["{0}/{0}_{1}.jsonl", "{0}/{0}_{1}.txt", "{0}_{1}.jsonl.gz", "{0}/{0}_{1}.txt.gz"])
def test_snli(tmp_path, name, form):
    write(tmp_path, form.format("snli_1.0", name.partition("/")[2]), SNLI, *SNLI_ROWS)
    found = load(name, root=tmp_path)
    assert found.name == name
    assert [pair.label for pair in found] == ["neutral", "contradiction"]
    assert found.without_gold == 1
    assert found[0].premise == 'A boat, "Ida", is red.'
    assert found[0].extras["label2"] == "entailment"
    assert str(tmp_path) in found.source


MNLI = ("index", "promptID", "genre", "sentence1", "sentence2", "label1", "label2", "label3", "gold_label")
MNLI_ROW = ("0", "7", "letters", 'She wrote: "yes.', "She agreed.", "neutral", "entailment", "entailment", "entailment")


@pytest.mark.parametrize("part", ["train", "dev_matched", "dev_mismatched"])
@pytest.mark.parametrize(
    "form", ["MNLI/{}.tsv", "multinli_1.0/multinli_1.0_{}.jsonl", "multinli_1.0/multinli_1.0_{}.txt.gz"]
)
def test_mnli(tmp_path, part, form):
    write(tmp_path, form.format(part), MNLI, MNLI_ROW)
    (pair,) = load(f"mnli/{part}", root=tmp_path)
    assert (pair.premise, pair.label, pair.extras["genre"]) == ('She wrote: "yes.', "entailment", "letters")
    other = {"train": "mnli/matched", "dev_matched": "mnli/mismatched", "dev_mismatched": "mnli/train"}[part]
    with pytest.raises(DataError, match="was not found"):
        load(other, root=tmp_path)


def test_hans_is_two_way(tmp_path):
    header = ("gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "pairID", "heuristic", "subcase")
    rows = [
        (
            "non-entailment",
            "-",
            "The cook thanked the pilot .",
            "The pilot thanked the cook .",
            "1",
            "lexical_overlap",
            "s",
        ),
        ("entailment", "-", "The cook and the pilot slept .", "The cook slept .", "2", "subsequence", "t"),
    ]
    write(tmp_path, "heuristics_evaluation_set.txt", header, *rows)
    write(tmp_path, "hans/heuristics_train_set.txt", header, rows[0])
    found = load("hans", root=tmp_path)
    assert [pair.label for pair in found] == ["non-entailment", "entailment"]
    assert found.name == "hans/test"
    assert found[0].extras["heuristic"] == "lexical_overlap"
    assert len(load("hans/train", root=tmp_path)) == 1


ESNLI = ("pairID", "gold_label", "Sentence1", "Sentence2", "Explanation_1", "Sentence1_marked_1", "Sentence2_marked_1")


def test_esnli(tmp_path):
    row = (
        "3",
        "entailment",
        "A girl, in red, sings.",
        "A girl\nsings.",
        'She "sings".',
        "A *girl,* in red, sings.",
        "A *girl* sings.",
    )
    write(tmp_path, "esnli_dev.csv", ESNLI, row)
    write(tmp_path, "dataset/esnli_train_1.csv", ESNLI, row)
    with pytest.raises(DataError, match=r"esnli_train_1\.csv and esnli_train_2\.csv"):
        load("esnli/train", root=tmp_path)  # half a set is none
    write(tmp_path, "dataset/esnli_train_2.csv", ESNLI, row, row)
    found = load("esnli/train", root=tmp_path)
    assert len(found) == 3
    assert found.source.count("esnli_train_") == 2
    assert len(load("esnli/train", root=tmp_path, limit=2)) == 2
    assert len(load("esnli/train", root=tmp_path, limit=1)) == 1
    (pair,) = load("esnli/validation", root=tmp_path)
    ((premise, hypothesis),) = rationales(pair)
    assert premise.marked == (False, True, False, False, False)
    assert hypothesis.words == ("A", "girl", "sings.")


def test_sick(tmp_path):
    header = ("pair_ID", "sentence_A", "sentence_B", "entailment_label", "sentence_A_original", "SemEval_set")
    rows = [
        (str(i), f"A {i}", f"B {i}", "ENTAILMENT", "-", part)
        for i, part in enumerate(("TRAIN", "TRIAL", "TEST", "TRAIN"))
    ]
    write(tmp_path, "SICK.txt", header, *rows)
    assert [pair.premise for pair in load("sick/train", root=tmp_path)] == ["A 0", "A 3"]
    assert [pair.premise for pair in load("sick/dev", root=tmp_path)] == ["A 1"]
    assert load("sick/test", root=tmp_path)[0].label == "entailment"
    judged = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
    write(tmp_path, "SICK/SICK_test_annotated.txt", judged, ("9", "A 9", "B 9", "3.1", "CONTRADICTION"))
    (pair,) = load("sick/test", root=tmp_path)  # the official file of the split goes before the joint one
    assert (pair.premise, pair.label) == ("A 9", "contradiction")


def test_anli_rounds(tmp_path):
    header = ("uid", "context", "hypothesis", "label", "reason")
    for r, label in enumerate("enc", 1):
        write(tmp_path, f"anli_v1.0/R{r}/test.jsonl", header, (str(r), f"Context {r}.", "So.", label, ""))
    assert [pair.label for pair in load("anli/test", root=tmp_path)] == ["entailment", "neutral", "contradiction"]
    assert load("anli/r2", root=tmp_path)[0].premise == "Context 2."
    assert load("ANLI/R3/test", root=tmp_path)[0].label == "contradiction"
    write(tmp_path, "anli_v1.0/R1/dev.jsonl", header, ("1", "Dev.", "So.", "e", ""))
    assert load("anli/r1/validation", root=tmp_path)[0].premise == "Dev."


def test_anli_in_one_plain_file(tmp_path):
    rows = [("a", "b", "neutral", f"r{r}") for r in (1, 2, 2)]
    write(tmp_path, "eval/anli_test.jsonl.gz", (*PLAIN, "round"), *rows)
    assert [len(load(f"anli/{part}", root=tmp_path)) for part in ("test", "r1", "r2")] == [3, 1, 2]
    with pytest.raises(DataError, match="3 of another part"):
        load("anli/r3", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("snli/train", "train/snli.jsonl.gz"),
        ("snli/dev", "eval/snli_dev.jsonl.gz"),
        ("snli_hard/dev", "eval/snli_hard_dev.jsonl"),
        ("snli_hard/test", "snli_1.0/snli_1.0_test_hard.jsonl"),
        ("mnli/train", "mnli.jsonl"),
        ("mnli/matched", "mnli_matched.jsonl.gz"),
        ("mnli/mismatched", "eval/mnli_mismatched.jsonl"),
        ("hans", "hans.jsonl.gz"),
        ("sick/test", "sick_test.jsonl.gz"),
        ("esnli/dev", "esnli_dev.jsonl"),
        ("anli/r1/dev", "anli_r1_dev.jsonl"),
    ],
)
def test_plain_files(tmp_path, name, file):
    write(tmp_path, file, PLAIN, ("a", "b", "entailment"))
    assert len(load(name, root=tmp_path)) == 1


def test_official_files_go_first(tmp_path):
    write(tmp_path, "snli_dev.jsonl", PLAIN, ("plain", "b", "neutral"))
    write(tmp_path, "snli_1.0/snli_1.0_dev.txt", SNLI, *SNLI_ROWS)
    assert "snli_1.0_dev.txt" in load("snli/dev", root=tmp_path).source


def test_where_files_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEUROGAME_DATA", raising=False)
    for folder in ("data", "variable", "argument"):
        write(tmp_path / folder, "snli_dev.jsonl", PLAIN, (folder, "b", "neutral"))
    assert load("snli/dev")[0].premise == "data"
    monkeypatch.setenv("NEUROGAME_DATA", str(tmp_path / "variable"))
    assert load("snli/dev")[0].premise == "variable"
    assert load("snli/dev", root="argument")[0].premise == "argument"


def test_not_found_says_what_was_looked_for(tmp_path):
    with pytest.raises(DataError) as caught:
        load("snli/dev", root=tmp_path / "nowhere")
    message = str(caught.value)
    for part in (
        "snli_1.0/snli_1.0_dev.jsonl",
        "snli_dev.jsonl",
        ".gz",
        "nowhere, which does not exist",
        "--hub",
        "NEUROGAME_DATA",
    ):
        assert part in message
    assert "\n" not in message
    with pytest.raises(DataError, match="the hub does not have it either"):
        load("snli_hard/dev", root=tmp_path)


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("SNLI/validation", "snli/dev"),
        ("mnli/dev", "mnli/matched"),
        ("mnli/validation", "mnli/matched"),
        ("mnli/validation_mismatched", "mnli/mismatched"),
        ("multinli/dev_matched", "mnli/matched"),
        ("mnli/mm", "mnli/mismatched"),
        ("hans/validation", "hans/test"),
        ("e-SNLI/dev", "esnli/dev"),
        ("snli-hard/test", "snli_hard/test"),
        ("anli/r3", "anli/r3/test"),
        ("sick/trial", "sick/dev"),
        ("toy/dev", "toy/dev"),
    ],
)
def test_names_have_aliases(given, full):
    assert resolve(given) == full
    assert all(resolve(name) == name for name in NAMES)


def test_unknown_names(tmp_path):
    with pytest.raises(DataError, match=r"one of snli/train, snli/dev, snli/test$"):
        load("snli", root=tmp_path)
    with pytest.raises(DataError, match="did you mean snli/dev"):
        load("sn1i/dev", root=tmp_path)
    with pytest.raises(DataError, match="neither a file nor"):
        load(tmp_path)


def test_a_path_is_read_as_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "snli/dev.csv", ("a", "b", "verdict"), ("x", "y", "2"), ("x", "", "0"))
    options = {
        "columns": {"premise": "a", "hypothesis": "b", "label": "verdict"},
        "label_names": ["neutral", "entailment", "contradiction"],
    }
    found = load("snli/dev.csv", on_error="skip", **options)
    assert (found[0].label, found.name, len(found.malformed)) == ("contradiction", "dev", 1)
    with pytest.raises(DataError, match=r"dev\.csv:3: empty hypothesis"):
        load("snli/dev.csv", **options)
    with pytest.raises(DataError, match="does not exist; there is"):
        load("snli/dev.csv.gz")
    assert len(load("snli/dev.csv", require_label=False, limit=1, columns={"premise": "a", "hypothesis": "b"})) == 1
    with pytest.raises(DataError, match="limit 0"):
        load("toy/dev", limit=0)


# --- the hub ------------------------------------------------------------------------------------------------------


def table(names, labels):
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features(
        {
            "premise": Value("string"),
            "hypothesis": Value("string"),
            "label": ClassLabel(names=names),
            "uid": Value("int32"),
        }
    )
    rows = {
        "premise": [f"p{i}" for i in range(len(labels))],
        "hypothesis": ["h"] * len(labels),
        "label": labels,
        "uid": list(range(len(labels))),
    }
    return Dataset.from_dict(rows, features=features)


def test_labels_of_a_table_go_by_name():
    order = ["contradiction", "neutral", "entailment"]  # not ours
    found = from_table(table(order, [0, 1, 2, -1, 2]), name="x", source="hub:x")
    assert [pair.label for pair in found] == ["contradiction", "neutral", "entailment", "entailment"]
    assert found.without_gold == 1
    assert found[3].extras == {"uid": 4}
    two = from_table(table(["entailment", "non-entailment"], [1, 0]), name="hans", source="hub:hans")
    assert [pair.label for pair in two] == ["non-entailment", "entailment"]


def test_faults_of_a_table():
    with pytest.raises(DataError, match="hub:x: no column for premise"):
        from_table(table(["neutral"], [0]).rename_column("premise", "first"), name="x", source="hub:x")
    mapped = from_table(
        table(["neutral"], [0]).rename_column("premise", "first"),
        name="x",
        source="hub:x",
        rule=Rule({"premise": "first"}),
    )
    assert mapped[0].premise == "p0"
    odd = table(["neutral", "perhaps"], [0, 1])
    with pytest.raises(DataError, match="hub:x:2: "):
        from_table(odd, name="x", source="hub:x")
    assert len(from_table(odd, name="x", source="hub:x", on_error="skip")) == 1


def test_hub_loads_each_part(tmp_path, monkeypatch):
    """The real `load_dataset` on a folder of Parquet files stands in for the hub."""
    import datasets

    for part in ("test_r1", "test_r2", "test_r3"):
        folder = tmp_path / "hub" / part
        folder.mkdir(parents=True)
        table(["contradiction", "entailment", "neutral"], [1, -1]).to_parquet(folder / "0.parquet")
    original, asked = datasets.load_dataset, []

    def local(identity, *, split, **options):
        asked.append((identity, split, options))
        if not options:
            raise RuntimeError("Dataset scripts are no longer supported")
        return original(
            "parquet",
            data_files=str(tmp_path / "hub" / split / "*.parquet"),
            split="train",
            cache_dir=str(tmp_path / "cache"),
        )

    monkeypatch.setattr(datasets, "load_dataset", local)
    datasets.disable_progress_bars()
    found = load("anli/test", root=tmp_path, hub=True)
    assert [pair.label for pair in found] == ["entailment"] * 3
    assert found.without_gold == 3
    assert found.source == "hub:facebook/anli/test_r1 + hub:facebook/anli/test_r2 + hub:facebook/anli/test_r3"
    assert asked[1] == ("facebook/anli", "test_r1", {"revision": "refs/convert/parquet"})
    write(tmp_path, "anli_test.jsonl", PLAIN, ("a", "b", "neutral"))
    assert len(load("anli/test", root=tmp_path, hub=True)) == 1  # local files first


def test_hub_failures_are_one_line(tmp_path, monkeypatch):
    import datasets

    def offline(*_, **__):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(DataError, match=r"snli/dev could not be loaded from the hub \(stanfordnlp/snli, .*: no route$"):
        load("snli/dev", root=tmp_path, hub=True)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"datasets: pip install .*\[hub\]"):
        load("snli/dev", root=tmp_path, hub=True)
