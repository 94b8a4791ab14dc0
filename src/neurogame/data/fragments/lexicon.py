"""The words of the fragments, each class in two parts: words of training pairs, and words held out for dev and test.

A word is held out if the CRC of its text is a multiple of five, so it is held out of every class it is in. A class
too small for that is shared by both parts, as function words are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from zlib import crc32

from neurogame.data.fragments.inflection import Verb

FEWEST = 2  # words that a class must have held out; otherwise it is shared

PEOPLE = """cook baker pilot sailor tailor gardener plumber farmer teacher butcher carpenter librarian waiter singer
dancer painter driver barber cleaner engineer chemist electrician postman porter guard miner soldier dentist surgeon
clerk cashier florist jeweller locksmith mechanic builder roofer weaver potter shepherd priest monk poet novelist
journalist editor translator photographer detective firefighter referee goalkeeper boxer skier climber landlord tenant
neighbour guest visitor customer traveller passenger juggler magician clown drummer pianist guitarist caretaker janitor
welder bricklayer beekeeper ranger diplomat mayor knight duke optician pharmacist receptionist lifeguard hunter
blacksmith upholsterer gymnast wrestler"""
NAMES = """Anna Ben Clara David Emma Felix Grace Henry Irene Jack Karen Liam Maria Nina Oscar Paula Quentin Rosa Simon
Tina Ursula Victor Wendy Yusuf Zoe Amir Bella Carlo Diana Elena Fiona George Hannah Ivan Julia Kevin Laura Martin Nora
Olga Peter Rachel Samuel Teresa Umar Vera Walter Xenia Yara Adam Bruno Celia Dora Edgar Flora Gustav Hugo Ingrid Jonah
Kamal Linda Miguel Naomi Omar Priya Ravi Sofia Tariq Viola Wanda Emil Farid Greta Hana Ibrahim Joan Keiko Leo Mina"""
MANNERS = """young old tall cheerful quiet friendly nervous polite tired famous retired clever grumpy shy curious
patient lonely wealthy stubborn modest elderly bearded"""  # of people, before the noun
MOODS = """tired;hungry;famous;married;worried;angry;busy;popular;afraid of dogs;ready;sick;alone;employed;proud;
bored;lucky;rich;homesick;jealous;in love;in debt;on holiday"""  # of people, after "is"
COLOURS = "red blue green yellow black white brown grey purple pink golden"
LOOKS = """old new small big heavy cheap expensive beautiful ugly dusty strange plain shiny dirty worn modern faded
valuable damp"""  # of things
# transitive, people to people, none of them symmetric
DEEDS = """greet tease interrupt follow warn praise blame insult photograph invite visit ignore phone scold startle
rescue forgive trick nudge congratulate criticise distract guide chase catch watch teach annoy amuse
comfort copy push tickle email hire search bother betray protect threaten pester bribe carry wake find
question applaud escort mock film sketch flatter serve train coach sue report imitate poke kiss calm
surprise accuse pat lift kick"""
ACTS = """wave laugh sneeze cough smile whistle yawn cry sing nod leave stumble apologise complain snore bow blush faint
hesitate shrug sigh whisper frown jump kneel groan hiccup blink clap knit limp juggle pray shiver wink scream jog salute
confess pause protest stutter"""
TASKS = """lock the door;water the plants;call a taxi;pay the bill;open the letter;close the window;feed the hens;wash
the dishes;book a table;sign the form;return the keys;buy the tickets;finish the report;charge the phone;send the
parcel;turn off the oven;clean the kitchen;mow the lawn;repair the fence;take the medicine;pack the bags;set the
alarm;post the card;empty the bin;cross the river;find the key;answer the email;bake a cake;sweep the floor;read the
contract;paint the gate;order the flowers;check the tyres;print the map;wake the children;move the piano;hang up the
coat;deliver the milk;lift the box;light the fire;solve the puzzle;climb the wall"""
KINDS = {
    "bird": "sparrow robin owl eagle parrot duck goose pigeon crow swan magpie seagull",
    "fish": "salmon trout herring shark carp eel tuna",
    "insect": "bee wasp ant beetle moth butterfly mosquito ladybird grasshopper",
    "mammal": "dog cat horse cow sheep goat rabbit donkey hamster fox squirrel wolf otter hedgehog badger",
    "flower": "rose tulip daisy lily orchid sunflower daffodil poppy",
    "tree": "oak birch pine maple willow elm beech",
    "tool": "hammer saw drill spanner screwdriver chisel shovel rake axe",
    "musical instrument": "violin piano flute trumpet drum guitar cello harp clarinet banjo",
    "vehicle": "car truck bus tram van lorry motorbike tractor taxi",
    "fruit": "apple pear plum peach cherry lemon melon banana mango apricot fig grape coconut grapefruit strawberry",
    "vegetable": "carrot onion leek cabbage potato turnip parsnip radish",
    "piece of furniture": "table chair sofa wardrobe desk bookcase stool armchair",
    "piece of clothing": "jacket shirt scarf coat skirt sweater blouse cardigan",
    "boat": "canoe ferry yacht kayak raft dinghy gondola lifeboat",
    "piece of jewellery": "ring necklace bracelet brooch choker chain",
    "toy": "doll kite puzzle rattle teddy hoop marble",
}
WIDER = {"bird": "animal", "fish": "animal", "insect": "animal", "mammal": "animal", "flower": "plant", "tree": "plant"}
GOODS = (
    "tool",
    "musical instrument",
    "vehicle",
    "fruit",
    "vegetable",
    "piece of furniture",
    "piece of clothing",
    "toy",
)
OBJECTS = """umbrella camera book newspaper basket bucket lamp mirror clock ladder rope blanket cushion kettle
saucepan bottle candle carpet painting vase letter parcel wallet key watch phone laptop pencil notebook map ticket
backpack telescope tent lantern teapot pillow jug"""
PLACES = """garden kitchen library station market school park office harbour bakery church hotel factory theatre cafe
barn workshop stadium hospital square cellar courtyard gym bank cinema pharmacy"""
CITIES = """Lisbon Berlin Dublin Oslo Madrid Vienna Prague Athens Cairo Lima Toronto Boston Kyoto Mumbai Nairobi Geneva
Naples Warsaw Helsinki Sydney"""
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
MONTHS = "January February March April June July August September October November December"
WHEN = """on Monday;on Tuesday;on Thursday;on Saturday;last week;last night;yesterday;this morning;in March;in the
summer;at noon;during the break;after lunch;at the weekend;in the evening;before breakfast"""
WHERE = """in the garden;at the station;in the park;at the market;in the kitchen;on the train;at the party;in the
library;on the beach;at the airport;outside the church;at the harbour;in the corridor;on the stairs"""


@dataclass(frozen=True)
class Lexicon:
    """The words of one part, by class."""

    people: tuple[str, ...]
    names: tuple[str, ...]
    manners: tuple[str, ...]
    colours: tuple[str, ...]
    looks: tuple[str, ...]
    deeds: tuple[Verb, ...]
    acts: tuple[Verb, ...]
    tasks: tuple[Verb, ...]
    kinds: dict[str, tuple[str, ...]]
    objects: tuple[str, ...]
    places: tuple[str, ...]
    cities: tuple[str, ...]
    days: tuple[str, ...]
    months: tuple[str, ...]
    when: tuple[str, ...]
    where: tuple[str, ...]
    is_held: bool

    def of(self, entries: Iterable[str]) -> tuple[str, ...]:
        """The entries of this part; see `part`."""
        return part(entries, self.is_held)

    def known(self, words: str) -> tuple[str, ...]:
        """Words separated by commas without the people of the other part; all, if the held-out part has none."""
        every = tuple(words.split(","))
        chosen = tuple(word for word in every if word not in PEOPLE.split() or is_held(word) == self.is_held)
        return chosen if chosen or not self.is_held else every


def is_held(word: str) -> bool:
    """Whether a word is kept for dev and test."""
    return crc32(word.encode()) % 5 == 0


def part(entries: Iterable[str], held: bool) -> tuple[str, ...]:
    """The entries of a class that are held out, or those that are not.

    Args:
        entries: the words or phrases of a class; of an entry with a colon, what stands before it decides.
        held: which part.

    Returns:
        The part in order; all entries, in both parts, if fewer than `FEWEST` would be held out.
    """
    every = tuple(" ".join(entry.split()) for entry in entries)
    chosen = tuple(entry for entry in every if is_held(entry.partition(":")[0]))
    if len(chosen) < FEWEST:
        return every
    return chosen if held else tuple(entry for entry in every if entry not in chosen)


def _shared(text: str) -> tuple[str, ...]:
    return tuple(" ".join(entry.split()) for entry in text.split(";"))


@cache
def lexicon(held: bool) -> Lexicon:
    """All words of one part.

    Args:
        held: the words kept for dev and test, or those of training.

    Returns:
        The words by class.
    """

    def words(text: str) -> tuple[str, ...]:
        return part(text.split(";") if ";" in text else text.split(), held)

    def verbs(text: str) -> tuple[Verb, ...]:
        return tuple(map(Verb.of, words(text)))

    kinds = {kind: words(text) for kind, text in KINDS.items()}
    return Lexicon(
        people=words(PEOPLE),
        names=words(NAMES),
        manners=words(MANNERS),
        colours=words(COLOURS),
        looks=words(LOOKS),
        deeds=verbs(DEEDS),
        acts=verbs(ACTS),
        tasks=verbs(TASKS),
        kinds=kinds,
        objects=words(OBJECTS),
        places=words(PLACES),
        cities=words(CITIES),
        days=tuple(DAYS.split()),
        months=tuple(MONTHS.split()),
        when=_shared(WHEN),
        where=_shared(WHERE),
        is_held=held,
    )
