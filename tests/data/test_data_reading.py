"""Files to pairs: every format gives back what was written, and every fault is named with file and line."""

import csv
import gzip
import io
import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neurogame.cli import ground
from neurogame.data import DataError, Malformed, NoGold, Pair, iterate, read
from neurogame.data.texts import Text, is_single, iterate_texts

GOOD = {"premise": "A kite is up.", "hypothesis": "It flies.", "label": "entailment"}


def jsonl(path, *rows):
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def fault(path, **options):
    with pytest.raises(DataError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- write → read is the identity ---------------------------------------------------------------------------------

texts = st.text(min_size=1, max_size=30).filter(str.strip)
lines = texts.filter(lambda text: not set(text) & set("\t\n") and not text.endswith("\r"))
labels = st.sampled_from(["entailment", "neutral", "contradiction", "non-entailment"])


def rows_of(text):
    return st.lists(st.tuples(text, text, labels, text), min_size=1, max_size=5)


def as_bytes(kind, rows):
    header = ("premise", "hypothesis", "label", "note")
    if kind == "jsonl":
        return "".join(
            json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) + "\n" for row in rows
        ).encode()
    if kind == "csv":
        text = io.StringIO(newline="")
        csv.writer(text).writerows([header, *rows])
        return text.getvalue().encode()
    return "".join("\t".join(row) + "\n" for row in (header, *rows)).encode()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_write_then_read_is_the_identity(tmp_path, kind, compressed, data):
    rows = data.draw(rows_of(lines if kind == "tsv" else texts))
    content = as_bytes(kind, rows)
    path = tmp_path / f"x.{kind}{'.gz' * compressed}"
    path.write_bytes(gzip.compress(content) if compressed else content)
    assert list(read(path)) == [Pair(p, h, label, {"note": note}) for p, h, label, note in rows]


def test_bom_crlf_blank_lines_nul_and_long_fields(tmp_path):
    long = "word " * 100_000
    limit = csv.field_size_limit()
    for kind, row in {"csv": f'"a\0b","{long}",n', "tsv": f"a\0b\t{long}\tn"}.items():
        header = "premise,hypothesis,label" if kind == "csv" else "premise\thypothesis\tlabel"
        path = tmp_path / f"x.{kind}"
        path.write_bytes(b"\xef\xbb\xbf" + f"{header}\r\n\r\n{row}\r\n\r\n".encode())
        assert list(read(path)) == [Pair("a\0b", long, "neutral")]
    assert csv.field_size_limit() == limit
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n\r\n")
    assert len(read(path)) == 1


