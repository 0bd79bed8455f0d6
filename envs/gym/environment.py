"""Any gymnasium game with discrete actions and observations, played in words: ``env=gym env.id=FrozenLake-v1``.

``envs.gym.games`` says how a game is told, ``envs.gym.rules`` how it is won; this module makes an environment of them.
``docs/env.md`` says how to add one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected
from envs.games.catalogue import SPLITS
from envs.gym.games import OTHER, known
from envs.gym.rules import expert_plan, is_certain, is_win, make, refuse_untold, replay, shortest_plan, start, words
from envs.text_env import RawStep, TextEnv, accepted_file
from envs.types import Observation, TaskError, TaskRef

SEEDS_A_START = 20


@dataclass(frozen=True)
class GymSettings:
    """``kwargs`` go to ``gymnasium.make``. A game that ends by itself with ``winning_return`` or more was won; None: as
    ``gym_games`` says. ``distinct``: seeds that start the same game count once."""

    id: str
    kwargs: dict[str, Any] | None
    winning_return: float | None = field(metadata={"range": (-1e12, 1e12)})
    distinct: bool


class Gym(Environment):
    """The task is the game's id."""

    name = "gym"
    prompt = PromptStyle("You are playing a game.", "Answer with one of its actions and nothing else.")
    Settings = GymSettings
    lists_actions = True

    @property
    def more_games(self) -> str:
        return "env.distinct=false lets splits share a game" if self.settings.distinct else ""

    @property
    def version(self) -> str:
        return f"gymnasium-{version('gymnasium')}-1"

    @property
    def rewards(self) -> tuple[str, ...]:  # type: ignore[override]
        """A dense reward divides the return by the best one, which penalties alone do not have."""
        return ("sparse", "dense") if self._best_return() > 0 else ("sparse",)

    def parse_task(self, task: str) -> dict[str, Any]:
        chosen, told = self.settings, known(self.settings.id)
        if task != chosen.id:
            raise TaskError(f"env.task={task} follows env.id={chosen.id}; set env.id={task} instead")
        kwargs = {**told.kwargs, **json.loads(json.dumps(chosen.kwargs or {}))}
        refuse_untold(make(task, kwargs))
        winning = told.winning_return if chosen.winning_return is None else chosen.winning_return
        if told is OTHER and chosen.winning_return is None:
            raise TaskError(f"env.id={task}: set env.winning_return to the return from which on a game counts as won")
        return {"id": task, "kwargs": kwargs, "winning_return": winning, "distinct": chosen.distinct}

    def max_turns(self, task: str) -> int:
        self.parse_task(task)
        return known(task).turns

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        return {**params, "needs_walkthrough": split == "demonstrations"}

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """A game with few starts is not searched for more: seeds enough to meet each of them, almost surely."""
        game = make(params["id"], params["kwargs"])
        starts = getattr(game.unwrapped, "initial_state_distrib", None)
        drawn = known(params["id"]).draw(params["kwargs"], 0)
        if starts is None or drawn or not (params["distinct"] and is_certain(game)):
            return None
        first, last = SPLITS[split].first, SPLITS[split].last
        return range(first, min(last, first + SEEDS_A_START * int((starts > 0).sum()) - 1) + 1)

    def scores_only_at_end(self, params: Params) -> bool:
        return params["id"].startswith("FrozenLake") and "reward_schedule" not in params["kwargs"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        told = known(params["id"])
        rules = {"id": params["id"], "kwargs": {**params["kwargs"], **told.draw(params["kwargs"], seed)}}
        rules |= {"winning_return": params["winning_return"], "seed": seed}
        game = start(rules)
        state, plan = getattr(game.unwrapped, "s", None), expert_plan(game, rules)
        if params.get("needs_walkthrough") and not plan:
            raise Rejected("no expert plan")
        file = folder / "game.json"
        file.write_text(json.dumps(rules))
        actions = words(game, told)
        return GameRecord(
            file=file.name,
            sha256=self.game_sha256(file),
            goal=f"{told.goal} Actions: {', '.join(actions)}.",
            expert_plan=tuple(actions[action] for action in plan),
            fingerprint=_fingerprint(rules, state, params["distinct"] and is_certain(game)),
            max_score=max(replay(game, rules, plan)[1], 0.0) if plan else self._best_return(),
        )

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return GymEnv(legal=legal, expert=expert)

    def _best_return(self) -> float:
        told = known(self.settings.id)
        return told.best_return if told is not OTHER else max(self.settings.winning_return or 0.0, 0.0)


class GymEnv(TextEnv):
    """One game at a time. Its own seed fixes where it starts and what it draws; an episode's seed adds nothing."""

    def __init__(self, *, legal: bool = False, expert: bool = False) -> None:
        self._tell_legal, self._tell_expert = legal, expert

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._rules = json.loads(accepted_file(task).read_text())
        self._told, self._goal, self._return = known(self._rules["id"]), task.goal, 0.0
        self._game = make(self._rules["id"], self._rules["kwargs"])
        self._state, _ = self._game.reset(seed=self._rules["seed"])
        self._words = words(self._game, self._told)
        return self.observe_message("")

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).lower()

    def step_game(self, command: str) -> RawStep:
        if command not in self._words:
            return RawStep(self.observe_message(f"There is no action {command!r}."), self._return, valid=False)
        action = int(self._game.action_space.start) + self._words.index(command)
        self._state, reward, over, cut, _ = self._game.step(action)
        self._return += float(reward)
        won = over and is_win(self._rules, self._return)
        return RawStep(
            self.observe_message(""),
            self._return,
            won=won,
            lost=over and not won,
            terminated=over,
            truncated=cut and not over,
        )

    def observe_message(self, message: str) -> Observation:
        shown = self._told.show(self._game.unwrapped, self._state)
        told = self._tell_expert and is_certain(self._game)
        plan = shortest_plan(self._game, self._rules, self._return) if told else None
        return Observation(
            text=f"{message}\n{shown}" if message else shown,
            goal=self._goal,
            legal=self._words if self._tell_legal else (),
            expert=tuple(self._words[action] for action in plan or ()),
        )


def _fingerprint(rules: Params, state: Any, same_start_is_same_game: bool) -> str:
    """Of the start alone where nothing is left to chance; else the seed makes the game too."""
    facts = [rules["id"], rules["kwargs"], str(state), None if same_start_is_same_game else rules["seed"]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
