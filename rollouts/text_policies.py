"""Policies that answer in text: the expert, and one that draws uniformly from the legal commands."""

from __future__ import annotations

import random
from dataclasses import dataclass

from envs.types import EnvError
from rollouts.policy import Action, TurnContext
from rollouts.seeds import request_seed


@dataclass(frozen=True)
class ExpertPolicy:
    """Follows the expert plan that the catalogue replayed to a win.

    Raises:
        EnvError: the expert plan ran out before the game was won, so the game is not the one that was accepted.
    """

    name: str = "expert"

    async def act(self, context: TurnContext) -> Action:
        plan = context.task.expert_plan
        if context.turn >= len(plan):
            raise EnvError(
                f"{context.task.key}: the expert plan of {len(plan)} steps ended without a win; "
                "if the environment makes other games now, change its version"
            )
        return Action(text=plan[context.turn], plan=plan[context.turn :])


@dataclass(frozen=True)
class RandomPolicy:
    """Uniform over the commands that the environment would accept; seeded, so that an evaluation can be repeated."""

    run_seed: int = 0
    name: str = "random"

    async def act(self, context: TurnContext) -> Action:
        return any_legal(context, dice(self.run_seed, context))


def dice(run_seed: int, context: TurnContext) -> random.Random:
    """For what is drawn in one turn."""
    return random.Random(request_seed(run_seed, context.step, context.prompt, context.sample, context.turn))


def any_legal(context: TurnContext, draw: random.Random) -> Action:
    legal = sorted(context.observation.legal)
    if not legal:
        raise EnvError(f"{context.task.key}: the environment lists no legal commands to draw from")
    text = draw.choice(legal)
    return Action(text=text, plan=(text,))
