"""A fictional world: entities, facts, and the passages that tell them, from a seed alone."""

import functools
import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import NamedTuple

from turngrid.envs.search.relations import RELATIONS, in_use, roots

_SHARES = {"person": 0.45, "town": 0.08, "river": 0.05, "work": 0.27, "organisation": 0.15}
NOBODY = -1  # ``Passage.about`` of distractors
_ENTITIES = 0.31  # for each passage, if every entity is mentioned twice
_NAMESAKES = 0.2  # share of persons who have another's name; their trades differ
_ALIASES = {"person": 0.2, "town": 0.25, "organisation": 0.2}
_BY_ALIAS = 0.5  # share of the mentions of an entity with an alias that use it
_FROM_SUBJECT = 0.75  # share of facts that stand in a passage about their subject
_MENTIONED = {"work": 3, "organisation": 2}  # against once: no namesake hides them
_FACTS_A_PASSAGE = (1, 1, 2, 3)
_TRADES = ("glazier", "cooper", "weaver", "tanner", "potter", "brewer", "mason", "saddler", "carter", "thatcher")
_BEASTS = ("Heron", "Fox", "Badger", "Otter", "Lynx", "Raven", "Stag", "Hare", "Wolf", "Adder", "Crane", "Pike")
_NOUNS = ("Lantern", "Orchard", "Mirror", "Ladder", "Harvest", "Compass", "Garden", "Window", "Ferry", "Winter")
_HOUSES = ("Academy", "Brothers", "Guild", "Company", "Institute", "Society", "Press", "Museum")
_FILLERS = (
    *("Little else is recorded", "The papers on this are few", "So an old chronicle has it", "Nobody doubts it today"),
    *("Later accounts add nothing", "The archive holds a copy", "It is told with some pride", "Other sources are lost"),
)
_MENTIONS = (
    *("A letter about {} lay in an attic for years", "Two travellers quarrelled about {} all evening"),
    *("An old song makes fun of {}", "A drawing of {} was sold at a fair", "A lost diary speaks of {} on every page"),
    *("Children once played a game about {}", "A clerk misspelled {} in three ledgers"),
)


@dataclass(frozen=True)
class WorldSpec:
    """Parameters that determine a world.

    Attributes:
        names: key of ``turngrid.envs.search.relations.CLASSES``.
        passages: their rough number, if ``distractors`` is 2.
        distractors: passages that mention an entity without a fact about it, on average.
        wording: ``usual``, or ``new`` for sentences that no training world has.
    """

    names: str
    number: int
    passages: int
    distractors: float
    wording: str


@dataclass(frozen=True)
class Entity:
    """An entity; ``trade`` distinguishes two persons of one name."""

    kind: str
    name: str
    trade: str = ""
    alias: str = ""
    pronoun: str = "It"

    @property
    def called(self) -> str:
        """The text that names this entity and no other."""
        return f"{self.name} the {self.trade}" if self.trade else self.name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (self.called, self.name, self.alias))))


class Fact(NamedTuple):
    """Indices of entities, and a key of ``RELATIONS``."""

    subject: int
    relation: str
    object: int


class Passage(NamedTuple):
    """``about``: index of an entity."""

    title: str
    sentences: tuple[str, ...]
    about: int


