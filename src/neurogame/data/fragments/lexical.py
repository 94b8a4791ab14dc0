"""What words mean: `antonym` (opposites, co-hyponyms, synonyms) and `kind` (hypernyms)."""

from collections.abc import Callable, Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Verb, plural
from neurogame.data.fragments.lexicon import COLOURS, GOODS, WIDER, Lexicon
from neurogame.data.fragments.phrases import persons
from neurogame.data.fragments.quantifiers import crowds, quantified
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# x and y are opposites of which exactly one holds. z: another property.
_COMPLEMENTARY = """
& {who} {be} {how} | {who} {be} not {how}
{s} {be} {x} | x
{s} {be} {y} | not x
{s} {be} not {x} | not x
{s} {be} not {y} | x
it is true that {s} {be} {x} | x
it is not true that {s} {be} {y} | x
*it is false that {s} {be} {x} | not x
*it is false that {s} {be} {y} | x
~{s} {be} {p} | p
~{s} {be} not {p} | not p
{s} {be} {x} and {p} | x and p
{s} {be} {y} and {p} | not x and p
{s} {be} {x} but not {p} | x and not p
*{s} {be} {y}, not {x} | not x
"""
# x and y are opposites with something in between. vx: very x.
_CONTRARY = """
& {who} {be} {how} | {who} {be} not {how}
{s} {be} {x} | x
{s} {be} {y} | y
{s} {be} not {x} | not x
{s} {be} not {y} | not y
{s} {be} neither {x} nor {y} | not x and not y
it is not true that {s} {be} {x} | not x
*it is false that {s} {be} {y} | not y
{s} {be} very {x} | vx
{s} {be} very {y} | vy
{s} {be} not at all {x} | not x | y
it is true that {s} {be} {y} | y
{s} {be} {x}, not {y} | x
*{s} {be} {y} rather than {x} | y
~{s} {be} {p} | p
~{s} {be} not {p} | not p
{s} {be} {x} and {p} | x and p
*{s} {be} {y} but not {p} | y and not p
*{s} {be} extremely {x} | vx
{s} {be} either {x} or {y} | x or y
"""
# Of one thing that is a member of one set: colours, birthplaces, days.
_ONE_OF = """
{s} {x} | k == 1
{s} {y} | k == 2
{s} {w} | k == 3
{n} {x} | k != 1
{n} {y} | k != 2
{n} {w} | k != 3
{s} {x}, not {y} | k == 1
{s} {y}, not {x} | k == 2
{s} either {x} or {y} | k == 1 or k == 2
{s} either {y} or {w} | k == 2 or k == 3
{s} neither {x} nor {y} | k != 1 and k != 2
*the fact is that {s} {x} | k == 1
*it is not true that {s} {y} | k != 2
*it is false that {s} {x} | k != 1
*the fact is that {s} {w} | k == 3
"""
# What one thing is. Numbers k: 1 an x, 2 a y, 3 another of their kind g, 0 none of these; q a property.
_THING = """
{s} is a {x} | k == 1
{s} is a {y} | k == 2
{s} is not a {x} | k != 1
{s} is not a {y} | k != 2
{s} is a {g} | k != 0
{s} is not a {g} | k == 0
{s} is either a {x} or a {y} | k == 1 or k == 2
{s} is neither a {x} nor a {y} | k == 0 or k == 3
{s} is a {q} {x} | k == 1 and q == 1
{s} is a {q} {y} | k == 2 and q == 1
*{s} is a {x}, not a {y} | k == 1
*it is not true that {s} is a {x} | k != 1
*it is true that {s} is a {g} | k != 0
*{s} is no {g} | k == 0
"""
# x1 and x2 mean the same, y1 and y2 mean the same; x excludes y, and neither may be true.
_VERBS = """
& {who} {x.past} the {o} | {who} did not {x.base} the {o}
{a} {x.past} the {o} | x
{a} {y.past} the {o} | y
{a} did not {x.base} the {o} | not x
{a} did not {y.base} the {o} | not y
the {o} was {x.done} by {a} | x
the {o} was {y.done} by {a} | y
{b} {x.past} the {o} | bx
{b} did not {x.base} the {o} | not bx
{b} {y.past} the {o} | by
{a} {x.past} the {o}, and so did {b} | x and bx
{a} {x.past} the {o}, but {b} {y.past} it | x and by
*it was {a} who {x.past} the {o} | x | x and not bx
*it was {a} who {y.past} the {o} | y | y and not by
*it is not true that {a} {x.past} the {o} | not x
*neither {a} nor {b} {x.past} the {o} | not x and not bx
"""
_SAME = """
& {who} {x.past} the {o} | {who} did not {x.base} the {o}
{a} {x.past} the {o} | x
{a} {y.past} the {o} | x
{a} did not {x.base} the {o} | not x
{a} did not {y.base} the {o} | not x
the {o} was {x.done} by {a} | x
the {o} was {y.done} by {a} | x
{b} {x.past} the {o} | b
{b} {y.past} the {o} | b
{b} did not {x.base} the {o} | not b
{b} did not {y.base} the {o} | not b
both {a} and {b} {x.past} the {o} | x and b
neither {a} nor {b} {y.past} the {o} | not x and not b
*it was {a} who {y.past} the {o} | x | x and not b
*it is not true that {a} {y.past} the {o} | not x
*it is not true that {b} {x.past} the {o} | not b
"""
_SYNONYMS = """
& {who} {be} {how} | {who} {be} not {how}
{s} {be} {x} | x
{s} {be} {y} | x
{s} {be} not {x} | not x
{s} {be} not {y} | not x
~{s} {be} {p} | p
~{s} {be} not {p} | not p
{s} {be} {x} and {p} | x and p
{s} {be} {y} but not {p} | x and not p
{s} {be} neither {y} nor {p} | not x and not p
it is not true that {s} {be} {x} | not x
*the fact is that {s} {be} {y} | x
*it is false that {s} {be} {y} | not x
"""
# pair: subjects: other properties of them
_COMPLEMENTS = """dead/alive:goldfish,spider,beetle,lobster,snail:small,brown,poisonous;
open/closed:shop,gate,window,pharmacy,drawer,bakery:small,new,nearby;
on/off:radio,heater,lamp,oven,television:new,broken,expensive;
awake/asleep:baby,puppy,kitten,toddler,guard:hungry,warm,alone;
present/absent:witness,captain,referee,owner,treasurer:tired,married,retired;
true/false:rumour,story,report,claim:old,famous,complicated;
married/single:pianist,butcher,captain,librarian:tall,famous,happy;
legal/illegal:deal,move,contract,trade:common,old,complicated;visible/invisible:path,star,sign,scar:old,famous,small;
even/odd:number,result,total:large,lucky,surprising;indoors/outdoors:party,ceremony,market,class:noisy,free,popular;online/offline:printer,server,shop,library:new,popular,small;occupied/vacant:seat,flat,cabin,room:small,clean,expensive;vertical/slanted:pole,line,post:red,long,thick;complete/incomplete:puzzle,list,set,file:old,new,expensive"""
_CONTRARIES = """hot/cold:soup,tea,stove,bath,soil:brown,fresh,expensive;
tall/short:sailor,waiter,boxer,guard:married,famous,bald;old/young:shepherd,king,potter,horse:ill,famous,lonely;
rich/poor:duke,tailor,village,family:famous,happy,large;full/empty:bottle,bucket,tank,barrel,hall:green,clean,cold;
heavy/light:crate,parcel,table,bag:green,new,expensive;happy/sad:clown,bride,painter,singer:tall,young,famous;
fast/slow:horse,ferry,runner,train:old,famous,white;expensive/cheap:watch,hotel,wine,coat:new,popular,dark;
loud/quiet:engine,choir,street,crowd:small,local,old;wide/narrow:road,path,stream,corridor:old,clean,dark;
hard/soft:bread,bed,chair,soil:brown,old,warm;strong/weak:rope,magnet,signal,boxer:new,old,foreign;
bright/dark:room,hallway,cellar,shop:small,cold,new;early/late:guest,bus,train,plumber:famous,local,foreign;
sweet/sour:plum,juice,sauce,cherry:red,cheap,fresh;thick/thin:book,wall,blanket,carpet:old,grey,cheap;
brave/cowardly:knight,soldier,prince,guard:old,tall,rich;deep/shallow:well,pond,river,bowl:old,clean,round;
optimistic/pessimistic:mayor,editor,coach,farmer:old,tall,rich"""
_ALIKE = """big/large:box,house,tent,garden,lake:old,cheap,dark;ill/sick:baby,horse,baker,guide:old,hungry,alone;
difficult/hard:exam,puzzle,climb,task:long,new,boring;wealthy/rich:duke,family,widow,merchant:old,famous,friendly;
famous/well-known:poet,chef,singer,painter:young,tall,poor;
correct/right:answer,result,total,spelling:simple,short,surprising;strange/odd:story,sound,smell,hat:old,new,funny;
tiny/very small:insect,flat,boat,island:green,old,beautiful;afraid/scared:puppy,child,sailor,hiker:young,cold,alone;
simple/easy:task,recipe,test,game:new,short,cheap;sleepy/drowsy:guard,driver,cat,baby:old,hungry,warm;
weird/bizarre:plan,film,dream,costume:old,short,funny;vacant/unoccupied:seat,flat,office,cabin:small,cheap,dark;
unhappy/sad:clown,groom,painter,singer:tall,young,famous"""
_SETS = """the {o} is/the {o} is not:colours;{a} was born in/{a} was not born in:cities;
the {e} is on/the {e} is not on:days;{a}'s birthday is in/{a}'s birthday is not in:months;
{a}'s only car is/{a}'s only car is not:colours;the {e} took place in/the {e} did not take place in:cities;
{a} arrived on/{a} did not arrive on:days"""
_OCCASIONS = "wedding exam election auction meeting parade funeral regatta inspection picnic trial"
_SUBJECTS = "the thing in the box;the object on the shelf;{a}'s present;the prize;the thing under the blanket"
_OPPOSED = """accept/reject:offer,invitation,plan,proposal;win/lose:match,race,game,election;
pass/fail:exam,test,course;remember/forget:password,address,recipe;keep/break:promise,agreement;
love/hate:film,soup,song;catch/miss:train,bus,ball;confirm/deny:rumour,report,story;
include/omit:chapter,footnote,photo;support/oppose:plan,law,strike;like/dislike:hat,novel,stew;
obey/disobey:order,rule;approve/veto:budget,design,treaty;solve/misunderstand:riddle,problem"""
_EQUAL = """repair/fix:car,roof,radio,pump;buy/purchase:house,boat,farm;begin/start:course,lesson,letter;
finish/complete:report,course,sculpture;hide/conceal:letter,key,knife;gather/collect:firewood,evidence,rubbish;
choose/select:wine,colour,winner;shut/close:door,gate,window,shop;alter/change:plan,will,menu;
build/construct:shed,tower,boat;obtain/get:permit,loan,visa;cancel/call_off:trip,wedding,strike;
postpone/delay:trip,launch,vote;reject/turn_down:offer,plan,bid;return/give_back:book,money,coat;
discard/throw_away:receipt,box,letter;scare/frighten:horse,child,burglar"""
_LARGE = "small old beautiful strange large lovely"


