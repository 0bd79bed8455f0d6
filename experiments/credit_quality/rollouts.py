"""How the episodes of one game are rolled out. Here: by policies that answer in text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from experiments.credit_quality.game_tree import GameTree
from rollouts.episode import Episode
from rollouts.loop import EpisodeSpec, run_episode
from rollouts.policy import Action, Policy, TurnContext, any_legal, dice


class Rollouts(Protocol):
    async def roll_out(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        """Episodes of one game, in the order of the specs. Raises: EnvError: the environment failed."""


@dataclass
class TextRollouts:
    policy: Policy

    async def roll_out(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        return [_one_token_a_turn(await run_episode(self.policy, await tree.open(), spec, None)) for spec in specs]


def _one_token_a_turn(episode: Episode) -> Episode:
    """Methods need tokens to place advantages on, and one between two turns; nobody sampled any here."""
    episode.turns = [replace(turn, action_ids=[0], context_ids=[0]) for turn in episode.turns]
    return episode


@dataclass(frozen=True)
class NoisyExpert:
    """Follows what the environment knows of the expert's plan from here, else the game's own plan at this turn; with a chance of
    ``noise``, or where there is neither, it draws from the legal commands."""

    noise: float
    run_seed: int
    name: str = "expert"

    async def act(self, context: TurnContext) -> Action:
        plan = context.observation.expert or context.task.expert_plan[context.turn :]
        draw = dice(self.run_seed, context)
        if draw.random() >= self.noise and plan:
            return Action(text=plan[0], plan=plan)
        return any_legal(context, draw)
