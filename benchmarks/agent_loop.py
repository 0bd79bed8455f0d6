"""Wall time outside the model's forward passes: our agent loop against verl's own tool agent loop.

    python -m benchmarks.agent_loop [--passes none] [--environment fixed] [--prompts 8]
        [--samples 8] [--turns 6] [--repeats 5] [--out FILE.json]

Both run the same tasks with the same model, server, turns, tokens a turn, environment and transfer
queue; verl's loop reaches the environment through a tool. ``fixed`` is an environment in this
process that answers at once and always the same, ``textworld`` real games in their pool. They take
turns, so that a busy machine is busy for both.

With ``--passes none`` the server answers without its model, so that all wall time is outside the
forward passes: that is the overhead, and its ratio the figure. With ``--passes real`` the overhead
is the wall time of a batch less the seconds that the server spent sampling, which leaves out
whatever a loop did while the model worked for its other episodes: ``real`` favours the loop that
keeps the model busy longer. Medians over the repeats. ``alone`` is our loop with one request a turn
through the client that a synchronous run with rollout=vllm has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import benchmarks.ray_on_cpu  # noqa: F401 - before all that read it

# isort: split
import numpy as np
import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
from verl.trainer.ppo.v1 import AgentLoopWorkerTQ
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.router import get_router_handle

from turngrid.config.compose import compose
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import pool_of
from turngrid.envs.registry import make_environment
from turngrid.envs.types import Observation, StepResult, TaskRef
from turngrid.records.models.locate import resolve_model
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.sampling import Sample, SampleRequest
from turngrid.verl_plugin.dataset import TaskDataset
from turngrid.verl_plugin.rollout.agent_worker import AgentLoopWorker
from turngrid.verl_plugin.servers.transformers_server import launch
from turngrid.verl_plugin.servers.transformers_server.server import TransformersServer

TASK = "w4-o6-q8"  # won in 8 turns at best: with fewer, every episode has the same number of turns
TOKENS = 16  # a turn
SCHEMA = {
    "type": "function",
    "function": {
        "name": "act",
        "description": "act in the environment",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


@ToolParser.register("whole_answer")
class WholeAnswer(ToolParser):
    """Parse every answer as a tool call, since the model was not taught tools."""

    async def extract_tool_calls(self, responses_ids: list[int], tools: Any = None) -> tuple[str, list[FunctionCall]]:
        text = self.tokenizer.decode(responses_ids, skip_special_tokens=True)
        return text, [FunctionCall(name="act", arguments=json.dumps({"command": text}))]


class EnvironmentTool(BaseTool):
    """The same pool of games as a tool of verl's."""

    def __init__(self, pool: Any) -> None:
        super().__init__({}, OpenAIFunctionToolSchema.model_validate(SCHEMA))
        self._pool = pool
        self._sessions: dict[str, Any] = {}

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict]:
        episode = kwargs["agent_data"]
        session = self._sessions.get(episode.request_id) or await self._open(episode)
        result = await session.step(parameters["command"])
        return ToolResponse(text=PLAIN_FORM.message(result.observation.text)), result.score_delta, {}

    async def _open(self, episode: Any) -> Any:
        session = self._sessions[episode.request_id] = await self._pool.open()
        task = TaskRef.from_dict(json.loads(episode.tools_kwargs["task"]))
        await session.reset(task, task.seed)
        return session

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()


class FixedSession:
    """An environment that takes no time; its text is as long as a TextWorld room's."""

    TEXT = (
        "You are in a kitchen. There is a chest here. It is closed. You see a red door to the north. You carry a key."
    )

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        return Observation(self.TEXT, goal=task.goal)

    async def step(self, action: str) -> StepResult:
        return StepResult(Observation(self.TEXT), 0.0, False, False, False, False, True)

    async def finish(self) -> StepResult:
        return StepResult(Observation(self.TEXT), 0.0, False, False, False, False, True)

    async def close(self) -> None: ...


class FixedPool:
    async def open(self) -> FixedSession:
        return FixedSession()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


class AskedByVerl(TransformersServer):
    """The server as it is. verl's loop names no limit of a turn, and no seed."""

    async def generate(self, request_id: str, *, sampling_params: Mapping[str, Any], **request: Any) -> Any:
        params = {"max_tokens": TOKENS, "seed": crc32(request_id.encode()), **sampling_params}
        return await super().generate(request_id, sampling_params=params, **request)


class NoPasses(AskedByVerl):
    """The server as it is, but for the model."""

    ANSWER = (17, 23, 42, 5, 2)  # the last one ends a turn

    def _generate(self, requests: list[SampleRequest]) -> list[Sample]:
        self._stats["batches"] += 1
        self._stats["requests"] += len(requests)
        self._stats["sampled_tokens"] += len(requests) * len(self.ANSWER)
        return [Sample(self.ANSWER, [-1.0] * len(self.ANSWER), self._step or 0) for _ in requests]


def start_server(config: DictConfig, passes: bool) -> Any:
    path, rollout = config.actor_rollout_ref.model.path, config.actor_rollout_ref.rollout
    actor = ray.remote(AskedByVerl if passes else NoPasses)
    options = actor.options(name=launch.server_name(0), num_cpus=0, max_concurrency=1000)
    return options.remote(path, rollout.max_num_seqs, dtype=rollout.dtype)


class Alone(AgentLoopWorker):
    """Work without lockstep batches: one request a turn, once its episode is ready."""

    def _deal(self, uids: list[str]) -> dict[str, Any]:
        return {}


