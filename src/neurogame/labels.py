"""The labels of natural-language inference: their names, their order, and how a foreign spelling becomes one of them.

This is the one place that knows the order. Everything else speaks of labels by name; a number is a
label only together with the list of names it indexes.
"""

from collections.abc import Mapping, Sequence

LABELS = ("entailment", "neutral", "contradiction")
NON_ENTAILMENT = "non-entailment"  # HANS and other two-way sets: neutral or contradiction
ID2LABEL: dict[int, str] = dict(enumerate(LABELS))
LABEL2ID: dict[str, int] = {name: i for i, name in ID2LABEL.items()}

NO_GOLD = frozenset({"", "-", "-1", "hidden", "none", "null", "nan"})  # how data sets say "annotators did not agree"
_SPELLINGS = {
    **dict.fromkeys(("e", "entail", "entails", "entailed"), "entailment"),
    "n": "neutral",
    **dict.fromkeys(("c", "contradict", "contradicts", "contradictory"), "contradiction"),
    **dict.fromkeys(("non_entailment", "nonentailment", "non entailment"), NON_ENTAILMENT),
    **dict.fromkeys(("not_entailment", "not-entailment", "not entailment"), NON_ENTAILMENT),
}


class UnknownLabelError(ValueError):
    """A label that is none of the names, nor a spelling of one."""


def canonical(label: object, names: Sequence[str] | Mapping[str, str] | None = None) -> str | None:
    """The name of a label in a data file, or None where there is no gold label ("-", −1, missing).

    A label is a name in any case or a usual spelling ("contradictory", "e"). With `names` it may also be an index into
    a list of names, or a key of a mapping to names.
    """
    text = "" if label is None else str(label).strip()
    if isinstance(names, Mapping):
        text = str(names.get(text, text)).strip()
    elif names is not None and _is_integer(text) and int(text) >= 0:
        if int(text) >= len(names):
            raise UnknownLabelError(f"label {text} is out of range: {len(names)} names are given, {list(names)!r:.200}")
        text = names[int(text)]
    lowered = text.lower()
    if lowered in NO_GOLD:
        return None
    name = _SPELLINGS.get(lowered, lowered)
    if name in LABEL2ID or name == NON_ENTAILMENT:
        return name
    hint = "; a number needs the list of names it stands for" if _is_integer(text) else ""
    raise UnknownLabelError(f"label {label!r} is unknown; allowed: {', '.join((*LABELS, NON_ENTAILMENT))}{hint}")


def spelled(name: object) -> str:
    """The canonical spelling of an NLI label ("CONTRADICTION" → "contradiction"); any other name unchanged."""
    try:
        return canonical(name) or str(name)
    except UnknownLabelError:
        return str(name)


def _is_integer(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()
