"""What the fuzzers share: how many inputs there are, how they are counted, what a good error is, and hostile texts."""

import json
import os
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

BUDGET = int(os.environ.get("NEUROGAME_FUZZ", "0"))  # inputs per test; 0: the few of the ordinary suite
SHORT = 12
COUNTS = os.environ.get("NEUROGAME_FUZZ_COUNTS")  # a folder for the numbers of inputs
ERRORS = (ValueError, TypeError, OSError)
inputs: Counter[str] = Counter()


def fuzz(share=1.0):
    """Hypothesis with as many inputs as the session asks for; in the suite few, and the same ones every time."""
    return settings(
        max_examples=max(2, round(share * (BUDGET or SHORT))),
        derandomize=not BUDGET,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate, *([Phase.shrink] if BUDGET else [])),
        suppress_health_check=list(HealthCheck),
    )


def write_counts():
    """How many inputs this process has tried, by target."""
    if COUNTS and inputs:
        Path(COUNTS, f"{os.getpid()}.json").write_text(json.dumps(inputs))


def in_one_line(error):
    """An error that says something, in one line."""
    said = str(error)
    assert said.strip(), f"{type(error).__name__} without a message"
    assert len(said.splitlines()) == 1, f"{type(error).__name__} of several lines: {said!r}"
    return said


class Outcome:
    """Whether what was tried was refused."""

    refused: str | None = None


@contextmanager
def tried(target, errors=ERRORS):
    """One more input of a target: it may be refused, well, or it must work."""
    inputs[target] += 1
    outcome = Outcome()
    try:
        yield outcome
    except errors as error:
        outcome.refused = in_one_line(error)
    except RuntimeError as error:
        if "dtype" not in str(error) and "not implemented for" not in str(error):
            raise
        outcome.refused = str(error)  # torch's own word on numbers of two types


HOSTILE = [
    "<script>alert(1)</script>",
    '"onload="x',
    "'><img src=x onerror=y>",
    "</title></style><b>",
    "&amp;&#60;&lt",
    "<!--",
    "]]>",
    "\x1b[31mred",
    "\u202eabc",
    "\u2028",
    "\x85",
    "\x00",
    "\u200b",
    "[bold]",
    "{0} %s ${a}",
    "שלום",
    "👨‍👩‍👧",
    "e\u0301\u0301\u0301",
    "[CLS] [SEP] [PAD]",
    "=1+1",
    "a" * 300,
    "the old man",
    "dogs",
]
unicode = st.text(st.characters(), max_size=40)  # halves of surrogate pairs too
texts = st.one_of(st.lists(st.sampled_from(HOSTILE), max_size=6).map(" ".join), unicode)
valid = texts.map(lambda text: text.encode(errors="replace").decode())
scraps = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), unicode, st.binary(max_size=8), st.lists(st.integers())
)


# --- JSON with one thing changed -----------------------------------------------------------------------------------

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 50),
    st.sampled_from([10**6, 10**12, 10**25, -(10**9), 0.5, float("nan"), float("inf"), -1.5]),
    st.sampled_from([[], {}, [1], {"a": 1}, "", "gelu", "cls", "0", "bert", "neurogame", {"model_type": "bert"}]),
    st.text(max_size=5),
)


def spots(found, path=()):
    """Every place in a JSON value."""
    yield path
    entries = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in list(entries)[:40]:
        yield from spots(value, (*path, key))


def changed(found, path, value):
    if not path:
        return value
    copy = dict(found) if isinstance(found, dict) else list(found)
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy
