"""Gymnasium games with discrete actions and observations, in words: ``env=gym``."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.environment import NEED_PLAN, Environment, GameRecord, Params, PromptStyle, Rejected, facts_hash
from turngrid.envs.gym import games
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import InvalidAction, Observation, TaskError, TaskRef


class GymEnv(TextEnv):
    """One game at a time; the game's seed determines its start and its draws."""

    ends = ""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._rules = accepted_json(task)
        self._described, self._return = games.known(self._rules["id"]), 0.0
        self._game = games.make(self._rules["id"], self._rules["kwargs"])
        self._state, _ = self._game.reset(seed=self._rules["seed"])
        self._words = games.words(self._game, self._described)
        return self.observe_message("")

    def step_game(self, command: str) -> RawStep:
        if command not in self._words:
            raise InvalidAction(f"There is no action {command!r}.")
        action = int(self._game.action_space.start) + self._words.index(command)
        self._state, reward, over, cut, _ = self._game.step(action)
        self._return += float(reward)
        won = over and games.is_win(self._rules, self._return)
        seen, lost, cut = self.observe_message(""), over and not won, cut and not over
        return RawStep(seen, self._return, won, lost, terminated=over, truncated=cut)

    def observe_message(self, message: str) -> Observation:
        shown = self._described.show(self._game.unwrapped, self._state)
        return super().observe_message(f"{message}\n{shown}" if message else shown)

    def legal_actions(self) -> tuple[str, ...]:
        return self._words

    def expert_actions(self) -> tuple[str, ...]:
        plan, _ = games.shortest_plan(self._game, self._rules, self._return)
        return tuple(self._words[action] for action in plan)


@dataclass(frozen=True)
class GymSettings:
    id: str
    kwargs: dict[str, Any] | None
    winning_return: float | None = field(metadata={"range": (-1e12, 1e12)})
    distinct: bool


class Gym(Environment):
    """The task is the game's id."""

    name = "gym"
    Env = GymEnv
    package = "gymnasium"
    modules = ("gymnasium",)
    install = "pip install gymnasium"
    prompt = PromptStyle("You are playing a game.", "Answer with one of its actions and nothing else.")
    Settings = GymSettings
    lists_actions = True

    @property
    def more_games(self) -> str:  # type: ignore[override]
        return "env.distinct=false lets splits share a game" if self.settings.distinct else ""

    @property
    def rewards(self) -> tuple[str, ...]:  # type: ignore[override]
        """``dense`` divides by the best return, so that must be positive."""
        return ("sparse", "dense") if self._best_return() > 0 else ("sparse",)

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_modules()
        chosen, game = self.settings, games.known(self.settings.id)
        if task != chosen.id:
            raise TaskError(f"env.task={task} follows env.id={chosen.id}; set env.id={task} instead")
        kwargs = {**game.kwargs, **json.loads(json.dumps(chosen.kwargs or {}))}
        games.check_spaces(games.make(task, kwargs))
        winning = game.winning_return if chosen.winning_return is None else chosen.winning_return
        if game is games.OTHER and chosen.winning_return is None:
            raise TaskError(f"env.id={task}: set env.winning_return to the return from which on a game counts as won")
        return {"id": task, "kwargs": kwargs, "winning_return": winning, "distinct": chosen.distinct}

    def max_turns(self, task: str) -> int:
        self.parse_task(task)
        return games.known(task).turns

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        return {**params, "needs_plan": split in NEED_PLAN}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        described = games.known(params["id"])
        rules = {"id": params["id"], "kwargs": {**params["kwargs"], **described.draw(params["kwargs"], seed)}}
        rules |= {"winning_return": params["winning_return"], "seed": seed}
        game = games.make(rules["id"], rules["kwargs"])
        game.reset(seed=seed)
        certain, (plan, earned) = games.is_certain(game), games.shortest_plan(game, rules)
        if not plan and (certain or params["needs_plan"]):
            raise Rejected("it cannot be won" if certain else "no expert plan")
        actions = games.words(game, described)
        seedless = params["distinct"] and certain  # with chance, the seed makes the game too
        facts = [rules["id"], rules["kwargs"], str(getattr(game.unwrapped, "s", None)), None if seedless else seed]
        return GameRecord.written(
            folder,
            rules,
            goal=f"{described.goal} Actions: {', '.join(actions)}.",
            expert_plan=tuple(actions[action] for action in plan),
            fingerprint=facts_hash(facts),
            max_score=max(earned, 0.0) if plan else self._best_return(),
        )

    def _best_return(self) -> float:
        game = games.known(self.settings.id)
        return game.best_return if game is not games.OTHER else max(self.settings.winning_return or 0.0, 0.0)
