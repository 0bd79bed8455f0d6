"""A model that plays all continuations of a game at once; equal answers share a row."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from envs.types import EnvError
from experiments.credit_quality.game_tree import GameTree
from experiments.credit_quality.shared_rows import SharedRows
from rollouts.episode import Episode, Outcome
from rollouts.lockstep import LockstepBatch, Slot
from rollouts.loop import EpisodeSpec
from rollouts.sampling import Sample, SampleRequest
from verl_plugin.rollout.local_rollouts import LoadedModel, Rules, play_one


class ModelRollouts:
    """Every request is seeded by what it is for, and what a batch holds depends on the game alone: so the same numbers come out in
    whichever process, whatever was played before."""

    def __init__(self, model: LoadedModel, rules: Rules) -> None:
        self.model, self.rules = model, rules
        self.rows = SharedRows(model.generator)

    async def roll_out(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        self.rows.forget()
        lockstep = LockstepBatch(len(specs), self._answer)
        slots = [lockstep.slot(place) for place in range(len(specs))]
        episodes = await asyncio.gather(*(self._one(spec, slot, tree) for spec, slot in zip(specs, slots, strict=True)))
        if failed := next((episode for episode in episodes if episode.outcome is Outcome.ERROR), None):
            raise EnvError(f"{failed.task}: {failed.error}")
        return list(episodes)

    async def _one(self, spec: EpisodeSpec, slot: Slot, tree: GameTree) -> Episode:
        async with slot:
            return await play_one(self.model.codec, spec, slot, self.rules, tree, lambda: None)

    async def _answer(self, requests: list[SampleRequest]) -> list[Sample | Exception]:
        return self.rows.generate(requests)
