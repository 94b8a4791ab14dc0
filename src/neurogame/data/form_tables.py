"""Tables of forms: one line per form, "template | condition", where the condition is a formula over named atoms.

    *it was {b} who {a} {v.past} | ab
    {a} or {b} {u.past} | a or b | a != b

Marks before a template: "*" held out of training, ">" premise only, "<" hypothesis only, "~" rarely a premise, "^" with
exchanged roles. A second "|" adds a reading; "|p" adds one for the premise alone, "|h" one for the hypothesis alone.
"||" adds a reading that a reader has of all such forms at once, as of both "may" and "might". A pair whose label
depends on the reading is left out of the data. A line "& Z | not Z" names a fact beside the forms; see
`fragments.languages`.

In a table of quantifiers the condition is about `yes` and `no`, how many things of a noun phrase did it and did not.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Any

from neurogame.data.forms import Form, World, worlds

RARE = 0.15  # weight as a premise of forms that are rarely one
_NO_SHARES: Mapping[str, str] = MappingProxyType({})


def table(text: str, end: str = "") -> tuple[Form, ...]:
    """The forms of a table (see the module), with `end` after each template that does not have it elsewhere."""
    return tuple(_form(line, end) for line in text.strip().splitlines() if not line.startswith("&"))


def _form(line: str, end: str) -> Form:
    template, _, first, *others = re.split(r"\s\|([|ph]?)\s", line)
    readings = list(zip(others[::2], others[1::2], strict=True))
    text = template.lstrip("*<>~^")
    marks = template.removesuffix(text)
    return Form(
        template=text + end * (end not in text),
        holds=first,
        roles=int("^" in marks),
        as_premise=tuple(reading for mark, reading in readings if mark != "h"),
        as_hypothesis=tuple(reading for mark, reading in readings if mark != "p"),
        tied=any(mark == "|" for mark, _ in readings),
        sides="p" if ">" in marks else "h" if "<" in marks else "ph",
        held="*" in marks,
        weight=(RARE if "~" in marks else 1.0, 1.0),
    )


def read_section(spec: Mapping[str, Any], shares: Mapping[str, str] = _NO_SHARES) -> tuple[str, tuple[World, ...]]:
    """The table of forms of a section of TOML, and the worlds in which they are true or false.

    Args:
        spec: `forms` and `worlds` (with `axiom` and `values`), or for quantifiers `nouns`, `ends`, `needed` and `most`;
            `fragments/forms.toml` says what they are.
        shares: quantifier → its condition on `yes` and `no`, with readings.
    """
    if "nouns" not in spec:
        return spec["forms"], worlds(spec["worlds"], spec.get("axiom", "True"), spec.get("values", 2))
    nouns, ends = spec["nouns"], spec["ends"]
    lines = _expand_quantifiers(spec["forms"], nouns, ends, shares)
    return lines, _crowds(nouns.values(), ends.values(), spec["needed"], spec.get("most", 3))


def _expand_quantifiers(text: str, nouns: Mapping[str, str], ends: Mapping[str, int], shares: Mapping[str, str]) -> str:
    """A table of quantifiers as one of forms: each line with each noun phrase and each end of the sentence."""
    lines = []
    for line, (noun, sorts), (end, least) in product(text.strip().splitlines(), nouns.items(), ends.items()):
        template, share = line.split(" | ")
        singular, many = noun.split("|")
        form = template.replace("{ns}", many).replace("{n}", singular).replace("{e}", end)
        lines.append(f"{form} | " + re.sub(r"\b(yes|no)\b", rf"\1_{sorts}_{least}", shares.get(share, share)))
    return "\n".join(lines)


def _crowds(nouns: Iterable[str], ends: Iterable[int], needed: str, most: int) -> tuple[World, ...]:
    """The worlds that quantifiers tell apart, with up to `most` things of each sort and degree.

    Of the needed sorts there are at least two things: existential import, and "some dogs" in the plural.
    """
    phrases = list(product(nouns, ends))
    cells = list(product(sorted(set("".join(nouns))), range(max(ends) + 1)))
    different: dict[tuple[object, ...], World] = {}
    for numbers in product(range(most + 1), repeat=len(cells)):
        crowd = dict(zip(cells, numbers, strict=True))

        def count(noun: str, least: int, crowd: Mapping[tuple[str, int], int] = crowd) -> int:
            return sum(number for (sort, degree), number in crowd.items() if sort in noun and degree >= least)

        if all(count(sort, 0) > 1 for sort in needed):
            shares = {(noun, least): (yes := count(noun, least), count(noun, 0) - yes) for noun, least in phrases}
            seen = tuple((min(yes, 2), min(no, 2), yes > no) for yes, no in shares.values())
            world = {f"yes_{noun}_{least}": yes for (noun, least), (yes, _) in shares.items()}
            world |= {f"no_{noun}_{least}": no for (noun, least), (_, no) in shares.items()}
            different.setdefault(seen, world)
    return tuple(different.values())
