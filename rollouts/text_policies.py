"""Policies that answer in text: the expert, and a random one."""

from __future__ import annotations

import random
from dataclasses import dataclass

from envs.types import EnvError
from rollouts.policy import Action, TurnContext
from rollouts.seeds import request_seed


@dataclass(frozen=True)
class ExpertPolicy:
    """Follows the game's expert plan, which the catalogue replayed to a win.

    Raises:
        EnvError: the plan ended before the game was won, so this is not the accepted game.
    """

    name: str = "expert"

    async def act(self, context: TurnContext) -> Action:
        plan = context.task.expert_plan
        if context.turn >= len(plan):
            raise EnvError(
                f"{context.task.key}: the expert plan of {len(plan)} steps ended without a win; "
                "if the environment now makes other games, change its version"
            )
        return Action(text=plan[context.turn], plan=plan[context.turn :])


@dataclass(frozen=True)
class RandomPolicy:
    """Draws uniformly from the legal commands; seeded, so that an evaluation can be repeated."""

    run_seed: int = 0
    name: str = "random"

    async def act(self, context: TurnContext) -> Action:
        return any_legal(context, dice(self.run_seed, context))


def dice(run_seed: int, context: TurnContext) -> random.Random:
    """Return the random generator of one turn."""
    return random.Random(request_seed(run_seed, context.step, context.prompt, context.sample, context.turn))


def any_legal(context: TurnContext, draw: random.Random) -> Action:
    legal = sorted(context.observation.legal)
    if not legal:
        raise EnvError(f"{context.task.key}: the environment lists no legal commands")
    text = draw.choice(legal)
    return Action(text=text, plan=(text,))
