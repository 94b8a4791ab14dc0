"""What every HTML page here is made of: a document that loads nothing, and a user's text, escaped, in one place."""

import unicodedata
from html import escape
from importlib import resources

from neurogame.explanation.record import Explanation
from neurogame.printing import cut, printable

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, body: str) -> str:
    """A whole page: no script, no network, no fonts; light, dark, on a phone. `title` is text, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(printable(title))}</title>\n<style>\nhtml, body {{ margin: 0; }}\n{style()}</style>\n"
        f'</head>\n<body class="ng">\n{body}\n</body>\n</html>\n'
    )


def style() -> str:
    """The rules, all of them below `.ng`."""
    return resources.files("neurogame.explanation").joinpath("page.css").read_text(encoding="utf-8")


def text(word: str, most: int | None = None) -> str:
    """A user's text, escaped, in a direction of its own; cut after `most` characters."""
    return f"<bdi>{escape(printable(word) if most is None else cut(word, most))}</bdi>"


def placed(ex: Explanation, i: int) -> str:
    """A word and the text it stands in."""
    return f'{text(ex.words[i], 40)}<span class="tag">{ex.sides[i]}</span>'


def short(sentence: str, most: int = 60) -> str:
    """The beginning of a text, in one line."""
    return cut(" ".join(sentence[: 4 * most].split()), most)


def direction(sentence: str) -> str:
    """Of the first letter that has one; `dir="auto"` does not look into <bdi>."""
    found = (unicodedata.bidirectional(c) for c in sentence)
    return "rtl" if next((kind for kind in found if kind in ("L", "R", "AL")), "L") != "L" else "ltr"