@dataclass(frozen=True)
class World:
    """A world; ``positions`` has each fact's passage and its sentence there, as indices."""

    spec: WorldSpec
    entities: tuple[Entity, ...]
    facts: tuple[Fact, ...]
    passages: tuple[Passage, ...]
    positions: tuple[tuple[int, int], ...]

    @functools.cached_property
    def steps(self) -> dict[tuple[int, str], tuple[int, int]]:
        """For an entity and a relation: the fact's index, and the entity to which it leads."""
        steps = {(fact.subject, fact.relation): (number, fact.object) for number, fact in enumerate(self.facts)}
        couples = [(number, fact) for number, fact in enumerate(self.facts) if fact.relation == "spouse"]
        return steps | {(fact.object, fact.relation): (number, fact.subject) for number, fact in couples}

    @functools.cached_property
    def linked(self) -> frozenset[tuple[int, int]]:
        """Pairs of entities with a fact, in both orders."""
        pairs = [(fact.subject, fact.object) for fact in self.facts]
        return frozenset([*pairs, *((second, first) for first, second in pairs)])

    @functools.cached_property
    def of_kind(self) -> dict[str, list[int]]:
        return _by_kind(self.entities)

    @functools.cached_property
    def digest(self) -> str:
        texts = (f"{passage.title}: {' '.join(passage.sentences)}" for passage in self.passages)
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _by_kind(entities: Iterable[Entity]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for number, entity in enumerate(entities):
        numbers.setdefault(entity.kind, []).append(number)
    return numbers


def make_world(spec: WorldSpec) -> World:
    """Make the world of a spec, in about 20 ms for 700 passages."""
    draw = random.Random(f"search world {sorted(asdict(spec).items())}")
    entities = _entities(spec, draw)
    facts = _facts(entities, draw)
    positions, passages = _passages(entities, facts, spec.wording, draw)
    passages += _mentions(entities, spec.distractors, draw)
    order = draw.sample(range(len(passages)), len(passages))  # the new index of each passage
    shuffled = [passage for _, passage in sorted(zip(order, passages, strict=True))]
    moved = tuple((order[passage], sentence) for passage, sentence in positions.values())
    return World(spec, tuple(entities), tuple(facts), tuple(shuffled), moved)


def _entities(spec: WorldSpec, draw: random.Random) -> list[Entity]:
    counts = {kind: max(2, round(share * _ENTITIES * spec.passages)) for kind, share in _SHARES.items()}
    root = roots(draw, spec.names)
    towns = [_entity("town", next(root), next(root), draw) for _ in range(counts["town"])]
    rivers = [Entity("river", f"River {next(root)}") for _ in range(counts["river"])]
    houses = [
        _entity("organisation", f"{next(root)} {draw.choice(_HOUSES)}", next(root), draw)
        for _ in range(counts["organisation"])
    ]
    works = [Entity("work", title) for title in _titles(counts["work"], root, draw)]
    years = [Entity("year", str(year)) for year in range(1700, 1900)]
    return [*_persons(counts["person"], towns, root, draw), *towns, *rivers, *houses, *works, *years]


def _entity(kind: str, name: str, alias: str, draw: random.Random) -> Entity:
    return Entity(kind, name, alias=alias if draw.random() < _ALIASES[kind] else "")


def _titles(count: int, root: Iterator[str], draw: random.Random) -> list[str]:
    """Return titles of which two each differ in one word, such as Lantern and Mirror."""
    pairs = ((next(root), draw.sample(_NOUNS, 2)) for _ in range((count + 1) // 2))
    return [f"The {noun} of {name}" for name, nouns in pairs for noun in nouns][:count]


def _persons(count: int, towns: list[Entity], root: Iterator[str], draw: random.Random) -> list[Entity]:
    first, last = ([next(root) for _ in range(count // part + 2)] for part in (4, 3))
    pairs = [f"{one} {other}" for one in first for other in last]
    names = draw.sample(pairs, count)
    aliases = draw.sample([f"the {beast} of {town.name}" for beast in _BEASTS for town in towns], 12 * len(towns))
    namesakes = draw.sample(range(count), 2 * round(count * _NAMESAKES / 2))
    trades: dict[int, str] = {}
    for one, other in zip(namesakes[::2], namesakes[1::2], strict=True):
        names[other] = names[one]
        trades[one], trades[other] = draw.sample(_TRADES, 2)
    return [
        Entity("person", name, trades.get(number, ""), _alias(aliases, draw), draw.choice(("He", "She")))
        for number, name in enumerate(names)
    ]


def _alias(aliases: list[str], draw: random.Random) -> str:
    return aliases.pop() if aliases and draw.random() < _ALIASES["person"] else ""


def _facts(entities: list[Entity], draw: random.Random) -> list[Fact]:
    of_kind, facts = _by_kind(entities), []
    for name, relation in RELATIONS.items():
        if name == "spouse":
            persons = draw.sample(of_kind["person"], len(of_kind["person"]))
            facts += [Fact(one, name, other) for one, other in zip(persons[::2], persons[1::2], strict=False)]
            continue
        for subject in of_kind[relation.subject]:
            objects = [number for number in draw.sample(of_kind[relation.object], 2) if number != subject]
            facts.append(Fact(subject, name, objects[0]))
    return facts


def _passages(
    entities: list[Entity], facts: list[Fact], wording: str, draw: random.Random
) -> tuple[dict[int, tuple[int, int]], list[Passage]]:
    """Return each fact's position, and the passages: one to three facts of an entity each."""
    about: dict[int, list[int]] = {}
    for number, fact in enumerate(facts):
        of_subject = draw.random() < _FROM_SUBJECT or RELATIONS[fact.relation].object == "year"
        about.setdefault(fact.subject if of_subject else fact.object, []).append(number)
    positions: dict[int, tuple[int, int]] = {}
    passages: list[Passage] = []
    for entity, numbers in about.items():
        draw.shuffle(numbers)
        while numbers:
            part = [numbers.pop() for _ in range(min(len(numbers), draw.choice(_FACTS_A_PASSAGE)))]
            filler = draw.randint(1, len(part))
            sentences = [
                _sentence(entities, facts[number], entity, wording, number == part[0], draw) for number in part
            ]
            sentences.insert(filler, f"{draw.choice(_FILLERS)}.")
            positions |= {fact: (len(passages), index + (index >= filler)) for index, fact in enumerate(part)}
            passages.append(Passage(entities[entity].name, tuple(sentences), entity))
    return dict(sorted(positions.items())), passages


def _sentence(entities: list[Entity], fact: Fact, about: int, wording: str, first: bool, draw: random.Random) -> str:
    """Return a fact's sentence; only a passage's first sentence names the passage's entity."""
    chosen = RELATIONS[fact.relation].wordings[draw.choice(in_use(wording))]
    topic, other = entities[about], entities[fact.object if about == fact.subject else fact.subject]
    introduced = f"{topic.called}, also called {topic.alias}," if topic.alias else topic.called
    named = introduced if first else topic.pronoun
    mentioned = other.alias if other.alias and draw.random() < _BY_ALIAS else other.called
    if about == fact.subject:
        text = chosen.of_subject.format(s=named, o=mentioned)
    else:
        text = chosen.of_object.format(s=mentioned, o=named)
    return f"{text[0].upper()}{text[1:]}."


def _mentions(entities: list[Entity], distractors: float, draw: random.Random) -> list[Passage]:
    """Return passages of two sentences that mention entities, most often those of few facts."""
    topics = [entity for entity in entities if entity.kind not in ("year", "river")]
    weights = [_MENTIONED.get(entity.kind, 1) for entity in topics]
    passages = []
    for _ in range(round(distractors * len(topics) / 2)):
        two = draw.choices(topics, weights, k=2)
        texts = [text.format(entity.called) for text, entity in zip(draw.sample(_MENTIONS, 2), two, strict=True)]
        sentences = tuple(f"{text}." for text in [*texts, draw.choice(_FILLERS)])
        passages.append(Passage(two[0].name, sentences, NOBODY))
    return passages
