"""Questions over a fictional world: chains of relations, proven on the graph, and their plans."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import re
from dataclasses import asdict, dataclass
from typing import Any

from turngrid.envs.environment import Rejected
from turngrid.envs.search.relations import RELATIONS, keys
from turngrid.envs.search.retrieval import Bm25, Document, GoldFact, cut, shows
from turngrid.envs.search.world import World, WorldSpec, make_world
from turngrid.envs.types import EnvError

HOPS = (1, 2, 3, 4)
ANSWERS = ("person", "town", "river", "organisation", "year")
_KEPT_PASSAGES = 45_000  # of worlds in memory: 64 worlds of 700 passages, some 60 MB
_kept: dict[WorldSpec, Collection] = {}  # the last used comes last
_TRIES = 200
_START_BY_ALIAS = 0.5  # share of questions that use the alias of a start that has one


@dataclass(frozen=True)
class Collection:
    """The passages of a world, and an index of them and their titles."""

    world: World
    index: Bm25

    def search(self, query: str, count: int) -> list[Document]:
        found = ((number, self.world.passages[number]) for number in self.index.best(query, count))
        return [Document(str(number), passage.title, passage.sentences) for number, passage in found]

    def gold_fact(self, fact: int) -> GoldFact:
        passage, place = self.world.told[fact]
        return GoldFact(str(passage), self.world.passages[passage].sentences[place])


def collection_of(spec: WorldSpec) -> Collection:
    """Return the collection of a world; the last ones stay in memory."""
    found = _kept.pop(spec, None) or _made(spec)
    _kept[spec] = found
    while len(_kept) > max(1, _KEPT_PASSAGES // spec.passages):
        del _kept[next(iter(_kept))]
    return found


def _made(spec: WorldSpec) -> Collection:
    world = make_world(spec)
    return Collection(world, Bm25(f"{passage.title} {' '.join(passage.sentences)}" for passage in world.passages))


@dataclass(frozen=True)
class Question:
    """A question whose facts form a chain.

    Attributes:
        chain: entities from the start to the answer.
        facts: indices of the world's facts, one a hop.
        golds: the answer's names.
        plan: the expert's actions: a search for each fact, and the answer.
    """

    text: str
    chain: tuple[int, ...]
    facts: tuple[int, ...]
    golds: tuple[str, ...]
    plan: tuple[str, ...]


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
    kind, world = draw.choice(ANSWERS), collection.world
    for _ in range(_TRIES):
        path = draw.choice(paths(hops, kind))
        start = draw.choice(world.of_kind[RELATIONS[path[0]].subject])
        question = _question(world, path, start, draw)
        if question and is_sound(world, question) and _found(collection, question, top_k, result_chars):
            return question
    raise Rejected(f"no sound question of {hops} hops that ends at a {kind}")


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
    named = first.alias if first.alias and draw.random() < _START_BY_ALIAS else first.called
    asked = functools.reduce(lambda inner, relation: RELATIONS[relation].asks.format(inner), path, named)
    text = f"{'Who' if last.kind == 'person' else 'What'} is {asked}?"
    names = [named, *(_shown(world, *step) for step in zip(facts, chain[1:], strict=True))]
    searches = (
        f"search {name} {keys(relation, world.spec.wording)}" for name, relation in zip(names, path, strict=False)
    )
    return Question(text, tuple(chain), tuple(facts), last.names, (*searches, f"answer {names[-1]}"))


def _shown(world: World, fact: int, entity: int) -> str:
    """Return the name of an entity in the sentence of a fact, or else in that passage."""
    passage, place = world.told[fact]
    sentences = world.passages[passage].sentences
    texts = sentences[place], " ".join(sentences)
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
    chain, told = question.chain, [world.told[fact][0] for fact in question.facts]
    shortcuts = ((one, other) for place, one in enumerate(chain) for other in chain[place + 2 :])
    if len(set(chain)) < len(chain) or len(set(told)) < len(told) or any(pair in world.linked for pair in shortcuts):
        return False
    passages = [p for number, p in enumerate(world.passages) if number in told[:-1] or p.about in chain[:-2]]
    texts = [question.text, *(text for passage in passages for text in passage.sentences)]
    return not any(mentions(text, name) for text in texts for name in question.golds)


def _found(collection: Collection, question: Question, top_k: int, result_chars: int) -> bool:
    """Return whether each search of the expert shows its fact."""
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
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def written(collection: Collection, question: Question) -> str:
    """Return the game file's text: the question, what only scorers may read, and the world."""
    world = collection.world
    facts = [collection.gold_fact(fact) for fact in question.facts]
    hops = len(facts)
    known = {
        "question": question.text,
        "golds": question.golds,
        "facts": facts,
        "kind": f"{hops} hop{'s' * (hops > 1)}",
    }
    return json.dumps({**known, "world": asdict(world.spec), "sha256": world.digest})


def collection_in(game: dict[str, Any]) -> Collection:
    """Return the collection that a game file names.

    Raises:
        EnvError: the world of its seed has other passages now.
    """
    collection = collection_of(WorldSpec(**game["world"]))
    if collection.world.digest != game["sha256"]:
        raise EnvError(f"the game's world has other passages in this version: {game['world']}; make the game again")
    return collection