class Bench:
    """One server, one pool, one queue, and three workers in this process."""

    def __init__(self, config: DictConfig, games: list[TaskRef], pool: Any, server: Any) -> None:
        self.config, self.games, self.pool, self.server = config, games, pool, server
        balancer = get_router_handle(servers={launch.server_name(0): self.server})
        client = LLMServerClient(config, balancer)
        self.tool = EnvironmentTool(pool)
        verls = AgentLoopWorkerTQ.__ray_metadata__.modified_class(_tool_config(config), client)
        verls.tools = [self.tool]
        alone = Alone(config, LLMServerClient(config, balancer))
        self.workers = {"verl": verls, "ours": AgentLoopWorker(config, client), "alone": alone}
        self.workers["ours"].loop.pool = self.workers["alone"].loop.pool = pool
        self._batches = 0

    async def prompts(self) -> list[str]:
        """Return the first prompts, which verl's loop reads from the data set."""
        return [await self._first_prompt(game) for game in self.games]

    async def _first_prompt(self, game: TaskRef) -> str:
        session = await self.pool.open()
        seen = await session.reset(game, game.seed)
        await session.close()
        head = PLAIN_FORM.head(make_environment("textworld").prompt, seen.goal or game.goal)
        return head + PLAIN_FORM.message(seen.text)

    def batch(self, prompts: list[str]) -> Any:
        dataset = TaskDataset(self.config.data.train_files)
        rows = collate_fn([dataset[number] for number in range(len(dataset))])
        self._batches += 1
        rows["uid"] = np.array([f"{self._batches:06d}-{n:04d}" for n in range(len(dataset))], dtype=object)
        rows["raw_prompt"] = _objects([[{"role": "user", "content": prompt}] for prompt in prompts])
        rows["tools_kwargs"] = _objects([{"task": task} for task in rows["task"]])
        batch = tu.get_tensordict(rows)
        tu.assign_non_tensor_data(batch, "global_steps", self._batches)
        return batch

    async def measure(self, name: str, prompts: list[str]) -> dict[str, float]:
        """Sample one batch; return its seconds and counts."""
        worker, batch = self.workers[name], self.batch(prompts)
        before = await self.server.stats.remote()
        wall, cpu = time.perf_counter(), time.process_time()
        await worker.generate_sequences(batch)
        while worker._tasks:
            await asyncio.gather(*worker._tasks)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        after = await self.server.stats.remote()
        keys = list(tq.kv_list("train")["train"])
        tq.kv_clear(keys=keys, partition_id="train")
        await self.tool.close()
        forward = after["generation_seconds"] - before["generation_seconds"]
        counts = {
            "turns": after["requests"] - before["requests"],
            "tokens": after["sampled_tokens"] - before["sampled_tokens"],
            "rows": sum("_" in key for key in keys),
        }
        return {"wall": wall, "forward": forward, "overhead": wall - forward, "agent_cpu": cpu, **counts}


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _tool_config(config: DictConfig) -> DictConfig:
    changed = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    rollout = changed.actor_rollout_ref.rollout
    rollout.agent.default_agent_loop = "tool_agent"
    rollout.multi_turn.format = "whole_answer"
    rollout.multi_turn.max_assistant_turns = config.env.max_turns
    rollout.multi_turn.max_tool_response_length = 100_000
    return changed


def bench_config(prompts: int, samples: int, turns: int, folder: Path) -> tuple[DictConfig, list[TaskRef]]:
    sizes = [f"data.train_batch_size={prompts}", f"actor_rollout_ref.rollout.n={samples}"]
    turn = [f"env.max_turns={turns}", f"env.max_action_tokens={TOKENS}", f"env.task={TASK}"]
    config = compose([*sizes, *turn, "actor_rollout_ref.rollout.temperature=0.7"])
    config = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    games = Catalogue(make_environment("textworld"), None).tasks(TASK, "train", prompts)
    file = folder / "games.jsonl"
    file.write_text("".join(json.dumps(game.to_dict()) + "\n" for game in games), encoding="utf-8")
    with open_dict(config):
        config.run = {"folder": str(folder), "episodes": str(folder / "episodes")}
        config.data.train_files = str(file)
        config.actor_rollout_ref.model.path = resolve_model(config.model.path, folder)
    return config, games


async def compare(config: DictConfig, games: list[TaskRef], args: argparse.Namespace) -> dict[str, dict[str, float]]:
    async with FixedPool() if args.environment == "fixed" else pool_of(config.env) as pool:
        bench = Bench(config, games, pool, start_server(config, args.passes == "real"))
        prompts = await bench.prompts()
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in bench.workers}
        for repeat in range(args.repeats + 1):
            for name, found in seen.items():
                found.append(await bench.measure(name, prompts))
                print(f"{repeat} {name} {found[-1]}", file=sys.stderr, flush=True)
    return {name: _medians(found[1:]) for name, found in seen.items()}  # the first is for warming up


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(one[key] for one in found), 4) for key in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--passes", choices=("none", "real"), default="none")
    parser.add_argument("--environment", choices=("fixed", "textworld"), default="fixed")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, games = bench_config(args.prompts, args.samples, args.turns, Path(folder))
        ray_init = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
        ray.init(**{name: value for name, value in ray_init.items() if value is not None}, log_to_driver=False)
        tq.init(config.transfer_queue)
        result: dict[str, Any] = asyncio.run(compare(config, games, args))
    verls = result["verl"]
    for name in ("ours", "alone"):
        result[name]["overhead_ratio"] = round(result[name]["overhead"] / verls["overhead"], 2)
        result[name]["wall_ratio"] = round(result[name]["wall"] / verls["wall"], 2)
        result[name]["agent_cpu_ratio"] = round(result[name]["agent_cpu"] / verls["agent_cpu"], 2)
    print(json.dumps(result, indent=2))
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