def test_a_quote_is_a_character_in_tab_separated_files(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text('gold_label\tsentence1\tsentence2\nneutral\t"Up, he said.\tHe "spoke\nentailment\tb\tc"\n')
    assert [(pair.premise, pair.hypothesis) for pair in read(path)] == [('"Up, he said.', 'He "spoke'), ("b", 'c"')]


def test_quoted_line_ends_belong_to_the_field_and_lines_are_counted(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('premise,hypothesis,label\n"one\ntwo",b,n\n"three\nfour",,n\n')
    assert fault(path) == f"{path}:4: empty hypothesis"
    assert read(path, on_error="skip")[0].premise == "one\ntwo"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_of_csv(tmp_path, delimiter):
    path = tmp_path / "x.csv"
    path.write_text(delimiter.join(["premise", "hypothesis", "label"]) + "\n" + delimiter.join(['"a, b; c"', "d", "e"]))
    assert list(read(path)) == [Pair("a, b; c", "d", "entailment")]


def test_gzip_is_recognised_by_content(tmp_path):
    content = json.dumps(GOOD).encode()
    (tmp_path / "plain.jsonl.gz").write_bytes(content)
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(content))
    assert read(tmp_path / "plain.jsonl.gz").pairs == read(tmp_path / "packed.jsonl").pairs


@pytest.mark.parametrize("content", ['""', '"";', '"\n"', ' "" \n""\n', "\t"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_file_without_a_header(tmp_path, content, suffix):
    """Found by the fuzzer: what looks like a line may be no row."""
    (tmp_path / f"x{suffix}").write_text(content)
    assert fault(tmp_path / f"x{suffix}").startswith(str(tmp_path / f"x{suffix}"))


# --- columns and labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ("premise", "hypothesis", "label"),
        ("sentence1", "sentence2", "gold_label"),
        ("Sentence1", "Sentence2", "Label"),
        ("sentence_A", "sentence_B", "entailment_judgment"),
        ("text", "text_pair", "entailment_label"),
        ("context", "hypothesis", "LABEL"),
    ],
)
def test_usual_columns_are_found(tmp_path, names):
    row = dict(zip(names, GOOD.values(), strict=True)) | {"genre": "fiction", "label1": "neutral"}
    (pair,) = read(jsonl(tmp_path / "x.jsonl", row))
    assert pair == Pair(*GOOD.values(), {"genre": "fiction", "label1": "neutral"})


def test_columns_can_be_mapped(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("premise,claim,Verdict\na,b,neutral\n")
    assert list(read(path, columns={"hypothesis": "claim", "label": "verdict"})) == [Pair("a", "b", "neutral")]
    message = fault(path, columns={"hypothesis": "assertion"})
    assert all(part in message for part in ("x.csv", "'claim'", "'Verdict'", "assertion", "columns={"))
    assert "'target'" in fault(path, columns={"target": "claim"})
    assert "same column" in fault(path, columns={"premise": "claim", "hypothesis": "claim"})


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_column_missing_from_the_whole_file_is_always_fatal(tmp_path, name, on_error):
    path = tmp_path / name
    if name == "x.csv":
        path.write_text("first,second\na,b\nc,d\n")
    else:
        jsonl(path, *[{"first": "a", "second": "b"}] * 3)
    message = fault(path, on_error=on_error)
    assert "no column for premise and hypothesis and label" in message
    assert "'first', 'second'" in message
    assert "columns={'premise': 'first'}" in message


@pytest.mark.attack(point=10)
def test_a_column_that_occurs_twice_is_ambiguous(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("premise,hypothesis,premise,label\na,b,c,n\n")
    assert "'premise' occurs twice" in fault(path)
    path.write_text("premise,hypothesis,id,label,id\na,b,1,n,2\n")
    assert "'id' occurs twice" in fault(path)
    path.write_text("premise,hypothesis,label,,\na,b,n,,\n")  # what a spreadsheet leaves at the right
    assert len(read(path)) == 1
    for row in ("a,b,n,1,2", "a,b,n,1,", "a,b,n,,2"):
        path.write_text(f"premise,hypothesis,label,,\na,b,n,,\n{row}\n")
        for on_error in ("raise", "skip"):
            assert "x.csv:3: two columns have no name, but values" in fault(path, on_error=on_error)
    path.write_text("premise,hypothesis,label,\na,b,n,1\n")  # one is the number of the row, as pandas writes it
    assert read(path)[0].extras == {"": "1"}


@pytest.mark.parametrize("other", ["Premise", "HYPOTHESIS", "Label"])
def test_columns_that_differ_in_case_alone_are_ambiguous(tmp_path, other):
    path = tmp_path / "x.csv"
    path.write_text(f"premise,hypothesis,label,{other},ID,id\na,b,n,x,1,2\n")
    message = fault(path)
    assert "differ in case alone" in message
    assert repr(other) in message
    ours = other.lower()
    found = read(path, columns={ours: ours})[0]  # as it is written, it is clear
    assert (found.premise, found.hypothesis, found.label) == ("a", "b", "neutral")
    assert found.extras == {other: "x", "ID": "1", "id": "2"}
    row = {"premise": "a", "hypothesis": "b", "label": "n", other: "x"}
    assert "differ in case alone" in fault(jsonl(tmp_path / "x.jsonl", row))
    assert len(read(jsonl(tmp_path / "y.jsonl", row, GOOD), on_error="skip")) == 1


@pytest.mark.parametrize(
    ("header", "reason"),
    [("text,text", "'text' occurs twice"), ("id,text,id", "'id' occurs twice"), ("text,Text", "differ in case alone")],
)
def test_columns_of_single_texts_that_are_ambiguous(tmp_path, header, reason):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n{','.join('abc'[: header.count(',') + 1])}\n")
    for on_error in ("raise", "skip"):
        with pytest.raises(DataError, match=reason):
            list(iterate_texts(path, on_error=on_error))
    if "Text" in header:
        assert [row.text for row in iterate_texts(path, column="Text")] == ["b"]


def test_label_names(tmp_path):
    rows = [{**GOOD, "label": label} for label in (0, "1", 2, -1)]
    path = jsonl(tmp_path / "x.jsonl", *rows)
    found = read(path, label_names=["contradiction", "entailment", "neutral"])
    assert [pair.label for pair in found] == ["contradiction", "entailment", "neutral"]
    assert found.without_gold == 1
    assert "a number needs the list of names" in fault(path)
    path = jsonl(tmp_path / "y.jsonl", {**GOOD, "label": "yes"})
    assert read(path, label_names={"yes": "entailment"})[0].label == "entailment"


def test_without_gold_label(tmp_path):
    rows = [GOOD, *({**GOOD, "label": none} for none in ("-", None, "", -1))]
    path = jsonl(tmp_path / "x.jsonl", *rows)
    found = read(path)
    assert (len(found), found.without_gold, found.malformed) == (1, 4, ())
    assert [row.line for row in iterate(path) if isinstance(row, NoGold)] == [2, 3, 4, 5]
    kept = read(path, require_label=False)
    assert [pair.label for pair in kept] == ["entailment", None, None, None, None]


def test_labels_do_not_matter_where_none_is_required(tmp_path):
    bare = {"premise": "a", "hypothesis": "b"}
    path = jsonl(tmp_path / "x.jsonl", bare, {**bare, "label": "positive"}, {**bare, "label": 7})
    found = read(path, require_label=False)
    assert [pair.label for pair in found] == [None] * 3
    assert [dict(pair.extras) for pair in found] == [{}, {"label": "positive"}, {"label": 7}]


# --- malformed rows -----------------------------------------------------------------------------------------------

BAD_JSON = {
    "invalid": ('{"premise": "a"', "not valid JSON"),
    "list": ("[1, 2]", "JSON list, not an object"),
    "number": ("3", "JSON int, not an object"),
    "missing": ({"premise": "a", "label": "n"}, "no column for hypothesis"),
    "no label": ({"premise": "a", "hypothesis": "b"}, "no column for label"),
    "null": ({**GOOD, "premise": None}, "premise is null"),
    "not text": ({**GOOD, "hypothesis": 5}, "hypothesis is int, not text"),
    "empty": ({**GOOD, "premise": ""}, "empty premise"),
    "blank": ({**GOOD, "hypothesis": " \t"}, "empty hypothesis"),
    "surrogate": ({**GOOD, "premise": "a\ud800"}, "not valid Unicode"),
    "label": ({**GOOD, "label": "perhaps"}, "'perhaps' is unknown"),
    "listed label": ({**GOOD, "label": ["n"]}, "is unknown"),
    "odd digit": ({**GOOD, "label": "²"}, ""),
    "deep": ("[" * 100_000, "not valid JSON"),
    "NaN in another column": ('{"premise": "a", "hypothesis": "b", "label": "n", "x": NaN}', "NaN is no JSON value"),
    "infinity, nested": ('{"premise": "a", "hypothesis": "b", "label": "n", "x": [-Infinity]}', "-Infinity is no JSON"),
    "too large": ('{"premise": "a", "hypothesis": "b", "label": "n", "x": 1e400}', "the number 1e400 is too large"),
    "a key twice": ('{"premise": "a", "premise": "c", "hypothesis": "b", "label": "n"}', "'premise' is given twice"),
    "an extra key twice": ('{"premise": "a", "hypothesis": "b", "x": 1, "label": "n", "x": 1}', "'x' is given twice"),
    "a key twice, nested": ('{"premise": "a", "hypothesis": "b", "label": "n", "x": {"y": 1, "y": 2}}', "'y' is given"),
}


@pytest.mark.attack(point=10)
@pytest.mark.parametrize("case", BAD_JSON)
def test_a_malformed_json_row(tmp_path, case):
    row, reason = BAD_JSON[case]
    path = jsonl(tmp_path / "pairs.jsonl", GOOD, row, GOOD)
    message = fault(path)
    assert message.startswith(f"{path}:2: ")
    assert reason in message
    found = read(path, on_error="skip")
    assert len(found) == 2
    assert [(bad.file, bad.line) for bad in found.malformed] == [(str(path), 2)]
    assert "1 malformed row skipped" in found.summary()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,b", "2 fields where the header has 3"),
        ("a,b,n,extra", "4 fields"),
        ('"a"x,b,n', "not valid CSV"),
        (",b,n", "empty premise"),
        ("a,b,maybe", "unknown"),
    ],
)
def test_a_malformed_csv_row(tmp_path, row, reason):
    path = tmp_path / "x.csv"
    path.write_text(f"premise,hypothesis,label\na,b,n\n{row}\nc,d,e\n")
    message = fault(path)
    assert message.startswith(f"{path}:3: ")
    assert reason in message
    assert len(read(path, on_error="skip")) == 2


@pytest.mark.attack(point=4)
@pytest.mark.parametrize("end", ["", '"', '"x,"', '","\n'])
def test_a_quote_that_swallows_many_rows_ends_the_file(tmp_path, end):
    """Closed by chance or never: nobody knows how many rows are lost."""
    path = tmp_path / "x.csv"
    path.write_text("premise,hypothesis,label\na,b,n\n" + '"c,d,e\n' + "e,f,n\n" * 100 + end)
    *_, pair, last = iterate(path, on_error="skip")
    assert isinstance(pair, Pair)
    assert (last.line, last.is_end) == (3, True)
    assert fault(path).startswith(f"{path}:3: ")


def test_a_text_of_many_lines_is_no_such_row(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("premise,hypothesis,label\n" + '"' + "line\n" * 500 + '",b,n\nc,d,e\n')
    assert [len(pair.premise) for pair in read(path)] == [2500, 1]


@pytest.mark.attack(point=4)
def test_an_unbalanced_quote_is_named_where_it_opens(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('premise,hypothesis,label\na,b,n\n"c,d,e\ne,f,n\ng,h,n\n')
    assert "x.csv:3: " in fault(path, on_error="skip")  # no malformed row: nobody knows how many rows are lost
    assert "not closed by line 5" in fault(path, on_error="skip")
    path.write_text('premise,hypothesis,label\n"c,d,e\ne",f\ng,h,n\n')
    reason = read(path, on_error="skip").malformed[0].reason
    assert "through line 3, 2 lines: an unbalanced double quote" in reason
    path.write_text('premise,hypothesis,label\na,b,"n\n"e",f,n\ng,h,n\n')
    assert "through line 3, 2 lines: an unbalanced double quote" in read(path, on_error="skip").malformed[0].reason


def lines_with_quotes(path, count, places, header="id,premise,hypothesis,label"):
    """Rows of which those at `places` have a stray quote in a column: line number → (column, at its end or not)."""
    rows = [[f"{i}", f"A goat {i}.", "It is a goat.", "n"] for i in range(2, count + 2)]
    for line, (column, at_end) in places.items():
        field = rows[line - 2][column]
        rows[line - 2][column] = field + '"' if at_end else '"' + field
    path.write_text("\n".join([header, *map(",".join, rows)]) + "\n")
    return path


@pytest.mark.parametrize("column", [0, 1, 2, 3])
@pytest.mark.parametrize("last", [902, 163, 110, 106])
@pytest.mark.parametrize("require_label", [True, False])
def test_two_stray_quotes_that_make_a_well_formed_row_end_the_file(tmp_path, column, last, require_label):
    """Once 800 rows of 1000 went this way, with exit 0."""
    path = lines_with_quotes(tmp_path / "x.csv", 1000, {102: (column, False), last: (column, True)})
    *pairs, end = iterate(path, on_error="skip", require_label=require_label)
    assert len(pairs) == 100
    assert (end.line, end.is_end) == (102, True)
    assert f"line {last}" in end.reason
    assert "x.csv:102: " in fault(path, on_error="skip")


@pytest.mark.parametrize(("last", "column"), [(103, 3), (104, 3), (104, 1), (105, 2)])
def test_a_row_that_swallows_few_others_is_malformed_and_says_how_many(tmp_path, last, column):
    path = lines_with_quotes(tmp_path / "x.csv", 1000, {102: (column, False), last: (column, True)})
    found = read(path, on_error="skip")
    assert [bad.line for bad in found.malformed] == [102]
    assert f"through line {last}, {last - 101} lines" in found.malformed[0].reason
    assert len(found) == 1000 - (last - 101)


def test_a_malformed_row_of_fewer_than_64_lines_ends_the_file_too(tmp_path):
    """61 rows were one malformed row."""
    path = lines_with_quotes(tmp_path / "x.csv", 1000, {102: (1, False), 162: (2, True)})
    *_, end = iterate(path, on_error="skip")
    assert (end.line, end.is_end) == (102, True)


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("header", [["premise", "hypothesis"], ["premise", "hypothesis", "label"]])
@pytest.mark.parametrize(
    ("line", "times"),
    [(line, times) for line in ("line", "Yes, he said; and left.", "a,b,c,d,e", "") for times in (1, 2, 500)]
    + [(line, 1) for line in ("It cost 1,000,000.", "a,b", ",,", ";", "x;")],
)
def test_prose_of_many_lines_is_read_as_it_was_written(tmp_path, line, times, header, delimiter):
    for end in ([], ["x"], ["x"] * 500):
        text = "\n".join(["Well", *[line] * times, *end])
        path = tmp_path / "x.csv"
        with path.open("w", newline="") as file:
            rows = [dict.fromkeys(header, "n") | {header[place]: text} for place in (0, 1)]
            writer = csv.DictWriter(file, header, delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        found = read(path, require_label=False)
        assert [(pair.premise, pair.hypothesis) for pair in found] == [(text, "n"), ("n", text)]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_undecodable_lines(tmp_path, name):
    path = tmp_path / name
    good = "a,b,n".replace(",", "\t" if name == "x.tsv" else ",").encode()
    rows = [b"premise,hypothesis,label".replace(b",", b"\t" if name == "x.tsv" else b","), good, b"\xff" + good, good]
    if name == "x.jsonl":
        rows = [
            json.dumps(GOOD).encode(),
            json.dumps(GOOD).encode().replace(b"kite", b"\xff"),
            json.dumps(GOOD).encode(),
        ]
    path.write_bytes(b"\n".join(rows) + b"\n")
    found = read(path, on_error="skip")
    assert len(found) == 2
    assert [(bad.line, bad.reason) for bad in found.malformed] == [(2 if name == "x.jsonl" else 3, "not UTF-8")]
    assert "not UTF-8" in fault(path)


def test_encodings_that_are_not_utf8_are_named(tmp_path):
    (tmp_path / "x.csv").write_text("premise,hypothesis,label\na,b,n\n", encoding="utf-16")
    assert "UTF-16" in fault(tmp_path / "x.csv")
    (tmp_path / "y.csv").write_bytes(b"pr\xe9misse,hypothesis,label\na,b,n\n")
    assert "header is not UTF-8" in fault(tmp_path / "y.csv")


@pytest.mark.parametrize("damage", ["truncated", "overwritten"])
@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz"])
def test_a_damaged_gzip_file_ends_with_one_malformed_row(tmp_path, name, damage):
    # incompressible rows, so that there is something to read before the damage
    rows = [{**GOOD, "premise": f"{i * 7919**40:x}"} for i in range(2000)]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    if name == "x.csv.gz":
        content = "premise,hypothesis,label\n" + "".join(",".join(row.values()) + "\n" for row in rows)
    packed = gzip.compress(content.encode())
    half = len(packed) // 2
    path = tmp_path / name
    path.write_bytes(packed[:half] if damage == "truncated" else packed[:half] + b"\0" * 64 + packed[half + 64 :])
    if damage == "truncated":  # what is overwritten may show as a bad row first
        assert "truncated or damaged" in fault(path)
    assert "truncated or damaged" in fault(path, on_error="skip")  # also for whoever skips: how many are missing?
    *rows, end = iterate(path, on_error="skip")
    found = [row for row in rows if isinstance(row, Pair)]
    assert 0 < len(found) < 2000
    assert end.is_end
    assert found[0].premise == "0"
    assert len(read(path, limit=3)) == 3  # what is not asked for may be missing


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_cut_file_of_a_text_per_line(tmp_path, on_error):
    path = tmp_path / "x.txt.gz"
    path.write_bytes(gzip.compress("".join(f"{i * 7919**40:x}\n" for i in range(2000)).encode())[:-2000])
    texts = []
    with (
        pytest.raises(DataError, match=r"x\.txt\.gz:\d+: the file is truncated or damaged")
        if on_error == "raise"
        else nullcontext()
    ):
        texts.extend(iterate_texts(path, on_error=on_error))
    whole = [text for text in texts if isinstance(text, Text)]
    assert 0 < len(whole) < 2000
    if on_error == "skip":
        assert (texts[-1].line, texts[-1].is_end) == (len(whole) + 1, True)
    assert is_single(path)


@pytest.mark.parametrize("name", ["x.csv", "x.txt.gz", "x.jsonl.gz"])
def test_an_explainer_is_not_fitted_to_part_of_a_file(tmp_path, name):
    """Once 10 texts of 511 were enough, without a word."""
    path = tmp_path / name
    rows = [f"{i * 7919**40:x}" for i in range(2000)]
    if name == "x.csv":
        rows[10] = '"' + rows[10]
        path.write_text("\n".join(["text", *rows]) + "\n")
    else:
        lines = rows if ".txt" in name else [json.dumps({"text": row}) for row in rows]
        path.write_bytes(gzip.compress("\n".join(lines).encode())[:-2000])
    with pytest.raises(DataError, match="truncated or damaged"):
        ground._texts(str(path), {})


def test_a_line_that_is_no_text_is_raised_or_skipped(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"a\n\xff\nb\n")
    with pytest.raises(DataError, match=r"x\.txt:2: "):
        list(iterate_texts(path))
    assert [type(row) for row in iterate_texts(path, on_error="skip")] == [Text, Malformed, Text]


# --- whole files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.tsv.gz"])
def test_empty_files(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"")
    assert "is empty" in fault(path)
    path.write_bytes(b"\n\n  \n")
    assert "no rows" in fault(path)
    if name == "x.csv":
        path.write_bytes(b"premise,hypothesis,label\n")
        assert "no rows below the header" in fault(path)


def test_nothing_left_names_the_counts(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", *[{**GOOD, "label": "-"}] * 3, {**GOOD, "premise": ""})
    message = fault(path, on_error="skip")
    assert "3 rows without gold label, 1 malformed (the first: " in message
    assert "x.jsonl:4: empty premise" in message


def test_missing_files_name_the_nearest(tmp_path):
    jsonl(tmp_path / "pairs.jsonl", GOOD)
    (tmp_path / "other.csv.gz").write_bytes(b"")
    assert f"there is {tmp_path / 'other.csv.gz'}" in fault(tmp_path / "other.csv")
    assert f"there is {tmp_path / 'pairs.jsonl'}" in fault(tmp_path / "pairs.jsonl.gz")
    assert f"there is {tmp_path / 'pairs.jsonl'}" in fault(tmp_path / "pair.jsonl")
    assert "nothing in" in fault(tmp_path / "zzz")
    assert "nor does the folder" in fault(tmp_path / "nowhere" / "x.csv")
    assert "is a folder" in fault(tmp_path)
    (tmp_path / "x.xlsx").write_bytes(b"PK")
    assert "suffix is unknown; allowed: .csv" in fault(tmp_path / "x.xlsx")


def test_one_json_array_is_not_json_lines(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps([GOOD], indent=1))
    assert "one JSON object per line" in fault(path, on_error="skip")


def test_arguments_are_checked_before_anything_is_read(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", GOOD)
    with pytest.raises(DataError, match="'ignore'"):
        iterate(path, on_error="ignore")
    with pytest.raises(DataError, match="does not exist"):
        iterate(tmp_path / "y.jsonl")
    assert "limit 0" in fault(path, limit=0)


def test_limit_name_and_source(tmp_path):
    path = jsonl(tmp_path / "my.pairs.jsonl", *[GOOD] * 3, "broken")
    found = read(path, limit=2)  # does not come as far as the broken row
    assert (len(found), found.name, found.source) == (2, "my.pairs", str(path))
    assert read(path, limit=1, name="mine").name == "mine"


def test_iterate_streams(tmp_path):
    """A row comes before the next one is read."""
    path = jsonl(tmp_path / "x.jsonl", GOOD, "broken", GOOD)
    rows = iterate(path)
    assert isinstance(next(rows), Pair)
    with pytest.raises(DataError, match=":2: "):
        next(rows)
    kinds = [type(row) for row in iterate(path, on_error="skip")]
    assert kinds == [Pair, Malformed, Pair]


def test_iterate_needs_constant_memory(tmp_path):
    import tracemalloc

    row = json.dumps({**GOOD, "premise": "word " * 200}) + "\n"
    path = tmp_path / "x.jsonl"
    path.write_text(row * 4000)  # 4 MB
    tracemalloc.start()
    assert sum(1 for _ in iterate(path)) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


class Piped:
    def __init__(self, content):
        self.buffer = io.BytesIO(content.encode())


@pytest.mark.parametrize(
    "content",
    [
        "premise,hypothesis\na,b\n",
        "\n  premise\thypothesis\na\tb\n",
        '{"sentence1": "a", "sentence2": "b"}\n',
    ],
)
def test_standard_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", Piped(content))
    found = read("-", require_label=False)
    assert list(found) == [Pair("a", "b")]
    assert found.name == "stdin"
    monkeypatch.setattr(sys, "stdin", Piped('{"premise": ""}\n'))
    assert fault("-").startswith("<stdin>:1: ")
    monkeypatch.setattr(sys, "stdin", Piped("[]"))
    assert "one JSON object per line" in fault("-")


def test_a_relative_path_is_named_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jsonl(Path("pairs.jsonl"), *[GOOD] * 16, {**GOOD, "premise": ""})
    assert fault("pairs.jsonl") == "pairs.jsonl:17: empty premise"
