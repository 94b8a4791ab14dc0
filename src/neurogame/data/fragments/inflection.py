"""English forms of words: verbs (past, participle, third person, -ing), plurals, and phrases that agree."""

from dataclasses import dataclass
from functools import cache

from neurogame.data.fragments.words import ENGLISH

_STRONG, _PLURALS = (
    dict(entry.split(":") for entry in ENGLISH["inflection"][name].split()) for name in ("strong", "plurals")
)
_DOUBLED = ENGLISH["inflection"]["doubled"].split()


@dataclass(frozen=True)
class Verb:
    """The forms of a verb, with what follows it: "lock the door", "locked the door", …"""

    base: str
    past: str
    done: str
    third: str
    ing: str

    @classmethod
    @cache
    def of(cls, phrase: str) -> "Verb":
        """All forms of a phrase such as "lock the door", by the rules of spelling or the list of irregular verbs."""
        base, space, rest = phrase.partition(" ")
        past, done = _STRONG[base].split("/") if base in _STRONG else (_past(base),) * 2
        third = "has" if base == "have" else "is" if base == "be" else _with_s(base)
        forms = (base, past, done, third, _ing(base))
        return cls(*(form + space + rest for form in forms))


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ied"
    return base + base[-1] * (base in _DOUBLED) + "ed"


def _ing(base: str) -> str:
    if base.endswith("e") and not base.endswith("ee") and base != "be":
        return base[:-1] + "ing"
    return base + base[-1] * (base in _DOUBLED) + "ing"


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x", "z", "go", "do")) else "s")


def plural(noun: str) -> str:
    """The plural of a noun ("musical instruments"); of a phrase with "of" that of its head ("pieces of furniture")."""
    head, of, rest = noun.partition(" of ")
    before, space, last = head.rpartition(" ")
    return before + space + (_PLURALS.get(last) or _with_s(last)) + of + rest


class Phrase(str):
    """A noun phrase with the verb forms that agree with it: "{n} {n.was} late"."""

    be: str
    was: str
    has: str

    def __new__(cls, text: str, is_plural: bool = False) -> "Phrase":
        """The phrase, and whether its verb is in the plural."""
        phrase = super().__new__(cls, text)
        phrase.be, phrase.was, phrase.has = ("are", "were", "have") if is_plural else ("is", "was", "has")
        return phrase
