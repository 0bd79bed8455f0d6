"""Questions over a fictional world, proven on the graph, and their plans: chains of relations, two
conditions on one entity, comparisons of two years, and questions that state their own fact.
"""

from __future__ import annotations

import functools
import random
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from turngrid.envs.environment import Rejected, facts_hash
from turngrid.envs.search.relations import RELATIONS, in_use, keys
from turngrid.envs.search.retrieval import Bm25, Document, GoldFact, cut, shows
from turngrid.envs.search.world import Entity, World, WorldSpec, make_world
from turngrid.envs.types import EnvError

ANSWERS = ("person", "town", "river", "organisation", "year")
_KEPT_PASSAGES = 45_000  # of worlds in memory: 64 worlds of 700 passages, some 60 MB
_kept: dict[WorldSpec, Collection] = {}  # the last used comes last
_TRIES = 200
_START_BY_ALIAS = 0.5  # share of questions that use the alias of a start that has one
# Shares of the questions of so many facts that are no chains. A coin wins half of the comparisons.
_FORMS = {1: {"stated": 0.1}, 2: {"intersection": 0.2, "comparison": 0.1}}


@dataclass(frozen=True)
class Collection:
    """The passages of a world, and an index of them and their titles."""

    world: World
    index: Bm25

    def search(self, query: str, count: int) -> list[Document]:
        best = ((number, self.world.passages[number]) for number in self.index.best(query, count))
        return [Document(str(number), passage.title, passage.sentences) for number, passage in best]

    def gold_fact(self, fact: int) -> GoldFact:
        passage, sentence = self.world.positions[fact]
        return GoldFact(str(passage), self.world.passages[passage].sentences[sentence])


