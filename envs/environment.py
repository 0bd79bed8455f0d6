"""What a text environment declares: its tasks, its rewards, how its games are made and how they are played."""

from __future__ import annotations

import abc
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from envs import extensions
from envs.functions import Function
from envs.text_env import TextEnv

Params = Mapping[str, Any]


@dataclass(frozen=True)
class NoSettings:
    """An environment without settings of its own."""


class Rejected(Exception):
    """This seed gives no acceptable game; the catalogue records the reason and goes on to the next seed."""


@dataclass(frozen=True)
class PromptStyle:
    """Who the agent is and what an action looks like: the first words of every episode, so they are short.

    ``functions``: the same actions as functions, where they are that (``prompt=tool_call``).
    """

    role: str
    action_form: str
    functions: tuple[Function, ...] = ()


@dataclass(frozen=True)
class GameRecord:
    """A game that was made, and won along its expert plan if it has one. What is left out is filled in.

    Args:
        file: relative to the folder it was made in; without one, the parameters and the seed are the whole game.
        sha256: covers everything that playing the game reads; by default the file, or the parameters and the seed.
        goal: what the agent has to do, unless the first observation's ``goal`` says so.
        expert_plan: actions that win; a game without them gives no demonstration.
        fingerprint: hashes the initial state and the goal as facts, not as words: two seeds with the same one are one
            game. By default the sha256.
        max_score: the score of a perfect game.
    """

    file: str = ""
    sha256: str = ""
    goal: str = ""
    expert_plan: tuple[str, ...] = ()
    fingerprint: str = ""
    max_score: float = 1.0


class Environment(abc.ABC):
    """One family of games. An environment is stateless; whatever is played lives in its ``TextEnv``.

    ``Settings`` types the keys of the ``env`` node that this environment adds to everybody's: a frozen dataclass
    whose values are in ``conf/env/NAME.yaml``. What a setting changes in a game goes into the game's parameters (``parse_task``),
    which are its address in the cache.
    ``grades_unfinished``: an episode that is cut off is graded as it stands (``TextEnv.finish``), and may be won; such
    an environment has no limit of turns of its own.
    ``examples``: names of tasks to offer where one is asked for; there may be others.
    ``lists_actions``: what its observations call ``legal`` is all that it would accept (``prompt.admissible``).
    ``agent_stops``: the agent may end an episode when it likes, as by ``submit``.
    """

    name: ClassVar[str]
    rewards: ClassVar[tuple[str, ...]] = ("sparse",)
    prompt: ClassVar[PromptStyle]
    Settings: ClassVar[type] = NoSettings
    grades_unfinished: ClassVar[bool] = False
    examples: ClassVar[tuple[str, ...]] = ()
    lists_actions: ClassVar[bool] = False
    agent_stops: ClassVar[bool] = False

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    @property
    def more_games(self) -> str:
        """What to do, in an error's words, where a split has too few games since seeds give the same one; empty: nothing."""
        return ""

    @property
    def longest_step_s(self) -> float:
        """Seconds that one step may rightly take; ``env.step_deadline_s`` has to be more. 0: a step takes no time."""
        return 0.0

    @property
    def longest_making_s(self) -> float:
        """Seconds after which the making of one game counts as hung."""
        return 300.0

    @property
    def version(self) -> str:
        """Changes whenever the same seed would give another game; part of the cache's address."""
        return "1"

    @abc.abstractmethod
    def parse_task(self, task: str) -> dict[str, Any]:
        """From the task's name to what its generator needs, as plain JSON values.

        Raises:
            TaskError: no such task; the message names the nearest valid choice.
        """

    def max_turns(self, task: str) -> int:
        """The number of turns that an episode of this task lasts unless the user says otherwise."""
        return 24

    def optimal_turns(self, params: Params) -> int | None:
        """The length of the games' expert plans where the parameters fix it; None where it differs from game to
        game."""
        return None

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """The generator's parameters for one split; most environments' splits differ by their seeds alone."""
        return dict(params)

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """The seeds of a split whose games are listed rather than drawn, in order; None: ``catalogue.SPLITS`` says.

        Raises:
            TaskError: what should be listed is not there.
        """
        return None

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Make the game of one seed inside ``folder``; the same arguments give the same bytes on every machine.

        By default every seed is a game, which ``TextEnv.reset_game`` makes of ``task.params`` and ``task.seed``.

        Raises:
            Rejected: the seed gives no game of the asked kind.
        """
        return GameRecord()

    def game_record(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Return what ``make_game`` returns, with the hashes that it left out."""
        record = self.make_game(params, seed, folder)
        sha256 = record.sha256
        if not sha256:
            sha256 = self.game_sha256(folder / record.file) if record.file else self.game_address(params, seed)
        return replace(record, sha256=sha256, fingerprint=record.fingerprint or sha256)

    def game_address(self, params: Params, seed: int) -> str:
        """Hash all that decides which game it is."""
        parts = json.dumps([self.name, self.version, dict(params), seed], sort_keys=True)
        return hashlib.sha256(parts.encode()).hexdigest()

    @abc.abstractmethod
    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        """An agent's side of this environment, for one game at a time and reusable for the next.

        ``legal`` and ``expert`` fill the fields of that name in each observation; both cost time.
        """

    def game_sha256(self, game_file: Path) -> str:
        """Identifies a game on disk; an environment whose games are more than one file hashes all of them."""
        return hashlib.sha256(game_file.read_bytes()).hexdigest()

    def offers(self, reward: str) -> bool:
        """A reward that comes from elsewhere is offered too: whoever chooses it knows what it reads."""
        return reward in self.rewards or ":" in reward or reward in extensions.installed("reward")

    def with_reward(self, params: Params, reward: str) -> dict[str, Any]:
        """The generator's parameters for a reward; most environments score the same game whatever the reward."""
        return dict(params)

    def scores_only_at_end(self, params: Params) -> bool:
        """True where the score moves only on the winning step, so that a dense reward equals a sparse one."""
        return False
