"""The vocabulary of a fictional world: its relations, and invented names.

A passage states a fact from either side: ``{s}`` is the subject, ``{o}`` the object, and the one
that the passage is about stands first. Each wording has a key word in both sentences, which no
question has.

Each name contains a root, and a hash of a root decides in which splits it may occur, so that no
name of a test world occurs in a training world.
"""

import hashlib
import random
from collections.abc import Iterator
from typing import NamedTuple

HELD_OUT = 3  # index of the wording that only worlds of ``test_split=new_wording`` use
# 16 classes of roots, by the worlds in which they occur
CLASSES = {"train": range(10), "validation": range(10, 12), "test": range(12, 16)}
_BEGINNINGS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kr", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "au", "ei", "ia")
_ENDS = ("d", "k", "l", "lm", "ln", "m", "n", "nd", "r", "rk", "rn", "s", "sk", "st", "t", "th", "v", "x")


class Wording(NamedTuple):
    """A sentence about the subject, and one about the object ("" if there is none)."""

    key: str
    of_subject: str
    of_object: str = ""


class Relation(NamedTuple):
    """A relation, by which each subject has one object.

    ``asks``: a noun phrase of questions; ``{}`` is the subject.
    """

    subject: str
    object: str
    asks: str
    wordings: tuple[Wording, ...]

    @property
    def noun(self) -> str:
        """The relation alone, such as ``birth year``."""
        return self.asks.removeprefix("the ").removesuffix(" of {}")


def _relation(subject: str, object: str, asks: str, *wordings: tuple[str, ...]) -> Relation:
    return Relation(subject, object, asks, tuple(Wording(*wording) for wording in wordings))


