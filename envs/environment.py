"""The interface of a text environment: its tasks, its rewards, how its games are made and run."""

import abc
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

from turngrid.envs import extensions
from turngrid.envs.functions import CALL_FORM, Function
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError, TaskRef
from turngrid.envs.utils.names import nearest
from turngrid.envs.utils.printable import printable

Params = Mapping[str, Any]
HELD_OUT = ("test", "validation")  # splits that are never trained on
NEED_PLAN = ("demonstrations", "pretraining")  # splits whose games must have an expert plan


@dataclass(frozen=True)
class NoSettings:
    """Settings of an environment or a reward that has none."""


class Rejected(Exception):
    """A seed gives no acceptable game; the catalogue records the reason and tries the next seed."""


@dataclass(frozen=True)
class PromptStyle:
    """The agent's role and the form of an action, in short: they begin every episode.

    Attributes:
        action_form: "" if actions are calls; then prompts list the functions.
        functions: actions that the agent may call (``prompt=tool_call``).
    """

    role: str
    action_form: str = ""
    functions: tuple[Function, ...] = ()

    @property
    def how_to_act(self) -> str:
        listed = [function.described for function in self.functions]
        return self.action_form or "\n".join([f"Answer with calls in JSON as {CALL_FORM}, one a line.", *listed])

    @property
    def names_one_action(self) -> bool:
        """Whether answers are told to have one action, though calls are understood as well."""
        return bool(self.action_form and self.functions)


@dataclass(frozen=True)
class GameRecord:
    """A game that was made and, if it has an expert plan, won along it.

    Attributes:
        file: path in the game's folder; "" if the parameters and the seed are the whole game.
        sha256: ``game_record`` sets it: a hash of the file, or of parameters and seed.
        goal: what the agent has to do, unless the first observation says so.
        expert_plan: actions that win (``game_record`` plays them); without them, no demonstration.
        fingerprint: hash of the initial state and the goal as facts, not as words. Seeds with equal
            fingerprints are the same game. Default: the sha256.
        max_score: score of a perfect game.
    """

    file: str = ""
    sha256: str = ""
    goal: str = ""
    expert_plan: tuple[str, ...] = ()
    fingerprint: str = ""
    max_score: float = 1.0

    @classmethod
    def written(cls, folder: Path, facts: Any, *, sort_keys: bool = False, **about: Any) -> Self:
        """Write JSON values as the game's file; return the record, with fields in ``about``."""
        (folder / "game.json").write_text(json.dumps(facts, sort_keys=sort_keys))
        return cls("game.json", **about)

    def task(self, env: str, task: str, params: Params, seed: int, split: str, file: Path) -> TaskRef:
        """Return the game as it is played, from its ``file``."""
        known = {name: value for name, value in vars(self).items() if name != "file"}
        return TaskRef(env, task, params, seed, split, str(file), **known)


