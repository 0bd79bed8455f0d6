"""The agent-loop worker that replaces verl's: groups are published whole, and batches repeat.

verl trains on the rest of a group in which a sample failed. Here such a group writes no rows, and
verl's refill replaces it.

Under a synchronous trainer our own server samples in lockstep batches, so that a run is
reproducible. An asynchronous run is not: each turn is a separate request through verl's client,
which continues an answer that a weight update interrupted.
"""

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import NonTensorStack, TensorDict
from torch import Tensor
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from turngrid.algorithms.slots import Request
from turngrid.envs.hosting.worker import described
from turngrid.records.resume import TurnCounter
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import GroupFailed, Linear, play_group
from turngrid.rollouts.lockstep import Rounds, Slot
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.sampling import Sample, SampleRequest, request_id
from turngrid.rollouts.seeds import request_seed
from turngrid.rollouts.store import write_episodes
from turngrid.rollouts.stream import user
from turngrid.verl_plugin.rollout.agent_loop import TurngridAgentLoop, row_fields
from turngrid.verl_plugin.rollout.samplers import Counted, ServerSampler, sample_batch
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.rollout.turn_fields import lengths, tree_places
from turngrid.verl_plugin.servers.transformers_server.launch import replicas

logger = logging.getLogger(__name__)
Written = tuple[str, int]  # a text and the number of its tokens
Fields = dict[str, Any]
WRITING = "writing"  # stands for the prompt in its request's id and seed
PUBLISHED_AT_ONCE = 4  # groups published at the same time; rows take twice the memory of their episodes
LOCKSTEP_BATCHES = 2  # one batch samples while the other steps its games
COLLECTED_AFTER = 50_000  # new objects before a collection; Python's 700 took a fifth of the time with 192 episodes


