"""Policies whose credit can be measured: language models, and policies that answer in text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from turngrid.envs.types import EnvError
from turngrid.experiments.credit_quality.game import GameTree, Rollouts
from turngrid.experiments.evaluation.policies import PolicyRef
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.lockstep import LockstepBatch, Slot
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import Policy, RandomPolicy, Reply, TurnContext, any_legal, dice
from turngrid.rollouts.sampling import Sample, SampleRequest, SamplingParams
from turngrid.tasks.run import Run

if TYPE_CHECKING:
    from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules


@dataclass
class TextRollouts:
    """A policy that answers in text."""

    policy: Policy

    async def roll_out(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        return [_one_token_a_turn(await run_episode(self.policy, await tree.open(), spec, None)) for spec in specs]


def _one_token_a_turn(episode: Episode) -> Episode:
    """Give each turn one action token, for methods to credit, and one context token."""
    episode.turns = [replace(turn, action_ids=[0], context_ids=[0]) for turn in episode.turns]
    return episode


@dataclass(frozen=True)
class NoisyExpert:
    """Follow the observation's expert plan; if it has none, the game's plan at this turn.

    With probability ``noise``, or if there is no plan, draw from the legal commands.
    """

    noise: float
    run_seed: int
    name: str = "expert"

    async def act(self, context: TurnContext) -> Reply:
        plan = context.observation.expert or context.task.expert_plan[context.turn :]
        draw = dice(self.run_seed, context)
        if draw.random() >= self.noise and plan:
            return Reply(text=plan[0], plan=plan)
        return any_legal(context, draw)


class ModelRollouts:
    """A model that runs all episodes of a call at once, and remembers its answers to a game.

    A request's seed is derived from its episode and turn, and a batch holds the requests of one
    game. So results do not depend on which games were measured before.
    """

    def __init__(self, model: LoadedModel, rules: Rules) -> None:
        self.model, self.rules = model, rules
        self._tree: GameTree | None = None  # the game of the answers
        self._answers: dict[tuple[bytes, int], Sample] = {}  # by prompt and seed

    async def roll_out(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        if tree is not self._tree:
            self._tree, self._answers = tree, {}
        lockstep = LockstepBatch(len(specs), self._answer)
        episodes = await asyncio.gather(*(self._one(spec, lockstep.slot(i), tree) for i, spec in enumerate(specs)))
        if failed := next((episode for episode in episodes if episode.outcome is Outcome.ERROR), None):
            raise EnvError(f"{failed.task}: {failed.error}")
        return list(episodes)

    async def _one(self, spec: EpisodeSpec, slot: Slot, tree: GameTree) -> Episode:
        from turngrid.verl_plugin.rollout.local_rollouts import play_one

        sessions: Any = tree  # opens sessions, as a pool does
        async with slot:
            return await play_one(self.model.codec, spec, slot, self.rules, sessions, lambda: None)

    async def _answer(self, requests: list[SampleRequest]) -> list[Sample]:
        keys = [(np.asarray(request.prompt_ids, dtype=np.int32).tobytes(), request.seed) for request in requests]
        new = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._answers}
        if new:
            self._answers |= zip(new, await self.model([*new.values()]), strict=True)
        return [self._answers[key] for key in keys]


def rollouts_of(run: Run, policy: PolicyRef, noise: float) -> Rollouts:
    """Return the policy's rollouts; ``noise``: probability of a random action of the expert."""
    config, seed = run.config, int(run.config.seed)
    if policy.kind == "expert":
        return TextRollouts(NoisyExpert(noise, seed))
    if policy.kind == "random":
        return TextRollouts(RandomPolicy(seed))
    import torch  # this and the next import take seconds

    from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules

    torch.set_num_threads(1)  # more threads do not speed up small models and slow a busy machine down
    model = LoadedModel(policy.path, config.trainer.device, policy.chat, run.prompt.marks)
    rollout = config.actor_rollout_ref.rollout
    params = SamplingParams(rollout.temperature, rollout.top_p, rollout.top_k, config.env.max_action_tokens)
    return ModelRollouts(model, Rules(params, run.limit(model.context), seed))