RELATIONS: dict[str, Relation] = {
    "birthplace": _relation(
        *("person", "town", "the birthplace of {}"),
        ("world", "{s} came into the world in {o}", "{o} saw {s} come into the world"),
        ("cradle", "{s} had a cradle in {o}", "{o} keeps the cradle of {s}"),
        ("world", "{s} came into the world one winter in {o}", "{o} saw {s} come into the world one winter"),
        ("breath", "{s} drew a first breath in {o}", "{o} heard {s} draw a first breath"),
    ),
    "employer": _relation(
        *("person", "organisation", "the employer of {}"),
        ("post", "{s} held a post at {o}", "{o} gave a post to {s}"),
        ("wages", "{s} drew wages from {o}", "{o} paid wages to {s}"),
        ("post", "{s} took up a post with {o}", "{o} filled a post with {s}"),
        ("desk", "{s} had a desk at {o}", "{o} had a desk for {s}"),
    ),
    "teacher": _relation(
        *("person", "person", "the teacher of {}"),
        ("pupil", "{s} was a pupil of {o}", "{o} had {s} as a pupil"),
        ("lessons", "{s} took lessons from {o}", "{o} gave lessons to {s}"),
        ("pupil", "{s} set out as a pupil under {o}", "{o} took in {s} as a pupil"),
        ("apprentice", "{s} was an apprentice to {o}", "{o} had {s} as an apprentice"),
    ),
    "spouse": _relation(
        *("person", "person", "the spouse of {}"),
        ("wed", "{s} wed {o}", "{o} wed {s}"),
        ("marriage", "{s} entered a marriage with {o}", "{o} entered a marriage with {s}"),
        ("wed", "{s} wed {o} in a small chapel", "{o} wed {s} in a small chapel"),
        ("vows", "{s} exchanged vows with {o}", "{o} exchanged vows with {s}"),
    ),
    "birth year": _relation(
        *("person", "year", "the birth year of {}"),
        ("baptism", "{s} had a baptism in {o}"),
        ("infant", "{s} was an infant in {o}"),
        ("baptism", "{s} received baptism in {o}"),
        ("newborn", "{s} was newborn in {o}"),
    ),
    "author": _relation(
        *("work", "person", "the author of {}"),
        ("written", "{s} was written by {o}", "{o} has written {s}"),
        ("penned", "{s} was penned by {o}", "{o} penned {s}"),
        ("written", "{s} was written in haste by {o}", "{o} has written {s} in haste"),
        ("composed", "{s} was composed by {o}", "{o} composed {s}"),
    ),
    "publisher": _relation(
        *("work", "organisation", "the publisher of {}"),
        ("printed", "{s} was printed by {o}", "{o} printed {s}"),
        ("sale", "{s} went on sale through {o}", "{o} put {s} on sale"),
        ("printed", "{s} was printed on fine paper by {o}", "{o} printed {s} on fine paper"),
        ("issued", "{s} was issued by {o}", "{o} issued {s}"),
    ),
    "publication year": _relation(
        *("work", "year", "the publication year of {}"),
        ("appeared", "{s} appeared in {o}"),
        ("readers", "{s} found readers in {o}"),
        ("appeared", "{s} appeared at last in {o}"),
        ("came", "{s} came out in {o}"),
    ),
    "founder": _relation(
        *("organisation", "person", "the founder of {}"),
        ("established", "{s} was established by {o}", "{o} established {s}"),
        ("brought", "{s} was brought into being by {o}", "{o} brought {s} into being"),
        ("established", "{s} was established with the savings of {o}", "{o} established {s} with all savings"),
        ("launched", "{s} was launched by {o}", "{o} launched {s}"),
    ),
    "seat": _relation(
        *("organisation", "town", "the seat of {}"),
        ("headquarters", "{s} has its headquarters in {o}", "{o} has the headquarters of {s}"),
        ("building", "{s} keeps its main building in {o}", "{o} has the main building of {s}"),
        ("headquarters", "{s} moved its headquarters to {o}", "{o} received the headquarters of {s}"),
        ("hall", "{s} meets in a hall in {o}", "{o} has the hall in which {s} meets"),
    ),
    "founding year": _relation(
        *("organisation", "year", "the founding year of {}"),
        ("opened", "{s} opened in {o}"),
        ("members", "{s} took its first members in {o}"),
        ("opened", "{s} opened its doors in {o}"),
        ("began", "{s} began in {o}"),
    ),
    "river": _relation(
        *("town", "river", "the river at {}"),
        ("banks", "{s} lies on the banks of {o}", "{o} has {s} on its banks"),
        ("water", "{s} takes its water from {o}", "{o} gives water to {s}"),
        ("banks", "{s} grew along the banks of {o}", "{o} feeds mills on its banks in {s}"),
        ("bridge", "{s} has a bridge over {o}", "{o} passes below a bridge in {s}"),
    ),
    "mayor": _relation(
        *("town", "person", "the mayor of {}"),
        ("governed", "{s} is governed by {o}", "{o} has governed {s}"),
        ("council", "{s} asked {o} to lead its council", "{o} leads the council of {s}"),
        ("governed", "{s} has long been governed by {o}", "{o} has long governed {s}"),
        ("elected", "{s} elected {o} as its head", "{o} was elected head of {s}"),
    ),
    "eponym": _relation(
        *("town", "person", "the eponym of {}"),
        ("name", "{s} takes its name from {o}", "{o} gave a name to {s}"),
        ("memory", "{s} was so called in memory of {o}", "{o} lives on in the memory of {s}"),
        ("name", "{s} owes its name to {o}", "{o} left a name to {s}"),
        ("honour", "{s} was so called in honour of {o}", "{o} had the honour of a town called {s}"),
    ),
}


def keys(relation: str, wording: str) -> str:
    """Return the words with which the expert searches for a relation: all its key words in use."""
    return " ".join(dict.fromkeys(RELATIONS[relation].wordings[number].key for number in in_use(wording)))


def in_use(wording: str) -> tuple[int, ...]:
    """Return the indices of the wordings of a world, which ``wording`` names: usual or new."""
    return (HELD_OUT,) if wording == "new" else tuple(range(HELD_OUT))


def root_class(root: str) -> int:
    return hashlib.blake2b(root.encode(), digest_size=1).digest()[0] % 16


def roots(draw: random.Random, names: str) -> Iterator[str]:
    """Yield distinct roots of a world of ``names``, a key of ``CLASSES``.

    There are 580,000 spellings, of which each kind of world may use an eighth or more.
    """
    seen = set()
    while True:
        sounds = _BEGINNINGS, _VOWELS, _BEGINNINGS, _VOWELS, _ENDS
        root = "".join(map(draw.choice, sounds)).capitalize()
        if root not in seen and root_class(root) in CLASSES[names]:
            seen.add(root)
            yield root
