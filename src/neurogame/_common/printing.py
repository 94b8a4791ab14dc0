"""Text for messages: control characters escaped, long words cut, nouns with their number."""

import unicodedata

_HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # control characters, which a terminal interprets
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # change the direction of what follows
_INVISIBLE = {"Cf", "Mn", "Me", "Zs"}
_LONGEST = 60  # characters of a word in a sentence or a table


def printable(word: str) -> str:
    """A word with control characters as escapes; all of a word without visible characters."""
    blank = all(unicodedata.category(c) in _INVISIBLE | _HIDDEN for c in word)

    def shown(c: str) -> str:
        return f"\\u{ord(c):04x}" if blank or c in _BIDI or unicodedata.category(c) in _HIDDEN else c

    return "".join(map(shown, word))


def cut(word: str, most: int = _LONGEST) -> str:
    """`printable`, truncated to `most` characters."""
    shown = printable(word[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def plural(count: int, noun: str) -> str:
    """1 word, 2 words."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
