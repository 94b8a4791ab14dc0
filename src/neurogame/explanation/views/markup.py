"""What every HTML page here is made of: templates that escape what they are given, and a user's text in one place.

Pages need nothing else: no script, no network, no fonts; light, dark, on a phone.
"""

import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from neurogame.explanation import summary
from neurogame.printing import cut, printable

_HERE = Path(__file__).parent
_STYLE = _HERE.parent / "page.css"
_TITLE = 60  # characters of a text in a title


def render(template: str, **values: Any) -> Markup:
    """A file of `templates`, filled in; every value is escaped unless it is `Markup` already."""
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704  autoescape is on


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "text": text,
        "printable": printable,
        "signed": summary.signed,
        "bare": summary.bare,
        "count": summary.counted,
    }
    environment.globals |= {"summary": summary, "style": style}
    return environment


def style() -> Markup:
    """The rules, all of them below `.ng`."""
    return Markup(_STYLE.read_text(encoding="utf-8"))  # noqa: S704  a file of ours


def text(word: str, most: int | None = None) -> Markup:
    """A user's text, escaped, in a direction of its own; cut after `most` characters."""
    return Markup("<bdi>{}</bdi>").format(printable(word) if most is None else cut(word, most))


def short(sentence: str) -> str:
    """The beginning of a text, in one line."""
    return cut(" ".join(sentence[: 4 * _TITLE].split()), _TITLE)


def direction(sentence: str) -> str:
    """Of the first letter that has one; `dir="auto"` does not look into <bdi>."""
    kinds = (unicodedata.bidirectional(c) for c in sentence)
    return "rtl" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L" else "ltr"
