"""ALFWorld: alfworld's own texts, ALFRED's goal conditions as the score.

A game runs in TextWorld's planner library. The commands, effects and texts equal those of
``textworld.envs.pddl.PddlEnv`` with alfworld's wrappers (tested). PddlEnv takes 0.9 s a reset and
80 ms a step. ``Engine`` takes 4 ms and 1 ms, after 0.2 s for the first reset of a game.
"""

import functools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import fast_downward

from turngrid.envs.alfworld import goal, text
from turngrid.envs.alfworld.text import Arguments, Bindings
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import TASK_TYPE, Observation, TaskRef

NOTHING = "Nothing happens."
YOUR_TASK = "Your task is to: "
_BANNER = "-= Welcome to TextWorld, ALFRED! =-"
_FREE_LIBRARIES: list[Any] = []  # a library cannot be unloaded (2.5 MiB each), so a closed engine's is reused


class Translation(NamedTuple):
    """A problem in the planner's format, without pruning; facts are those of the initial state."""

    sas: bytes
    facts: tuple[tuple[str, Arguments], ...]
    types: dict[str, str]
    parameters: dict[str, tuple[str, ...]]


@functools.lru_cache(maxsize=16)  # 0.5 MB a game
def translate(domain: str, problem: str) -> Translation:
    """Translate a problem, which takes 0.2 s.

    Raises:
        Exception: any exception of the planner's translator, for PDDL that it cannot read.
    """
    kept = sys.argv  # the translator parses and replaces it, and may exit
    try:
        task, sas = fast_downward.pddl2sas(domain, problem)
    except SystemExit as error:
        raise ValueError(f"the planner's translator gave up ({error.code})") from error
    finally:
        sys.argv = kept
    atoms = [atom for atom in task.init if hasattr(atom, "predicate") and atom.predicate != "="]
    return Translation(
        sas=sas.encode(),
        facts=tuple((atom.predicate, tuple(atom.args)) for atom in atoms),
        types={obj.name: obj.type_name for obj in task.objects},
        parameters={action.name: tuple(p.name.strip("?") for p in action.parameters) for action in task.actions},
    )


@dataclass(frozen=True)
class Operator:
    """A command that applies in the present state, as the planner numbers it."""

    number: int
    effects: int
    action: str
    bindings: Bindings


