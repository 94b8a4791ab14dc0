"""Bytes in, properties out: the targets of the coverage-guided fuzzer, which hypothesis tries as well.

`readers`: raw bytes as a file of pairs. `html`: raw bytes as the texts, labels and numbers of an explanation, as a
page. Both raise only if a property does not hold.
"""

import gzip
import json
import math
import struct
import tempfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from support import in_one_line

from neurogame._common.records import plain
from neurogame.data.pairs import DataError, Malformed, NoGold, Pair
from neurogame.data.reading import iterate
from neurogame.explanation.record import Explanation
from neurogame.explanation.views.page import fragment, page
from neurogame.labels import LABELS, NON_ENTAILMENT
from neurogame.nli import Prediction

SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt", ".json")
SEEDS = [
    b"premise,hypothesis,label\na,b,e\n",
    b"premise\thypothesis\tlabel\na\tb\tneutral\n",
    b'{"premise": "a", "hypothesis": "b", "label": "e"}\n{"sentence1": "a", "sentence2": "b"}\n',
    b'"premise";"hypothesis";"label"\r\n"a ""b"" c";"d\ne";c\r\n',
    b"\xef\xbb\xbfgold_label\tsentence1\tsentence2\n-\ta\tb\n",
    gzip.compress(b"premise,hypothesis,label\na,b,c\n", mtime=0),
]
WORDS = ("premise", "hypothesis", "label", "sentence1", "gold_label", "entailment", "non-entailment", "null", "-1")


# --- readers ------------------------------------------------------------------------------------------------------