def antonym(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Opposites with and without a middle, members of one set, and words that mean the same."""

    def opposites(text: str) -> Callable[[Draw], Mapping[str, object]]:
        entries = lexicon.of(text.split(";"))

        def words(draw: Draw) -> Mapping[str, object]:
            pair, subjects, others = draw.one(entries).split(":")
            x, y = pair.split("/") if draw.chance(0.5) else pair.split("/")[::-1]
            subject, be = f"the {draw.one(lexicon.known(subjects))}", draw.one(("is", "was"))
            return {"s": subject, "be": be, "x": x, "y": y, "p": draw.one(others.split(","))}

        return words

    def members(draw: Draw) -> Mapping[str, object]:
        frame, members = draw.one(_SETS.replace("\n", "").split(";")).split(":")
        options = {"colours": lexicon.colours, "cities": lexicon.cities, "days": lexicon.days, "months": lexicon.months}
        (a,), o, e = persons(draw, lexicon, 1), draw.one(lexicon.objects), draw.one(_OCCASIONS.split())
        s, n = frame.format(a=a, o=o, e=e).split("/")
        x, y, w = draw.several(options[members], 3) if len(options[members]) > 2 else draw.several(COLOURS.split(), 3)
        return {"s": s, "n": n, "x": x, "y": y, "w": w}

    def thing(draw: Draw) -> Mapping[str, object]:
        kind = draw.one(GOODS)
        x, y = draw.several(lexicon.kinds[kind], 2)
        subject = draw.one(_SUBJECTS.split(";")).format(a=persons(draw, lexicon, 1)[0])
        return {"s": subject, "x": x, "y": y, "g": kind, "q": draw.one(_LARGE.split())}

    def verbs(text: str) -> Callable[[Draw], Mapping[str, object]]:
        entries = lexicon.of(text.split(";"))

        def words(draw: Draw) -> Mapping[str, object]:
            pair, objects = draw.one(entries).split(":")
            x, y = pair.split("/") if draw.chance(0.5) else pair.split("/")[::-1]
            a, b = persons(draw, lexicon, 2)
            both = {"x": Verb.of(x.replace("_", " ")), "y": Verb.of(y.replace("_", " "))}
            return {"a": a, "b": b, "o": draw.one(objects.split(",")), **both}

        return words

    return (
        fragment("complementary", _COMPLEMENTARY, worlds("x p"), opposites(_COMPLEMENTS), lexicon, ""),
        fragment("contrary", _CONTRARY, worlds("x y p vx vy", _OPPOSITES), opposites(_CONTRARIES), lexicon, ""),
        fragment("synonym", _SYNONYMS, worlds("x p"), opposites(_ALIKE), lexicon, ""),
        fragment("member", _ONE_OF, worlds("k", values=5), members, lexicon, "present"),
        fragment("thing", _THING, worlds("k q", "q < 2", values=4), thing, lexicon, "present"),
        fragment("opposed", _VERBS, worlds("x y bx by", "not (x and y) and not (bx and by)"), verbs(_OPPOSED), lexicon),
        fragment("equal", _SAME, worlds("x b"), verbs(_EQUAL), lexicon),
    )


_OPPOSITES = "not (x and y) and (x or not vx) and (y or not vy)"
# Atoms: what a found: x; y, another of the kind k; r, of the kind but neither; q, an x that is q; n, someone else did.
_FOUND = """
{a} {p.past} a {x} | x
{a} {p.past} a {k} | x or y or r
{a} {p.past} a {y} | y
{a} {p.past} a {q} {x} | q
{a} {p.past} a {x} and a {y} | x and y
{a} {p.past} a {k}, but not a {x} | not x and (y or r)
{a} {p.past} no {x} | not x
{a} {p.past} no {k} | not x and not y and not r
{a} did not {p.base} a {x} | not x
{a} did not {p.base} a {k} | not x and not y and not r
{a} did not {p.base} a {y} | not y
{a} did not {p.base} a {q} {x} | not q
{a} {p.past} neither a {x} nor a {y} | not x and not y
{a} {p.past} no {k} at all | not x and not y and not r
someone {p.past} a {x} | x or n
someone {p.past} a {k} | x or y or r or n
nobody {p.past} a {k} | not x and not y and not r and not n
nobody {p.past} a {x} | not x and not n
*{a} {p.past} at least one {k} | x or y or r
*{a} did not {p.base} any {ks} | not x and not y and not r
*there was no {k} that {a} {p.past} | not x and not y and not r
*it is not true that {a} {p.past} a {x} | not x
*there was a {x} that {a} {p.past} | x
"""
_WHERE = """
there is a {x} in the {l} | x
there is a {k} in the {l} | x or y or r
there is a {y} in the {l} | y
there is a {q} {x} in the {l} | q
there is no {x} in the {l} | not x
there is no {k} in the {l} | not x and not y and not r
there is no {y} in the {l} | not y
there are no {ks} in the {l} | not x and not y and not r
there is a {x} and a {y} in the {l} | x and y
there is neither a {x} nor a {y} in the {l} | not x and not y
there is a {k} in the {l}, but no {x} | not x and (y or r)
the {l} has a {x} in it | x
the {l} has no {k} in it | not x and not y and not r
*in the {l}, there is a {k} | x or y or r
*in the {l}, there is no {x} | not x
*it is not true that there is a {k} in the {l} | not x and not y and not r
"""
_ALL = {
    "every {n} in the {l} was {v.done}": "every",
    "all the {ns} in the {l} were {v.done}": "every",
    "at least one {n} in the {l} was {v.done}": "one",
    "some of the {ns} in the {l} were {v.done}": "some",
    "no {n} in the {l} was {v.done}": "no",
    "none of the {ns} in the {l} were {v.done}": "no",
    "not every {n} in the {l} was {v.done}": "not every",
    "at least one {n} in the {l} was not {v.done}": "one not",
    "*there was no {n} in the {l} that was not {v.done}": "every",
    "*there was no {n} in the {l} that was {v.done}": "no",
    "*there was at least one {n} in the {l} that was {v.done}": "one",
}
_SEEN = "see draw photograph find paint notice describe mention"
_BOUGHT = "buy sell borrow order choose steal"
_DONE = "move photograph label inspect count check mention describe measure"
_STORES = "shop shed cellar garage attic warehouse storeroom yard"
_HABITATS = {"animal": "barn garden park courtyard forest", "plant": "garden park courtyard yard"}


def kind(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """A rose is a flower and a flower is a plant: in upward and downward contexts, and under quantifiers."""
    seen, bought, done = ([Verb.of(base) for base in lexicon.of(text.split())] for text in (_SEEN, _BOUGHT, _DONE))

    def words(draw: Draw) -> Mapping[str, object]:
        k = draw.one(lexicon.kinds)
        x, y = draw.several(lexicon.kinds[k], 2)
        g = WIDER.get(k, k) if draw.chance(0.4) else k
        place = draw.one(_HABITATS[WIDER[k]].split() if k in WIDER else _STORES.split())
        nouns = {"x": x, "y": y, "k": g, "xs": plural(x), "ys": plural(y), "ks": plural(g)}
        (a,), p, v = persons(draw, lexicon, 1), draw.one(seen if k in WIDER else bought), draw.one(done)
        return {**nouns, "a": a, "l": place, "q": draw.one(_LARGE.split()), "p": p, "v": v}

    sorts = {"{x}|{xs}": "x", "{k}|{ks}": "xyr", "{y}|{ys}": "y"}
    quantified_forms = quantified(_ALL, sorts, {"": 1})
    return (
        fragment("found", _FOUND, worlds("x y r q n", "x or not q"), words, lexicon),
        fragment("where", _WHERE, worlds("x y r q", "x or not q"), words, lexicon, "present"),
        fragment("all", quantified_forms, crowds("xyr", "xy", ("x", "xyr", "y"), (1,), most=2), words, lexicon),
    )