class AgentLoopWorker:
    """Samples the groups of prompts with one agent loop, and so one pool of environment processes.

    It does not subclass verl's worker, whose module imports verl's trainers and engines: 110 MiB
    and 0.7 CPU s a process. verl's handles of reward models and teachers are not used.
    """

    def __init__(self, config: DictConfig, llm_client: Any, *_: Any) -> None:
        self.config, self.llm_client = config, llm_client
        model: Any = omega_conf_to_dataclass(config.actor_rollout_ref.model)
        if template := model.get("custom_chat_template", None):
            model.tokenizer.chat_template = template
        self.loop = TurngridAgentLoop(config, model.tokenizer, model.hf_config.model_type)
        tq.init()
        self._tasks: set[asyncio.Task[None]] = set()
        self._publishing = asyncio.Semaphore(PUBLISHED_AT_ONCE)
        self._batches_made = 0
        self._turns = TurnCounter()
        self._rounds: dict[str, Rounds] = {}  # lockstep rounds of prompts that have not started
        gc.collect()
        gc.freeze()  # exempt the imported modules from garbage collection
        gc.set_threshold(COLLECTED_AFTER)

    @property
    def _own_server(self) -> bool:
        return self.config.actor_rollout_ref.rollout.name == "transformers"

    @property
    def _asynchronous(self) -> bool:
        return self.config.trainer.v1.trainer_mode != "sync"

    @cached_property
    def _one_by_one(self) -> ServerSampler:
        """The sampler of episodes outside lockstep batches.

        With vLLM on GPUs requests have no seeds: each seeded token costs an extra kernel.
        """
        repeats = self.config.trainer.device == "cpu" and not self._asynchronous
        return ServerSampler(self.llm_client, seeded=self._own_server or repeats, ours=self._own_server)

    async def generate_sequences(self, batch: TensorDict) -> None:
        """Start a task for each prompt; in lockstep mode, first assign the prompts to batches."""
        validate = "validate" in batch and bool(batch["validate"])
        batch = batch.exclude("validate")
        if not validate:
            await self.loop.opponents.keep(int(prompt_of(batch, 0)["global_steps"]))
        if self._own_server and not self._asynchronous:
            self._rounds |= self._deal(list(batch["uid"]))
        for number in range(len(batch)):
            task = asyncio.create_task(self._run_prompt(prompt_of(batch, number), validate))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def write(self, step: int, requests: Sequence[Request]) -> list[Written]:
        """Let the policy write texts for methods; one for which there is no room is empty."""
        asked = [sample_request(self.loop, step, *numbered) for numbered in enumerate(requests)]
        if self._own_server and not self._asynchronous:
            samples: Sequence[Any] = await sample_batch(0, asked)
        else:
            samples = await asyncio.gather(*map(self._one_by_one.sample, asked))
        return [
            (self.loop.codec.decode(one.token_ids).strip(), len(one.token_ids)) if isinstance(one, Sample) else ("", 0)
            for one in samples
        ]

    def _deal(self, uids: list[str]) -> dict[str, Rounds]:
        servers = replicas(self.config.trainer, self.config.actor_rollout_ref.rollout)
        half = -(-len(uids) // LOCKSTEP_BATCHES)
        dealt: dict[str, Rounds] = {}
        for start in range(0, len(uids), half):
            self._batches_made += 1
            chunk = uids[start : start + half]
            dealt |= dict.fromkeys(chunk, Rounds(chunk, partial(sample_batch, self._batches_made % servers)))
        return dealt

    async def _run_prompt(self, prompt: dict[str, Any], validate: bool) -> None:
        """Sample a group and publish its rows; if a sample failed, publish none."""
        uid = prompt["uid"]
        partition = "val" if validate else "train"
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": "running"})
        try:
            episodes = await self._play_group(prompt, validate)
            async with self._publishing:
                await self._publish(prompt, episodes, partition)
            status = "finished"
        except Exception as error:  # noqa: BLE001 - verl must learn of every end of a group
            status = "failure"
            logger.error("group %s dropped: %s", uid, error)
            if not validate:  # a failed validation game does not replace a group of a step
                first, folder = error.first if isinstance(error, GroupFailed) else error, self._folder(prompt)
                folder.mkdir(parents=True, exist_ok=True)
                cause = described(first, type(self.loop.reward).__module__)
                (folder / f"{uid}.failed").write_text(f"{cause}\n", encoding="utf-8")
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": status})

    async def _play_group(self, prompt: dict[str, Any], validate: bool) -> list[Episode]:
        loop, rollout, uid = self.loop, self.config.actor_rollout_ref.rollout, prompt["uid"]
        rounds, folder = self._rounds.pop(uid, None), self._folder(prompt, validate)
        count = partial(self._turns.add, folder)

        async def play(specs: Sequence[EpisodeSpec]) -> list[Episode | BaseException]:
            slots = await rounds.slots(uid, len(specs)) if rounds else [None] * len(specs)
            samples = (self._play(*pair, form.entropies, count) for pair in zip(specs, slots, strict=True))
            return await asyncio.gather(*samples, return_exceptions=True)

        try:
            folder.mkdir(parents=True, exist_ok=True)
            base = loop.spec({**prompt, "validate": validate})
            form, samples = (Linear(), rollout.val_kwargs.n) if validate else (loop.form(base.step), rollout.n)
            return await play_group(form, base, samples, self.config.seed, play)
        finally:
            if rounds:
                rounds.leave(uid)

    async def _play(self, spec: EpisodeSpec, slot: Slot | None, entropies: bool, count: Callable[[], None]) -> Episode:
        async with slot or nullcontext():
            episode = await self.loop.play(spec, Counted(slot or self._one_by_one, count), entropies)
        if not episode.turns:
            raise RuntimeError(
                f"{episode.task}: the first prompt has {len(episode.prompt_ids)} tokens, which leaves no room for an "
                "action: raise data.max_prompt_length or data.max_response_length"
            )
        return episode

    async def _publish(self, prompt: dict[str, Any], episodes: list[Episode], partition: str) -> None:
        await asyncio.to_thread(self._record, episodes, prompt, partition == "val")  # blocks on the disk
        keys, rows, tags = map(list, zip(*self._rows(prompt, episodes, partition == "train"), strict=True))
        fields = list_of_dict_to_tensordict(rows)
        await tq.async_kv_batch_put(keys=keys, fields=fields, tags=tags, partition_id=partition)

    def _rows(self, prompt: Fields, episodes: list[Episode], trains: bool) -> Iterator[tuple[str, Fields, Fields]]:
        """Yield key, fields and tag of each row."""
        loop, step = self.loop, int(prompt["global_steps"])
        trees = tree_places(episodes) if trains and loop.form(step).branches else {}
        described: dict[str, Any] = {
            "named": loop.sent,
            "form": loop.prompt_form,
            "cluster": getattr(loop.library(step), "states", lambda: str)(),
            "roles": [*(loop.run.roles or ())],
        }
        for sample, episode in enumerate(episode for episode in episodes if episode.trained):
            # seats are groups of their own, but verl counts validation by prompt
            uid = prompt["uid"] + (f"#{episode.seat}" if episode.seat and trains else "")
            rows = row_fields(episode, loop.reward.name, loop.state, tree=trees.get(episode.sample), **described)
            contexts = (loop.contexts(episode, prompt) if trains else []) or [{}] * len(rows)
            for index, (row, asked) in enumerate(zip(rows, contexts, strict=True)):
                sampled_at = {name: row["extra_fields"][name] for name in ("min_global_steps", "max_global_steps")}
                tag = {"status": "success", **lengths(row), "global_steps": step, **sampled_at}
                fields = {**row, **asked, **prompt, "uid": uid, "session_id": sample}
                yield f"{prompt['uid']}_{sample}_{index}", fields, tag

    def _folder(self, prompt: dict[str, Any], validate: bool = False) -> Path:
        """Return the step's folder; in asynchronous runs that of groups without a step yet."""
        run = self.config.run
        if self._asynchronous and not validate:
            return Path(run.groups)
        return Path(run.validation if validate else run.episodes) / f"{int(prompt['global_steps']):06d}"

    def _record(self, episodes: list[Episode], prompt: dict[str, Any], validate: bool) -> None:
        for episode in episodes if self._asynchronous and not validate else ():
            episode.group = prompt["uid"]
        name = f"{int(prompt['index']):06d}" if validate else prompt["uid"]
        write_episodes(self._folder(prompt, validate) / f"{name}.jsonl", episodes)


def prompt_of(batch: TensorDict, number: int) -> dict[str, Any]:
    """Return one prompt's fields; fields without a row for each prompt stay as they are."""
    prompt = {}
    for name, column in batch.items():
        row = column[number] if isinstance(column, Tensor | NonTensorStack) else column
        prompt[name] = row if isinstance(row, Tensor) else row.data
    return prompt


def sample_request(loop: TurngridAgentLoop, step: int, number: int, request: Request) -> SampleRequest:
    rollout = loop.config.actor_rollout_ref.rollout
    return SampleRequest(
        request_id=request_id(step, WRITING, number),
        prompt_ids=fitted(loop.codec, request, loop.limit.prompt + loop.limit.response - request.length),
        max_tokens=request.length,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        seed=request_seed(loop.config.seed, step, WRITING, number, 0),
    )


def fitted(codec: TokenCodec, request: Request, room: int) -> list[int]:
    """Return the ids of the prompt; a transcript that is too long loses its first lines."""
    lines = list(request.lines)
    while len(ids := codec.first_prompt([user("\n".join([*lines, request.question]))])) > room and lines:
        lines = lines[1 + len(lines) // 8 :]
    return ids