def readers(data: bytes) -> None:
    """A file of any bytes is read as pairs, or refused in one line; gzipped it is read in the same way."""
    first, content = (data[0], data[1:]) if data else (0, b"")
    options = {"require_label": bool(first & 8)}
    if first & 16:
        options["columns"] = {"premise": "a", "hypothesis": "b"}
    if first & 32:
        options["label_names"] = list(LABELS)
    suffix = SUFFIXES[(first & 7) % len(SUFFIXES)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        path.write_bytes(content)
        lenient, strict = rows(path, "skip", **options), rows(path, "raise", **options)
        if not isinstance(strict, str):  # nothing to complain of: both read the same
            assert lenient == strict
            assert not any(isinstance(row, Malformed) for row in strict)
        elif not isinstance(lenient, str):
            assert any(isinstance(row, Malformed) for row in lenient)
        if content and content[:2] != b"\x1f\x8b":
            path.write_bytes(gzip.compress(content, 1))
            assert rows(path, "skip", **options) == lenient


def rows(path, on_error, **options):
    """The rows, each checked; or the one line with which the file is refused."""
    found = []
    try:
        for row in iterate(path, on_error=on_error, **options):
            check_row(row, options["require_label"])
            found.append(row)
    except DataError as error:
        return in_one_line(error)
    assert found
    return found


def check_row(row, labelled):
    if isinstance(row, Pair):
        assert row.premise.strip()
        assert row.hypothesis.strip()
        f"{row.premise}{row.hypothesis}".encode()
        assert row.label in ((*LABELS, NON_ENTAILMENT) if labelled else (*LABELS, NON_ENTAILMENT, None))
        json.dumps(plain(row.extras))
    else:
        assert isinstance(row, Malformed | NoGold)
        assert row.line >= 1
        if isinstance(row, Malformed):
            in_one_line(row)


# --- HTML ---------------------------------------------------------------------------------------------------------

_MEANS = str.maketrans(
    {**dict.fromkeys("<>&", "§"), **dict.fromkeys("\"'", "“")}
)  # to HTML they mean nothing; “ quotes too


class Seen(HTMLParser):
    """A page as a browser reads it: tags with their attributes, and text, in order; all tags closed."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag not in ("script", "iframe", "object", "embed", "link", "img", "form", "base", "a")
        for name, value in attrs:
            assert not name.startswith("on")
            assert "javascript:" not in (value or "").lower() or name in ("title", "aria-label")
        self.found.append((tag, [(name, (value or "").translate(_MEANS)) for name, value in attrs]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.found.append(tag)

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.found.append(data.translate(_MEANS))

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data!r}")

    handle_pi = unknown_decl = handle_comment


def check_page(ex: Explanation) -> None:
    """What a user wrote is text: the page differs in nothing else from that of a harmless text of the same length."""
    drawn = page(ex)
    assert joined(Seen(drawn).found) == joined(Seen(page(disarmed(ex))).found)
    assert drawn[drawn.index("<main>") : drawn.index("</main>")] in fragment(ex)
    again = Explanation.from_dict(json.loads(json.dumps(ex.to_dict())))
    assert again.to_dict() == ex.to_dict()
    assert page(again) == drawn


def joined(found):
    """Runs of text in one piece: the parser may break them at an ampersand."""
    result = []
    for entry in found:
        if isinstance(entry, str) and result and isinstance(result[-1], str):
            result[-1] += entry
        else:
            result.append(entry)
    return result


def disarmed(value):
    """A record with every letter that means something to HTML replaced."""
    if isinstance(value, Explanation):
        parts = {name: disarmed(getattr(value, name)) for name in value.__dataclass_fields__ if name != "prediction"}
        said = value.prediction
        said = replace(
            said,
            label=disarmed(said.label),
            probabilities=disarmed(said.probabilities),
            logits=disarmed(said.logits),
        )
        return replace(value, **parts, prediction=said)
    if isinstance(value, str):
        return value.translate(_MEANS)
    if isinstance(value, dict):
        return {disarmed(key): disarmed(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(disarmed, value))
    return value


def html(data: bytes) -> None:
    """An explanation of any texts, labels and numbers is a page."""
    check_page(explanation(data))


class Source:
    """Bytes taken piece by piece; zeros when they are used up."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        found = self.data[self.at : self.at + size]
        self.at += size
        return found.ljust(size, b"\0")

    def below(self, bound):
        return self.take(1)[0] % bound

    def text(self):
        return self.take(self.below(48)).rstrip(b"\0").decode("utf-8", "replace")

    def number(self):
        found = struct.unpack("<f", self.take(4))[0]
        return found if math.isfinite(found) else float(self.at)


def explanation(data: bytes) -> Explanation:
    """A record with everything that a view may draw, and nothing that no method makes."""
    source = Source(data)
    kind = source.take(1)[0]
    premise, hypothesis = source.text(), source.text()
    words = (*premise.split(), *hypothesis.split()) or ("word",)
    sides = ("premise",) * len(premise.split())
    sides += ("hypothesis",) * (len(words) - len(sides))
    n = len(words)
    names = list(dict.fromkeys([source.text() or "a", source.text() or "b", "neutral"]))
    scores = tuple(source.number() for _ in words)
    share = tuple(abs(math.tanh(score)) for score in scores)
    logits = {name: source.number() for name in names}
    probabilities = dict.fromkeys(names, 1.0 / len(names))
    rows = [[0.0] * n for _ in words]
    for i in range(n):
        for j in range(i):
            rows[i][j] = rows[j][i] = source.number()
    label, swing = names[0], tuple(range(n))[: source.below(3)] if kind & 1 else ()
    unread = sorted({source.below(n) for _ in range(source.below(4))}) if kind & 2 else []
    found = {
        "model": source.text(),
        "explains": "logit",
        "players": n,
        "samples": source.below(200),
        "exact": bool(kind & 4),
        "shapley_se": None if kind & 8 else [abs(source.number()) for _ in words],
        "interactions_se": abs(source.number()),
        "efficiency_gap": abs(source.number()),
        "total": source.number(),
        "outside": source.number(),
        "swing_to": [names[-1]] * len(swing),
        "unread": unread,
        "truncated": [words[i] for i in unread],
        "unknown": [words[0]] if kind & 16 else [],
        "max_length": 40,
        "seconds": abs(source.number()),
        source.text(): source.text(),
    }
    if kind & 32:
        path = [[0.5, *([value] * 3)] for value in share]
        found |= {"converged": bool(kind & 1), "unconverged_heads": 1, "heads": 2, "iterations": 3}
        found |= {"residual": share[0], "spectral_radius": abs(scores[0]), "trajectory": path}
    return Explanation(
        premise=premise,
        hypothesis=hypothesis,
        method="decision",
        level="word",
        target=None if kind & 64 else label,
        contrast=None if kind & 64 or len(names) < 2 else names[1],
        prediction=Prediction(label, probabilities, logits),
        words=words,
        sides=sides,
        scores=scores,
        shapley=scores,
        banzhaf=scores,
        alpha=share if kind & 32 else None,
        field=scores if kind & 32 else None,
        gate=share if kind & 32 else None,
        interactions=None if kind & 128 else tuple(map(tuple, rows)),
        per_head={},
        swing=swing,
        diagnostics=found,
    )


TARGETS = {"readers": readers, "html": html}
