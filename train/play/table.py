"""At the table: the game as it is shown, and who plays it. Both plug into ``rollouts.loop``, which plays for training."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.types import Observation, StepResult, TaskRef
from rollouts.loop import EpisodeSpec, Session
from rollouts.policy import Action, TurnContext
from train.play.screen import STRAYED, Screen

QUOTES = '"""'


class Leave(Exception):
    """The policy leaves the game: ``to`` restart, next or quit."""

    def __init__(self, to: str) -> None:
        super().__init__(to)
        self.to = to


@dataclass
class ShownSession:
    """A session that shows what happens in it: what is seen, and what each turn scored and would earn."""

    session: Session
    spec: EpisodeSpec
    screen: Screen
    results: list[StepResult] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        seen = await self.session.reset(task, seed)
        self.screen.goal(seen.goal or task.goal)
        self.screen.state(seen, self._status())
        return seen

    async def step(self, action: str) -> StepResult:
        result = await self.session.step(action)
        self.results.append(result)
        self.actions.append(action)
        self.screen.state(result.observation, self._status())
        return result

    async def finish(self) -> StepResult:
        self.screen.show("Cut off, and graded as it stands.", "dim")
        return await self.session.finish()

    def followed(self) -> tuple[int, bool]:
        """Steps of the expert plan that were played in its order, and whether anything else was done in between."""
        plan, done, others = self.spec.task.expert_plan, 0, False
        for action, result in zip(self.actions, self.results, strict=True):
            step = result.valid and done < len(plan) and action.lower() == plan[done].lower()
            done, others = done + step, others or (result.valid and not step)
        return done, others

    def _status(self) -> str:
        played, most, best = len(self.results), self.spec.max_turns, self.spec.task.max_score
        score = sum(result.score_delta for result in self.results)
        over = played == most or (played and (self.results[-1].terminated or self.results[-1].truncated))
        words = [f"{played} of {most} turns played" if over else f"turn {played + 1} of {most}"]
        words.append(f"score {score:.3g}" + (f" of {best:g}" if best > 0 else ""))
        return ", ".join([*words, *self._last_turn()])

    def _last_turn(self) -> list[str]:
        if not self.results:
            return []
        reward: Any = self.spec.reward
        understood = [] if self.results[-1].valid else ["not a valid action"]
        if getattr(reward, "blocking", False):  # it asks somebody over the network: once, at the end
            return [*understood, f"{reward.name} reward at the end"]
        values = reward.turn_rewards(self.results, self.results[-1].won, self.spec.task.max_score)
        return [*understood, f"{reward.name} reward {values[-1]:+.3g}"]


@dataclass
class Human:
    """Asks for an action until one is meant for the game.

    Raises:
        Leave: the policy does.
    """

    screen: Screen
    table: ShownSession
    name: str = "human"

    async def act(self, context: TurnContext) -> Action:
        while True:
            words = self._ask()
            action = self._meant_for_us(words, context)
            if action:
                return Action(text=action)

    def _ask(self) -> str:
        try:
            words = self.screen.ask().strip()
            if words != QUOTES:
                return words
            lines = []
            while (line := self.screen.ask("")).strip() != QUOTES:
                lines.append(line)
            return "!" + "\n".join(lines)
        except EOFError:
            raise Leave("quit") from None

    def _meant_for_us(self, words: str, context: TurnContext) -> str | None:
        """Do what is asked of us; what is left is the action for the game."""
        if words in ("restart", "next", "quit"):
            raise Leave(words)
        if words == "?":
            self.screen.commands(context.observation.legal)
        elif words == "goal":
            self.screen.goal(context.observation.goal or context.task.goal)
        elif words == "plan":
            self.screen.plan(context.task.expert_plan, *self.table.followed())
        elif words == "expert":
            return self._next_step(context.task.expert_plan)
        else:
            return words.removeprefix("!")
        return None

    def _next_step(self, expert_plan: Sequence[str]) -> str | None:
        done, others = self.table.followed()
        if done == len(expert_plan):
            self.screen.plan(expert_plan, done, others)
            return None
        if others:
            self.screen.show(STRAYED, "dim")
        self.screen.show(f"> {expert_plan[done]}", "bold")
        return expert_plan[done]


@dataclass
class ShownExpert:
    """The expert plan, step by step: after a key press, or after ``delay`` seconds."""

    screen: Screen
    delay: float | None
    name: str = "expert"

    async def act(self, context: TurnContext) -> Action:
        action = context.task.expert_plan[context.turn]
        await self._wait()
        self.screen.show(f"> {action}", "bold")
        return Action(text=action)

    async def _wait(self) -> None:
        if self.delay is not None:
            await asyncio.sleep(self.delay)
        elif self.screen.interactive:
            try:
                words = self.screen.ask("(Enter: the next step; restart, next, quit) ").strip()
            except EOFError:
                raise Leave("quit") from None
            if words in ("restart", "next", "quit"):
                raise Leave(words)
