"""One game in TextWorld's planner library: which commands apply, what they change, whether the goal holds.

It plays what ``textworld.envs.pddl.PddlEnv`` plays with alfworld's wrappers, and says the same words. What differs is
the cost: a problem is translated once and not twice a reset, and a command is written once a game.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fast_downward

from envs.alfworld import pddl, text
from envs.alfworld.text import Arguments, Bindings
from envs.alfworld.translate import argv_kept, translated

NOTHING = "Nothing happens."
_FREE_LIBRARIES: list[Any] = []  # a library cannot be unloaded, so it is handed on when its game is closed


@dataclass(frozen=True)
class GameText:
    """The parts of a game file that playing it needs."""

    domain: str
    grammar: str
    problem: str


class Engine:
    """A game that is loaded once and reset any number of times; ``load`` may be called again with another."""

    def __init__(self) -> None:
        self._library = _FREE_LIBRARIES.pop() if _FREE_LIBRARIES else fast_downward.load_lib()
        self._buffer = (fast_downward.Operator * 256)()
        self._game: GameText | None = None
        self._writer: text.Writer | None = None
        self._commands: dict[str, int] | None = None
        self._written: dict[int, tuple[str, str, Bindings]] = {}  # by operator: action, command, what it is done to
        self._effects: dict[int, int] = {}
        self._first: dict[str, set[Arguments]] = {}  # the facts that hold at first
        self.facts: dict[str, set[Arguments]] = {}

    def load(self, game: GameText, folder: Path | None = None) -> None:
        """``folder`` is where the game's translation may lie.

        Raises:
            Exception: the grammar or the PDDL cannot be read.
        """
        if game == self._game:
            return
        self._game = None
        self._translated = translated(game.domain, game.problem, folder)
        self._grammar = text.parse(game.grammar)
        self._game, self._writer = game, None
        self._written, self._effects, self._first = {}, {}, {}

    def forget(self) -> None:
        """Drop the game: one that failed to load leaves no whole one behind."""
        self._game = None

    def reset(self) -> str:
        """Go back to the first state; returns alfworld's whole introduction."""
        self._library.load_sas(zlib.decompress(self._translated.sas))
        if not self._first:
            for predicate, arguments in (*self._translated.facts, *self._state()):
                self._first.setdefault(predicate, set()).add(arguments)
        self.facts = {predicate: set(found) for predicate, found in self._first.items()}
        self._commands = None
        return self._write("#intro#", {})

    def step(self, command: str) -> str | None:
        """Apply a command; returns the answer, None where the command does not apply (``NOTHING`` happens)."""
        operator = self.commands.get(command)
        if operator is None:
            return None
        self._apply(operator)
        action, _, bindings = self._written[operator]
        return self._write(self._grammar.actions[action].feedback, bindings)

    @property
    def won(self) -> bool:
        return bool(self._library.check_goal())

    @property
    def task(self) -> str:
        """The line that tells the task, "" in a grammar of another form."""
        return self._grammar.task

    @property
    def commands(self) -> dict[str, int]:
        """The commands that apply now, each with the planner's number of its operator."""
        if self._commands is None:
            self._commands = {}
            count = self._library.get_applicable_operators_count()
            if count > len(self._buffer):
                self._buffer = (fast_downward.Operator * (2 * count))()
            self._library.get_applicable_operators(self._buffer)
            for operator in self._buffer[:count]:
                self._effects[operator.id] = operator.nb_effect_atoms
                if operator.id not in self._written:
                    self._written[operator.id] = self._read(operator.name)
                self._commands.setdefault(self._written[operator.id][1], operator.id)
        return self._commands

    def _read(self, operator: str) -> tuple[str, str, Bindings]:
        """Action, command and bindings of an operator, which the planner names by its action and its arguments.

        The translator adds a parameter for each "exists" of a precondition; operators leave those out. Templates ask
        only where receptacles stand, which never changes.
        """
        action, *arguments = operator.split()
        bindings = dict(zip(self._translated.parameters[action], arguments, strict=False))
        return action, self._write(self._grammar.actions[action].template, bindings), bindings

    def plan(self) -> list[str]:
        """Commands from here to the goal by TextWorld's planner; nothing where it finds none. May take minutes.

        Raises: Exception as ``translated`` does.
        """
        assert self._game is not None
        with argv_kept():
            _, sas = fast_downward.pddl2sas(self._game.domain, self._game.problem, optimize=True)
        self._library.load_sas_replan(sas.encode())
        if not self._library.replan(False):
            return []
        found = (fast_downward.Operator * self._library.get_last_plan_length())()
        self._library.get_last_plan(found)
        return [self._read(operator.name)[1] for operator in found]

    def _apply(self, number: int) -> None:
        effects = (fast_downward.Atom * self._effects[number])()
        self._library.apply_operator(number, effects)
        for effect in effects:
            holds, predicate, arguments = _atom(effect.name)
            # "not_inreceptacle" is a fact of its own once something was taken away: the grammar asks for it.
            gone = f"not_{predicate}" if holds else predicate
            here = predicate if holds else f"not_{predicate}"
            self.facts.setdefault(gone, set()).discard(arguments)
            self.facts.setdefault(here, set()).add(arguments)
        self._commands = None

    def _state(self) -> Iterator[tuple[str, Arguments]]:
        atoms = (fast_downward.Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        for atom in atoms:
            holds, predicate, arguments = _atom(atom.name)
            if holds:
                yield predicate, arguments

    @property
    def names(self) -> dict[str, str]:
        """What each thing of the game is called."""
        things = {thing for found in self._first.values() for arguments in found for thing in arguments}
        return pddl.demangled(things)

    def _write(self, template: str, bindings: Bindings) -> str:
        if self._writer is None:
            entities = {thing: text.Entity(thing, name) for thing, name in self.names.items()}
            self._writer = text.Writer(self._grammar, entities, self._translated.types)
        return self._writer.write(template, self.facts, bindings)

    def close(self) -> None:
        """Hand the planner's library on. The object is not used again."""
        if self._library is not None:
            _FREE_LIBRARIES.append(self._library)
            self._library = None


def _atom(name: str) -> tuple[bool, str, Arguments]:
    """``Atom holds(agent1, mug)`` or ``NegatedAtom ...``: whether it holds, its predicate, its arguments."""
    sign, _, rest = name.partition(" ")
    predicate, _, arguments = rest.partition("(")
    return sign == "Atom", predicate, tuple(filter(None, arguments.rstrip(")").split(", ")))
