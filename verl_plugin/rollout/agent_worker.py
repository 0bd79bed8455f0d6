"""verl's agent-loop worker, where we differ: groups are published whole, batches are reproducible.

verl trains on what is left of a group in which a sample failed. Here a group's rows are held back until all its
samples have come to an end; if one of them fails for good, the group writes no rows and verl's refill replaces it.

Under a synchronous trainer our own server samples in lockstep batches, so that a run repeats. Under an asynchronous one
nothing repeats anyway: each turn is a request of its own through verl's client, which goes on with what new weights cut off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.trainer.ppo.v1 import AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from envs.hosting.error_text import described
from envs.hosting.pool import EnvPool
from records.turns_played import TurnCounter
from rollouts.episode import Episode
from rollouts.forms.group_rollout import GroupFailed, play_group
from rollouts.forms.linear import Linear
from rollouts.lockstep import Rounds, Slot
from rollouts.loop import EpisodeSpec
from rollouts.store import write_episodes
from verl_plugin.rollout.agent_loop import RowOutput, TurngridAgentLoop, to_outputs
from verl_plugin.rollout.samplers import BatchSampler, Counted, ServerSampler
from verl_plugin.rollout.turn_fields import lengths, tree_places
from verl_plugin.servers.replicas import replicas

logger = logging.getLogger(__name__)
PUBLISHED_AT_ONCE = 4  # groups: their rows take twice the memory of their episodes, and many end together
LOCKSTEP_BATCHES = 2  # one is in the model while the other is in its games
VerlWorker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class AgentLoopWorker(VerlWorker):
    """Plays the samples of prompts; one agent loop, and so one pool of games, for all of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._loop: TurngridAgentLoop | None = None
        self.pool: EnvPool | None = None  # the games' processes, where they were started before
        self._publishing = asyncio.Semaphore(PUBLISHED_AT_ONCE)
        self._batches_made = 0
        self._turns = TurnCounter()
        self._rounds: dict[str, Rounds] = {}  # of prompts that have not begun

    @property
    def playing(self) -> bool:
        """It has its games' processes."""
        return self._loop is not None

    @property
    def _lockstep(self) -> bool:
        return self._own_server and not self._asynchronous

    @property
    def _own_server(self) -> bool:
        return self.config.actor_rollout_ref.rollout.name == "transformers"

    @property
    def _asynchronous(self) -> bool:
        return self.config.trainer.v1.trainer_mode != "sync"

    @cached_property
    def _one_by_one(self) -> ServerSampler:
        """For episodes without a slot."""
        return ServerSampler(self.llm_client, self._seeded)

    @property
    def _seeded(self) -> bool:
        """vLLM takes a seed a request on CPUs, where a run can repeat; on GPUs it cannot, and each seed costs vLLM's sampler
        a kernel of its own a token."""
        repeats = self.config.trainer.device == "cpu" and not self._asynchronous
        return self._own_server or repeats

    def _agent_loop(self) -> TurngridAgentLoop:
        if self._loop is None:
            self._loop = TurngridAgentLoop(
                trainer_config=DictConfigWrap(self.config),
                server_manager=self.llm_client,
                tokenizer=self.tokenizer,
                processor=self.processor,
                dataset_cls=self.dataset_cls,
                data_config=DictConfigWrap(self.config.data),
                hf_model_type=self.hf_model_type,
                pool=self.pool,
            )
        return self._loop

    async def generate_sequences(self, batch: TensorDict) -> None:
        """Deal the prompts into lockstep batches, then let verl start one task a prompt."""
        if self._lockstep:
            self._rounds |= self._deal(list(batch["uid"]))
        await super().generate_sequences(batch)

    def _deal(self, uids: list[str]) -> dict[str, Rounds]:
        half = -(-len(uids) // LOCKSTEP_BATCHES)
        dealt: dict[str, Rounds] = {}
        for chunk in (uids[i : i + half] for i in range(0, len(uids), half)):
            self._batches_made += 1
            dealt |= dict.fromkeys(chunk, Rounds(chunk, BatchSampler(self._batches_made % self._replicas)))
        return dealt

    @property
    def _replicas(self) -> int:
        rollout = self.config.actor_rollout_ref.rollout
        own_devices = self.config.trainer.v1.trainer_mode == "separate_async"
        return replicas(rollout if own_devices else self.config.trainer, rollout)

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: dict[str, Any], trajectory: dict[str, Any], trace: bool = False
    ) -> None:
        uid, validate = prompt["uid"], trajectory["validate"]
        partition = "val" if validate else "train"
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": "running"})
        prompt.pop("agent_name", None)
        try:
            episodes = await self._play_group(prompt, sampling_params, validate)
            async with self._publishing:
                await self._publish(prompt, episodes, partition)
            status = "finished"
        except Exception as error:  # noqa: BLE001 - whatever it is, verl must hear that the group has come to its end
            status = "failure"
            logger.error("group %s dropped: %s", uid, error)
            if not validate:  # a game that is not validated is no group that the step lacks
                first, folder = error.first if isinstance(error, GroupFailed) else error, self._folder(prompt)
                folder.mkdir(parents=True, exist_ok=True)
                cause = described(first, type(self._loop.reward).__module__ if self._loop else "")
                (folder / f"{uid}.failed").write_text(f"{cause}\n", encoding="utf-8")
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": status})

    async def _play_group(self, prompt: dict[str, Any], sampling: dict[str, Any], validate: bool) -> list[Episode]:
        """Raises: GroupFailed, or what the form says: it cannot be played."""
        loop, rollout, uid = self._agent_loop(), self.config.actor_rollout_ref.rollout, prompt["uid"]
        rounds = self._rounds.pop(uid, None)
        folder = self._folder(prompt, validate)
        count = partial(self._turns.add, folder)

        async def play(specs: Sequence[EpisodeSpec]) -> list[Episode | BaseException]:
            slots = await rounds.slots(uid, len(specs)) if rounds else [None] * len(specs)
            samples = [
                self._play(spec, sampling, slot, form.entropies, count) for spec, slot in zip(specs, slots, strict=True)
            ]
            return await asyncio.gather(*samples, return_exceptions=True)

        try:
            folder.mkdir(parents=True, exist_ok=True)
            base = loop.spec({**prompt, "validate": validate})
            form, samples = (Linear(), rollout.val_kwargs.n) if validate else (loop.form(base.step), rollout.n)
            return await play_group(form, base, samples, self.config.seed, play)
        finally:
            if rounds:
                rounds.leave(uid)

    async def _play(
        self,
        spec: EpisodeSpec,
        sampling: dict[str, Any],
        slot: Slot | None,
        entropies: bool,
        count: Callable[[], None],
    ) -> Episode:
        loop, sampler = self._agent_loop(), Counted(slot or self._one_by_one, count)
        if slot is None:
            try:
                return playable(await loop.play(spec, sampling, sampler, entropies))
            finally:
                self._one_by_one.leave(spec.request_id)
        async with slot:
            return playable(await loop.play(spec, sampling, sampler, entropies))

    async def _publish(self, prompt: dict[str, Any], episodes: list[Episode], partition: str) -> None:
        record = self._record if partition == "train" else self._record_validation
        await asyncio.to_thread(record, episodes, prompt)  # waits for the disk
        keys, fields = [], []
        loop = self._agent_loop()
        branches = partition == "train" and loop.form(int(prompt["global_steps"])).branches
        trees = tree_places(episodes) if branches else {}
        for sample, episode in enumerate(episode for episode in episodes if episode.trained):
            tree = trees.get(episode.sample)
            outputs = to_outputs(episode, loop.reward.name, loop.state, loop.sent, tree, loop.prompt_form)
            for index, output in enumerate(outputs):
                keys.append(f"{prompt['uid']}_{sample}_{index}")
                fields.append(self._fields(output, {**prompt, "session_id": sample}))
        await tq.async_kv_batch_put(
            keys=keys,
            fields=list_of_dict_to_tensordict(fields),
            tags=[_tag(field, int(prompt["global_steps"])) for field in fields],
            partition_id=partition,
        )

    def _fields(self, output: RowOutput, prompt: dict[str, Any]) -> dict[str, Any]:
        field = {**output.as_dict(), **prompt}
        input_ids = torch.cat([field["prompts"], field["responses"]])
        field["loss_mask"] = field["response_mask"]
        field["input_ids"] = input_ids
        field["position_ids"] = torch.arange(len(input_ids))
        field["multi_modal_inputs"] = {}
        return field

    def _folder(self, prompt: dict[str, Any], validate: bool = False) -> Path:
        """The step's; an asynchronous trainer does not know yet which step will train on the group."""
        run = self.config.run
        if self._asynchronous and not validate:
            return Path(run.groups)
        return Path(run.validation if validate else run.episodes) / f"{int(prompt['global_steps']):06d}"

    def _record(self, episodes: list[Any], prompt: dict[str, Any]) -> None:
        for episode in episodes if self._asynchronous else ():
            episode.group = prompt["uid"]
        write_episodes(self._folder(prompt) / f"{prompt['uid']}.jsonl", episodes)

    def _record_validation(self, episodes: list[Any], prompt: dict[str, Any]) -> None:
        """What verl plays between steps (``trainer.test_freq``); the trainer merges a step's files."""
        write_episodes(self._folder(prompt, validate=True) / f"{int(prompt['index']):06d}.jsonl", episodes)


class NoRoom(RuntimeError):
    """The first prompt leaves no room for an action."""


def playable(episode: Episode) -> Episode:
    """The episode, if there is anything in it to learn from.

    Raises:
        NoRoom: it has no turn.
    """
    if not episode.turns:
        raise NoRoom(
            f"{episode.task}: the first prompt has {len(episode.prompt_ids)} tokens, which leaves no room for an action: "
            "raise data.max_prompt_length or data.max_response_length"
        )
    return episode


def _tag(field: dict[str, Any], step: int) -> dict[str, Any]:
    sampled_at = {name: field["extra_fields"][name] for name in ("min_global_steps", "max_global_steps")}
    return {"status": "success", **lengths(field), "global_steps": step, **sampled_at}