def collection_of(spec: WorldSpec) -> Collection:
    """Return the collection of a world; the last ones stay in memory."""
    collection = _kept.pop(spec, None) or _make_collection(spec)
    _kept[spec] = collection
    while len(_kept) > max(1, _KEPT_PASSAGES // spec.passages):
        del _kept[next(iter(_kept))]
    return collection


def _make_collection(spec: WorldSpec) -> Collection:
    world = make_world(spec)
    return Collection(world, Bm25(f"{passage.title} {' '.join(passage.sentences)}" for passage in world.passages))


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        chain: entities from the start to the answer; in other forms those that the question
            names, and the answer if it is none of them.
        facts: indices of the world's facts that lead to the answer.
        golds: the answer's names.
        plan: the expert's actions: a search for each fact, unless it is stated, and the answer.
        form: ``chain``, or a form of ``_FORMS``.
    """

    text: str
    chain: tuple[int, ...]
    facts: tuple[int, ...]
    golds: tuple[str, ...]
    plan: tuple[str, ...]
    form: str = "chain"


@functools.cache
def paths(hops: int, kind: str) -> tuple[tuple[str, ...], ...]:
    """Return the sequences of so many relations that end at a kind of entity."""
    last = [name for name, relation in RELATIONS.items() if relation.object == kind]
    before = {name: paths(hops - 1, RELATIONS[name].subject) if hops > 1 else ((),) for name in last}
    return tuple((*path, name) for name in last for path in before[name])


def ask(collection: Collection, hops: int, top_k: int, result_chars: int, draw: random.Random) -> Question:
    """Draw a question of so many hops; the kind of its answer is drawn first.

    Args:
        top_k, result_chars: what a search shows; the expert's searches must show all facts.

    Raises:
        Rejected: there is no sound question of that kind.
    """
    kind, world, form = draw.choice(ANSWERS), collection.world, _form(hops, draw)
    for _ in range(_TRIES):
        question = _draw_question(form, world, hops, kind, draw)
        if question and _is_findable(collection, question, top_k, result_chars):
            return _stated(world, question, draw) if form == "stated" else question
    raise Rejected(f"no sound question of {hops} hops that ends at a {kind}")


def _form(hops: int, draw: random.Random) -> str:
    shares = _FORMS.get(hops, {})
    [form] = draw.choices([*shares, "chain"], [*shares.values(), 1 - sum(shares.values())])
    return form


def _draw_question(form: str, world: World, hops: int, kind: str, draw: random.Random) -> Question | None:
    """Return a sound question, or None."""
    if form == "comparison":
        return _comparison(world, draw)
    if form == "intersection":
        return _intersection(world, draw)
    path = draw.choice(paths(hops, kind))
    start = draw.choice(world.of_kind[RELATIONS[path[0]].subject])
    question = _question(world, path, start, draw)
    return question if question and is_sound(world, question) else None


def _comparison(world: World, draw: random.Random) -> Question | None:
    """Ask which of two entities has the earlier year."""
    name = draw.choice([name for name, relation in RELATIONS.items() if relation.object == "year"])
    pair = draw.sample(world.of_kind[RELATIONS[name].subject], 2)
    facts, years = zip(*(world.steps[entity, name] for entity in pair), strict=True)
    one, other = (world.entities[entity] for entity in pair)
    if years[0] == years[1] or one.name == other.name:
        return None
    earlier = one if years[0] < years[1] else other  # years are listed in their order
    text = f"Which has the earlier {RELATIONS[name].noun}, {one.called} or {other.called}?"
    searches = (f"search {entity.called} {keys(name, world.spec.wording)}" for entity in (one, other))
    return Question(text, tuple(pair), facts, earlier.names, (*searches, f"answer {earlier.called}"), "comparison")


def _intersection(world: World, draw: random.Random) -> Question | None:
    """Ask for the one entity that meets two conditions, each of which others meet too."""
    subject = draw.choice(("person", "work", "organisation"))
    fits = [name for name, one in RELATIONS.items() if one.subject == subject and one.object != "year"]
    two = draw.sample([name for name in fits if name != "spouse"], 2)
    answer = draw.choice(world.of_kind[subject])
    facts, objects = zip(*(world.steps[answer, name] for name in two), strict=True)
    having = [
        {fact.subject for fact in world.facts if (fact.relation, fact.object) == condition}
        for condition in zip(two, objects, strict=True)
    ]
    if min(map(len, having)) < 2 or having[0] & having[1] != {answer}:
        return None
    named = [_named(world.entities[number], draw) for number in objects]
    conditions = (f"{name} as {RELATIONS[relation].noun}" for name, relation in zip(named, two, strict=True))
    text = f"{'Who' if subject == 'person' else 'What'} has {' and '.join(conditions)}?"
    golds = world.entities[answer].names
    if world.positions[facts[0]][0] == world.positions[facts[1]][0] or any(mentions(text, gold) for gold in golds):
        return None
    key_words = [keys(relation, world.spec.wording) for relation in two]
    searches = (f"search {name} {words}" for name, words in zip(named, key_words, strict=True))
    plan = (*searches, f"answer {_shown(world, facts[1], answer)}")
    return Question(text, (*objects, answer), facts, golds, plan, "intersection")


def _stated(world: World, question: Question, draw: random.Random) -> Question:
    """Return a question of one fact with this fact before it; a search is not needed."""
    [number] = question.facts
    relation, answer = world.facts[number].relation, world.entities[question.chain[1]].called
    named = question.plan[0].removeprefix("search ").removesuffix(f" {keys(relation, world.spec.wording)}")
    wording = RELATIONS[relation].wordings[draw.choice(in_use(world.spec.wording))]
    fact = wording.of_subject.format(s=named, o=answer)
    text = f"{fact[0].upper()}{fact[1:]}. {question.text}"
    return replace(question, text=text, plan=(f"answer {answer}",), form="stated")


def _named(entity: Entity, draw: random.Random) -> str:
    return entity.alias if entity.alias and draw.random() < _START_BY_ALIAS else entity.called


def _question(world: World, path: tuple[str, ...], start: int, draw: random.Random) -> Question | None:
    """Return the question that follows ``path``; None if it ends on the way."""
    chain, facts = [start], []
    for relation in path:
        fact, entity = world.steps.get((chain[-1], relation), (-1, -1))
        if fact < 0:
            return None
        facts.append(fact)
        chain.append(entity)
    first, last = world.entities[start], world.entities[chain[-1]]
    named = _named(first, draw)
    asked = functools.reduce(lambda inner, relation: RELATIONS[relation].asks.format(inner), path, named)
    text = f"{'Who' if last.kind == 'person' else 'What'} is {asked}?"
    names = [named, *(_shown(world, *step) for step in zip(facts, chain[1:], strict=True))]
    searches = (
        f"search {name} {keys(relation, world.spec.wording)}" for name, relation in zip(names, path, strict=False)
    )
    return Question(text, tuple(chain), tuple(facts), last.names, (*searches, f"answer {names[-1]}"))


def _shown(world: World, fact: int, entity: int) -> str:
    """Return the name of an entity in the sentence of a fact, or else in that passage."""
    passage, sentence = world.positions[fact]
    sentences = world.passages[passage].sentences
    texts = sentences[sentence], " ".join(sentences)
    return next(name for text in texts for name in world.entities[entity].names if mentions(text, name))


def mentions(text: str, name: str) -> bool:
    """Return whether a text contains a name in whole words."""
    return re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE) is not None


def is_sound(world: World, question: Question) -> bool:
    """Return whether no way to the answer is shorter than the chain.

    No entity comes twice, and none is linked to one two or more steps on. The facts stand in
    different passages. No name of the answer is in the question, in the passages of other facts, or
    in those about entities before the last fact's subject.
    """
    chain, sources = question.chain, [world.positions[fact][0] for fact in question.facts]
    shortcuts = ((one, other) for index, one in enumerate(chain) for other in chain[index + 2 :])
    if len({*chain}) < len(chain) or len({*sources}) < len(sources) or any(pair in world.linked for pair in shortcuts):
        return False
    passages = [p for number, p in enumerate(world.passages) if number in sources[:-1] or p.about in chain[:-2]]
    texts = [question.text, *(text for passage in passages for text in passage.sentences)]
    return not any(mentions(text, name) for text in texts for name in question.golds)


def _is_findable(collection: Collection, question: Question, top_k: int, result_chars: int) -> bool:
    searches = (action.removeprefix("search ") for action in question.plan)
    shown = (cut(collection.search(query, top_k), result_chars) for query in searches)
    facts = map(collection.gold_fact, question.facts)
    return all(shows(documents, fact) for documents, fact in zip(shown, facts, strict=False))


def fingerprint(world: World, question: Question) -> str:
    """Return a hash of the facts that lead to the answer."""
    called = [entity.called for entity in world.entities]
    facts = sorted(
        (called[world.facts[f].subject], world.facts[f].relation, called[world.facts[f].object]) for f in question.facts
    )
    return facts_hash(facts)


def content_of(collection: Collection, question: Question) -> dict[str, Any]:
    """Return what a game file holds: the question, what only scorers may read, and the world."""
    facts = [collection.gold_fact(fact) for fact in question.facts if question.form != "stated"]
    hops = len(facts)
    return {
        "question": question.text,
        "golds": question.golds,
        "facts": facts,
        "kind": f"{hops} hop{'s' * (hops > 1)}" if question.form == "chain" else question.form,
        "world": asdict(collection.world.spec),
        "sha256": collection.world.digest,
    }


def collection_in(game: dict[str, Any]) -> Collection:
    """Return the collection that a game file names.

    Raises:
        EnvError: the world of its seed has other passages now.
    """
    collection = collection_of(WorldSpec(**game["world"]))
    if collection.world.digest != game["sha256"]:
        raise EnvError(f"the game's world has other passages in this version: {game['world']}; make the game again")
    return collection