def facts_hash(facts: Any) -> str:
    """Return a hash of JSON values."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class Environment(abc.ABC):
    """One family of games. It has no state; a running game is a ``TextEnv``.

    Attributes:
        Settings: frozen dataclass of the keys that this environment adds to the ``env`` node, with
            values in ``conf/env/NAME.yaml``; a field's metadata may have its ``choices``. A setting
            that changes a game must be in its parameters (``parse_task``), which are its cache key.
        Env: class of a running game, which gets the settings, unless ``env`` makes it; the text
            ``module:Class`` if that module imports much.
        package: the installed distribution that the games depend on, "" for none.
        modules, install: what ``check_modules`` looks for, and the command that installs it, by
            default turngrid's extra of the environment's name.
        recipe: version of this environment's own game-making code.
        grades_unfinished: whether an episode that is cut off is graded (``TextEnv.finish``) and may
            be won.
        examples: names of tasks for suggestions; there may be others.
        lists_actions: whether ``Observation.legal`` is all that it accepts (``prompt.admissible``).
        agent_stops: whether the agent may end an episode, as by ``submit``.
        answering: the action that submits an answer, such as ``answer {}``, if each game's
            observations have right answers (``Observation.gold``); "": they have none.
        seats: seat names of a multi-agent game (``Observation.seat``); () if one agent acts alone.
        opponents: the scripted policies of ``turngrid.rollouts.policy`` that can take a seat.
        turns: default limit of turns of an episode, if all tasks have the same.
        more_games: advice if a split has too few games because seeds repeat games; "" for none.
        longest_step_s: seconds of a step at most; ``env.step_deadline_s`` must be larger.
        longest_making_s: seconds after which the making of one game counts as hung.
    """

    name: ClassVar[str]
    rewards: ClassVar[tuple[str, ...]] = ("sparse",)
    prompt: ClassVar[PromptStyle]
    Settings: ClassVar[type] = NoSettings
    Env: ClassVar[type[TextEnv] | str]
    grades_unfinished: ClassVar[bool] = False
    examples: ClassVar[tuple[str, ...]] = ()
    lists_actions: ClassVar[bool] = False
    agent_stops: ClassVar[bool] = False
    answering: ClassVar[str] = ""
    seats: ClassVar[tuple[str, ...]] = ()
    opponents: ClassVar[tuple[str, ...]] = ()
    turns: ClassVar[int] = 24
    more_games: ClassVar[str] = ""
    longest_step_s: ClassVar[float] = 0.0
    longest_making_s: ClassVar[float] = 300.0
    package: ClassVar[str] = ""
    modules: ClassVar[tuple[str, ...]] = ()
    install: ClassVar[str] = ""
    recipe: ClassVar[int] = 1

    def __init__(self, settings: Any = None) -> None:
        """Raise TaskError if a setting is none of its ``choices``."""
        self.settings = self.Settings() if settings is None else settings
        for item in fields(self.settings):
            value, choices = getattr(self.settings, item.name), item.metadata.get("choices")
            if choices and value not in choices:
                near = f"env.{item.name}={nearest(value, choices)}"
                raise TaskError(f"env.{item.name}={value} is unknown; use {near} (choices: {', '.join(choices)})")

    @functools.cached_property
    def version(self) -> str:
        """Version of the games, in their cache key; it must change if a seed gives another game."""
        return f"{self.package}-{metadata.version(self.package)}-{self.recipe}" if self.package else str(self.recipe)

    @abc.abstractmethod
    def parse_task(self, task: str) -> dict[str, Any]:
        """Return the generator's parameters for a task's name, as plain JSON values.

        Raises:
            TaskError: no such task; the message names the nearest choice.
        """

    def unknown(self, task: object, choices: Iterable[str] = ()) -> TaskError:
        """Return the error for a task that is none of the choices, by default ``examples``."""
        return TaskError(f"unknown task {task!r} of {self.name}; use {nearest(task, choices or self.examples)}")

    def check_task(self, task: str) -> None:
        """Raise TaskError, with the nearest task, if one is not in ``examples``; check modules."""
        if task not in self.examples:
            raise self.unknown(task)
        self.check_modules()

    def check_modules(self) -> None:
        """Raise TaskError, with the command that installs it, if one of ``modules`` is missing."""
        if missing := next((module for module in self.modules if find_spec(module) is None), ""):
            command = self.install or f'pip install "turngrid[{self.name}]"'
            raise TaskError(f"env={self.name} needs {missing.replace('_', '-')}: {command}")

    def max_turns(self, task: str) -> int:
        """Return the default limit of turns of an episode."""
        return self.turns

    def optimal_turns(self, params: Params) -> int | None:
        """Return the length of the games' expert plans, or None if it differs from game to game."""
        return None

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """Return the generator's parameters for a split; by default, splits differ only by seed."""
        return dict(params)

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """Return the seeds of listed games, in order; None: those of ``catalogue.SPLITS``.

        Raises:
            TaskError: the games to list are not available.
        """
        return None

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Make a seed's game in ``folder``; equal arguments give equal bytes on every machine.

        By default there is no file: ``TextEnv.reset_game`` makes the game from the task.

        Raises:
            Rejected: the seed gives no game of this task.
        """
        return GameRecord()

    def game_record(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Return the record of ``make_game`` with its hashes, after its expert plan has won.

        Raises:
            Rejected: as ``make_game``, or the expert plan does not win.
        """
        record = self.make_game(params, seed, folder)
        sha256 = self.game_sha256(folder / record.file) if record.file else self.game_address(params, seed)
        same = record.fingerprint or sha256
        record = replace(record, sha256=sha256, goal=printable(record.goal), fingerprint=same)
        if record.expert_plan and not self._wins(record.task("making", "", params, seed, "", folder / record.file)):
            raise Rejected("the expert plan does not win")
        return record

    def _wins(self, task: TaskRef) -> bool:
        """Return whether the last action of a task's expert plan wins, and none before ends it."""
        env = self.new_env()
        try:
            env.reset(task, 0)
            for number, action in enumerate(task.expert_plan, 1):
                result = env.step(action)
                if result.over:
                    return result.won and number == len(task.expert_plan)
            return False
        finally:
            env.close()

    def game_address(self, params: Params, seed: int) -> str:
        """Return a hash of everything that determines a game."""
        return facts_hash([self.name, self.version, dict(params), seed])

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        """Return an object that runs one game after another, by default one of the class ``Env``.

        Args:
            legal: fill ``legal`` in each observation, which takes time.
            expert: fill ``expert``, likewise.
        """
        cls = extensions.load(self.Env) if isinstance(self.Env, str) else self.Env
        return cls(self.settings, legal=legal, expert=expert)

    def new_env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        """Return ``env``, which also takes calls of the environment's functions."""
        env = self.env(legal=legal, expert=expert)
        env.functions = self.prompt.functions
        return env

    def game_sha256(self, game_file: Path) -> str:
        """Return the hash of a game on disk; a game of several files must hash all of them."""
        return hashlib.sha256(game_file.read_bytes()).hexdigest()

    def offers(self, reward: str) -> bool:
        """Return whether a reward is offered; rewards of other packages always are."""
        return reward in self.rewards or ":" in reward or reward in extensions.installed("reward")

    def with_reward(self, params: Params, reward: str) -> dict[str, Any]:
        """Return the generator's parameters for a reward; by default, the same for all."""
        return dict(params)