class Engine:
    """A game that is loaded once and reset any number of times; ``load`` may load another one.

    Attributes:
        facts: facts of the present state, by predicate.
        names: the agent's name of each id in the initial state.
    """

    def __init__(self) -> None:
        self._library = _FREE_LIBRARIES.pop() if _FREE_LIBRARIES else fast_downward.load_lib()
        self._commands: dict[str, Operator] | None = None
        self._first: dict[str, set[Arguments]] = {}  # facts of the initial state
        self.facts: dict[str, set[Arguments]] = {}

    def load(self, game: Mapping[str, str]) -> None:
        """Load the content of a game file; raises as ``translate`` and ``text.parse``."""
        self._translation = translate(game["pddl_domain"], game["pddl_problem"])
        self._grammar = text.parse(game["grammar"])
        self._library.load_sas(self._translation.sas)
        self._first = {}
        for predicate, arguments in (*self._translation.facts, *self._state()):
            self._first.setdefault(predicate, set()).add(arguments)
        objects = {obj for facts in self._first.values() for arguments in facts for obj in arguments}
        self.names = goal.demangled(objects)
        entities = {obj: text.Entity(obj, name) for obj, name in self.names.items()}
        self._writer = text.Writer(self._grammar, entities, self._translation.types)

    def reset(self) -> str:
        """Return to the initial state; return alfworld's whole introduction."""
        self._library.load_sas(self._translation.sas)
        self.facts = {predicate: set(facts) for predicate, facts in self._first.items()}
        self._commands = None
        return self._writer.write("#intro#", self.facts, {})

    def step(self, command: str) -> str | None:
        """Apply a command; return the answer, or None if the command does not apply."""
        operator = self.commands.get(command)
        if operator is None:
            return None
        self._apply(operator)
        return self._writer.write(self._grammar.actions[operator.action].feedback_rule, self.facts, operator.bindings)

    @property
    def won(self) -> bool:
        return bool(self._library.check_goal())

    @property
    def task(self) -> str:
        """The task in alfworld's words, or "" if the grammar has none."""
        return self._grammar.task.removeprefix(YOUR_TASK).strip()

    @property
    def commands(self) -> dict[str, Operator]:
        if self._commands is None:
            self._commands = {}
            operators = (fast_downward.Operator * self._library.get_applicable_operators_count())()
            self._library.get_applicable_operators(operators)
            for applicable in operators:
                command, operator = self._read(applicable)
                self._commands.setdefault(command, operator)
        return self._commands

    def _read(self, operator: Any) -> tuple[str, Operator]:
        """Return the command of an operator, which is named by its action and its arguments.

        The translator adds a parameter for each "exists" of a precondition; operators lack those.
        """
        action, *arguments = operator.name.split()
        bindings = dict(zip(self._translation.parameters[action], arguments, strict=False))
        command = self._writer.write(self._grammar.actions[action].template, self.facts, bindings)
        return command, Operator(operator.id, operator.nb_effect_atoms, action, bindings)

    def _apply(self, operator: Operator) -> None:
        effects = (fast_downward.Atom * operator.effects)()
        self._library.apply_operator(operator.number, effects)
        for effect in effects:
            holds, predicate, arguments = _atom(effect.name)
            # the grammar queries "not_inreceptacle", which a removed "inreceptacle" becomes
            removed, added = (f"not_{predicate}", predicate) if holds else (predicate, f"not_{predicate}")
            self.facts.setdefault(removed, set()).discard(arguments)
            self.facts.setdefault(added, set()).add(arguments)
        self._commands = None

    def _state(self) -> Iterator[tuple[str, Arguments]]:
        atoms = (fast_downward.Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        for atom in atoms:
            holds, predicate, arguments = _atom(atom.name)
            if holds:
                yield predicate, arguments

    def close(self) -> None:
        """Return the planner's library for reuse. The object must not be used again."""
        if self._library is not None:
            _FREE_LIBRARIES.append(self._library)
            self._library = None


def _atom(name: str) -> tuple[bool, str, Arguments]:
    """Parse ``Atom holds(agent1, mug)`` or ``NegatedAtom ...``: holds, predicate, arguments."""
    sign, _, rest = name.partition(" ")
    predicate, _, arguments = rest.partition("(")
    return sign == "Atom", predicate, tuple(filter(None, arguments.rstrip(")").split(", ")))


class AlfWorldEnv(TextEnv):
    """One game at a time.

    ``info`` of a step: the goal conditions that hold, their total, and the task type.
    """

    ends = " .!\"'"  # commands match exactly

    def __init__(self, settings: Any = None, *, legal: bool = False, expert: bool = False) -> None:
        super().__init__(settings, legal=legal, expert=expert)
        self._engine = Engine()
        self._loaded = ""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        if self._loaded != task.sha256:
            self._loaded = ""
            self._engine.load(accepted_json(task))
            self._loaded = task.sha256
        introduction = self._engine.reset()
        self._goal = goal.wanted(task.goal)
        self._at_first = self._best = self._goal.met(self._engine.facts)
        self._plan = task.expert_plan
        return self.observe_message(_opening(introduction))

    def step_game(self, command: str) -> RawStep:
        answer = self._engine.step(command)
        won, total = self._engine.won, self._goal.total
        met = total if won else min(self._goal.met(self._engine.facts), total - 1)  # all of them mean a win
        self._best = max(self._best, met)
        self._plan = self._plan[1:] if self._plan[:1] == (command,) else ()  # valid while the agent follows it
        seen = self.observe_message(NOTHING if answer is None else answer)
        info = {"goal_conditions": met, "goal_conditions_total": total, TASK_TYPE: self._goal.task_type}
        score = float(self._best - self._at_first)
        return RawStep(seen, score, won=won, valid=answer is not None, info=info)

    def legal_actions(self) -> tuple[str, ...]:
        return tuple(sorted(self._engine.commands))

    def expert_actions(self) -> tuple[str, ...]:
        return self._plan

    def close_game(self) -> None:
        self._engine.close()


def _opening(introduction: str) -> str:
    """Return alfworld's introduction without its banner and its task, which is shown apart."""
    parts = (part.strip() for part in introduction.split("\n\n"))
    return "\n".join(part for part in parts if part and part != _BANNER and not part.startswith(YOUR_TASK))
