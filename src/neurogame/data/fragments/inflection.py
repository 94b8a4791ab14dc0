"""English forms of words: verbs (past, participle, third person, -ing), plurals, and phrases that agree."""

from dataclasses import dataclass

_STRONG = """leave:left/left go:went/gone come:came/come sing:sang/sung swim:swam/swum begin:began/begun
fall:fell/fallen see:saw/seen hear:heard/heard find:found/found catch:caught/caught teach:taught/taught give:gave/given
send:sent/sent lend:lent/lent sell:sold/sold buy:bought/bought bring:brought/brought throw:threw/thrown
tell:told/told show:showed/shown take:took/taken pay:paid/paid read:read/read write:wrote/written eat:ate/eaten
drink:drank/drunk win:won/won lose:lost/lost keep:kept/kept break:broke/broken speak:spoke/spoken wake:woke/woken
set:set/set shut:shut/shut make:made/made build:built/built draw:drew/drawn hide:hid/hidden forget:forgot/forgotten
know:knew/known think:thought/thought say:said/said feel:felt/felt understand:understood/understood
kneel:knelt/knelt weep:wept/wept hold:held/held lead:led/led feed:fed/fed sweep:swept/swept ride:rode/ridden
drive:drove/driven steal:stole/stolen mow:mowed/mown sit:sat/sat stand:stood/stood rise:rose/risen fly:flew/flown
run:ran/run sleep:slept/slept hang:hung/hung cut:cut/cut dig:dug/dug beat:beat/beaten shake:shook/shaken get:got/got
choose:chose/chosen mean:meant/meant burn:burned/burned swear:swore/sworn have:had/had light:lit/lit
forgive:forgave/forgiven tear:tore/torn hit:hit/hit sew:sewed/sewn misunderstand:misunderstood/misunderstood
fight:fought/fought ring:rang/rung be:was/been"""
_IRREGULAR = {base: forms.split("/") for base, _, forms in (entry.partition(":") for entry in _STRONG.split())}
_DOUBLED = """nod trip sob jog grin hum slip drop plan knit hug stop tap step plug mop chat clap swim begin win sit
run set shut cut dig get snap pat strum admit forget grab shrug omit hit label wrap"""
_PLURALS = """sheep:sheep goose:geese salmon:salmon trout:trout fish:fish mouse:mice scarf:scarves knife:knives
loaf:loaves shelf:shelves person:people foot:feet woman:women man:men child:children wolf:wolves calf:calves half:halves
fisherman:fishermen postman:postmen leaf:leaves potato:potatoes tomato:tomatoes mango:mangoes cod:cod
deer:deer"""
_IRREGULAR_PLURALS = dict(pair.split(":") for pair in _PLURALS.split())


@dataclass(frozen=True)
class Verb:
    """The forms of a verb, with what follows it: "lock the door", "locked the door", …"""

    base: str
    past: str
    done: str
    third: str
    ing: str

    @classmethod
    def of(cls, phrase: str) -> "Verb":
        """From the base form and what follows it, such as "lock the door".

        Args:
            phrase: the verb in its base form, then the rest of the phrase.

        Returns:
            All its forms, by the rules of spelling or the list of irregular verbs.
        """
        base, space, rest = phrase.partition(" ")
        past, done = _IRREGULAR.get(base) or (_past(base),) * 2
        third = "has" if base == "have" else "is" if base == "be" else _with_s(base)
        forms = (base, past, done, third, _ing(base))
        return cls(*(form + space + rest for form in forms))


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ied"
    return base + base[-1] * (base in _DOUBLED.split()) + "ed"


def _ing(base: str) -> str:
    if base.endswith("e") and not base.endswith("ee") and base != "be":
        return base[:-1] + "ing"
    return base + base[-1] * (base in _DOUBLED.split()) + "ing"


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x", "z", "go", "do")) else "s")


def plural(noun: str) -> str:
    """The plural of a noun; of a phrase with "of", that of its first word ("pieces of furniture").

    Args:
        noun: a noun in the singular, perhaps with words before it ("musical instrument").

    Returns:
        The noun in the plural.
    """
    head, of, rest = noun.partition(" of ")
    before, space, last = head.rpartition(" ")
    return before + space + (_IRREGULAR_PLURALS.get(last) or _with_s(last)) + of + rest


class Phrase(str):
    """A noun phrase with the verb forms that agree with it: "{n} {n.was} late"."""

    is_plural: bool

    def __new__(cls, text: str, is_plural: bool = False) -> "Phrase":
        """The phrase, and whether its verb is in the plural."""
        phrase = super().__new__(cls, text)
        phrase.is_plural = is_plural
        return phrase

    @property
    def be(self) -> str:
        """is or are."""
        return "are" if self.is_plural else "is"

    @property
    def was(self) -> str:
        """was or were."""
        return "were" if self.is_plural else "was"

    @property
    def has(self) -> str:
        """has or have."""
        return "have" if self.is_plural else "has"
