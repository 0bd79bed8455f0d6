"""The agent loop at size: episodes a second against the limit that the server's latency sets, CPU
and memory of each part.

    python -m benchmarks.scale [--episodes 64 256 1024 4096] [--environments idle textworld]
    [--workers 1] [--turns 16] [--tokens 16384] [--latency 4] [--out FILE.json]

Agent-loop workers, environment processes, verl's client and load balancer, and the transfer queue
are a run's own; in the place of GPUs stands a server that answers each turn ``latency`` seconds
after it was asked. All episodes of a size begin at once, in groups of 8 samples, and have the same
number of turns, so that N episodes of T turns take T x latency seconds at best: that is the limit,
N / (T x latency) episodes a second. The measured time runs from handing out the prompts to the last
row in the queue. CPU is user and system time of a part's processes over the turns played; memory is
what their resident set grew by at most, over the episodes. Everything runs on this machine, server
and queue too: with fewer cores than that needs, the share of the limit falls for want of cores, and
the CPU of a turn is the figure that holds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any, Self

import benchmarks.ray_on_cpu  # noqa: F401 - before all that read it

# isort: split
import numpy as np
import psutil
import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf, open_dict
from transformers import AutoTokenizer
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.router import get_router_handle

from benchmarks.memory import family
from benchmarks.scale_parts import COMMANDS, StubServer
from turngrid.config.compose import compose
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.utils.bar import ticking_bar
from turngrid.records.models.locate import resolve_model
from turngrid.verl_plugin.dataset import TaskDataset
from turngrid.verl_plugin.rollout.agent_worker import AgentLoopWorker

SAMPLES, GAMES, TASK = 8, 8, "w2-o3-q4"
SEEN_TOKENS = 64  # of a turn's observation, about
POLL_SECONDS = 0.5
MIB = 2**20
IDLE = "benchmarks.scale_parts:Idle"
GPU_TOKENS = 15_220  # a second that an H100 samples of Llama 3.1 8B, 1,000 in and 1,000 out (NVIDIA, docs/cluster.md)
BUSY = 0.7  # of a core: a process that is asked for more makes GPUs wait
GPUS, ANSWERS = (8, 64, 512), (256, 32)


def limit(episodes: int, turns: int, latency: float) -> float:
    """Return the episodes a second if every turn takes ``latency`` seconds and nothing else any."""
    return episodes / (turns * latency)


def processes(gpus: int, answer: int, cpu_ms: float) -> int:
    """Return how many processes of one core keep the GPUs busy.

    A turn samples ``answer`` tokens and takes ``cpu_ms`` of a process.
    """
    return ceil(gpus * GPU_TOKENS / answer * cpu_ms / 1e3 / BUSY)


def needs(agent_ms: float, environment_ms: float) -> Iterator[str]:
    """Yield a table of the agent-loop workers and environment processes that GPUs need."""
    yield "| GPUs | tokens sampled a turn | turns/s | agent-loop workers | environment processes |"
    yield "|---|---|---|---|---|"
    for gpus, answer in product(GPUS, ANSWERS):
        counts = (processes(gpus, answer, cpu) for cpu in (agent_ms, environment_ms))
        turns = gpus * GPU_TOKENS / answer
        yield "| " + " | ".join(f"{number:,.0f}" for number in (gpus, answer, turns, *counts)) + " |"


@dataclass(frozen=True)
class Load:
    """A size to measure: an episode has ``tokens`` in ``turns`` turns, each answered after
    ``latency`` seconds."""

    environment: str
    episodes: int
    workers: int
    turns: int
    tokens: int
    latency: float

    @property
    def limit(self) -> float:
        return limit(self.episodes, self.turns, self.latency)


@dataclass(frozen=True)
class Figures:
    """Figures of one load.

    CPU is in milliseconds a turn, memory in MiB an episode. ``latency`` is the server's measured
    one in seconds, ``tokens`` the recorded mean of an episode.
    """

    episodes_per_s: float
    limit: float
    share: float
    agent_cpu_ms: float
    environment_cpu_ms: float
    other_cpu_ms: float
    agent_mib: float
    environment_mib: float
    latency: float
    tokens: float
    seconds: float

    @property
    def cpu(self) -> tuple[float, float]:
        return self.agent_cpu_ms, self.environment_cpu_ms


class Part:
    """A group of processes: CPU seconds so far, and peak memory."""

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        self.processes = list(processes)
        self._cpu, self._memory = self.cpu(), self.memory()
        self.peak = self._memory

    def cpu(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)

    def memory(self) -> int:
        return sum(process.memory_info().rss for process in self.processes)

    def sample(self) -> None:
        self.peak = max(self.peak, self.memory())

    def cpu_ms(self, turns: int) -> float:
        """Return a turn's share of the CPU time used since the beginning, in milliseconds."""
        return 1e3 * (self.cpu() - self._cpu) / turns

    def mib(self, episodes: int) -> float:
        """Return an episode's share of the largest growth of memory, in MiB."""
        return (self.peak - self._memory) / MIB / episodes


class Worker(AgentLoopWorker):
    """An agent-loop worker that reports how many groups it still runs."""

    def pid(self) -> int:
        return os.getpid()

    async def busy(self) -> int:
        """Return the number of unfinished groups."""
        return len(self._tasks)


class Bench:
    """One server, some agent-loop workers and their environment processes."""

    def __init__(self, config: DictConfig, load: Load) -> None:
        self.load, self.folder = load, Path(config.run.episodes)
        at_once = load.episodes + 100
        server: Any = ray.remote(StubServer).options(num_cpus=0, max_concurrency=at_once)
        self.server = server.remote(answers(config, load))
        self.client = LLMServerClient(config, get_router_handle(servers={"stub": self.server}))
        worker: Any = ray.remote(Worker).options(num_cpus=0, max_concurrency=at_once)
        self.workers = [worker.remote(config, self.client) for _ in range(load.workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in (*self.workers, self.server, self.client._load_balancer):
            ray.kill(actor)

    def parts(self) -> tuple[Part, Part, Part]:
        """Return the agent loop, the environment, and the rest of this machine's Ray: server, load
        balancer, queue, Ray itself."""
        agents = [psutil.Process(pid) for pid in ray.get([worker.pid.remote() for worker in self.workers])]
        games = [child for agent in agents for child in agent.children(recursive=True)]
        counted = {process.pid for process in (*agents, *games)}
        others = [process for process in family(psutil.Process()) if process.pid not in counted]
        return Part(agents), Part(games), Part(others)

    def warm_up(self, batch: Any) -> None:
        """Run one group on each worker, so that imports and first-time work are not measured."""
        self._hand_out(batch[: self.load.workers])
        while self._busy():
            time.sleep(POLL_SECONDS)
        recorded_tokens()

    def play(self, batch: Any) -> Figures:
        load = self.load
        ray.get(self.server.begin.remote(load.latency))
        parts, start = self.parts(), time.perf_counter()
        self._hand_out(batch)
        self._wait(parts)
        seconds = time.perf_counter() - start
        answered, waited = ray.get(self.server.stats.remote())
        if answered != load.episodes * load.turns:
            sys.exit(f"{answered} turns were played in place of {load.episodes} x {load.turns}")
        agent, games, others = parts
        turns, rate = load.episodes * load.turns, load.episodes / seconds
        return Figures(
            episodes_per_s=rate,
            limit=load.limit,
            share=rate / load.limit,
            agent_cpu_ms=agent.cpu_ms(turns),
            environment_cpu_ms=games.cpu_ms(turns),
            other_cpu_ms=others.cpu_ms(turns),
            agent_mib=agent.mib(load.episodes),
            environment_mib=games.mib(load.episodes),
            latency=waited / answered,
            tokens=recorded_tokens() / load.episodes,
            seconds=seconds,
        )

    def _hand_out(self, batch: Any) -> None:
        chunks = zip(self.workers, batch.chunk(self.load.workers), strict=False)
        ray.get([worker.generate_sequences.remote(chunk) for worker, chunk in chunks])

    def _busy(self) -> int:
        """Return the number of unfinished groups."""
        return sum(ray.get([worker.busy.remote() for worker in self.workers]))

    def _wait(self, parts: Iterable[Part]) -> None:
        """Wait until every worker has published its last group."""
        load = self.load
        title = f"{load.environment}, {load.episodes} episodes"
        with ticking_bar(total=load.episodes * load.turns, desc=title, unit=" turns", leave=False) as bar:
            while self._busy():
                time.sleep(POLL_SECONDS)
                bar.update(ray.get(self.server.stats.remote())[0] - bar.n)
                for part in parts:
                    part.sample()


def recorded_tokens() -> int:
    """Count the tokens of the rows in the queue, and empty it."""
    rows = tq.kv_list("train")["train"]
    tq.kv_clear(keys=list(rows), partition_id="train")
    return sum(tags.get("seq_len", 0) for tags in rows.values())


def answers(config: DictConfig, load: Load) -> list[list[int]]:
    """Return answers: a command that the game knows, then words up to the tokens of a turn."""
    tokenizer = AutoTokenizer.from_pretrained(config.actor_rollout_ref.model.path)
    length = config.env.max_action_tokens
    words = tokenizer.encode("\n" + "the red key fits the door " * length, add_special_tokens=False)
    begun = [tokenizer.encode(command, add_special_tokens=False) for command in COMMANDS]
    return [[*command, *words][: length - 1] + [tokenizer.eos_token_id] for command in begun]


def scale_config(load: Load, folder: Path) -> DictConfig:
    """Return a run's config for ``load``, with its games as data."""
    config = compose(["env=textworld", f"env.task={TASK}", f"actor_rollout_ref.rollout.n={SAMPLES}"])
    config = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    games = Catalogue(make_environment("textworld"), None).tasks(TASK, "train", GAMES)
    prompts = -(-load.episodes // SAMPLES)
    lines = [json.dumps(games[number % GAMES].to_dict()) + "\n" for number in range(prompts)]
    (folder / "games.jsonl").write_text("".join(lines), encoding="utf-8")
    with open_dict(config):
        config.run = {"folder": str(folder), "episodes": str(folder / "episodes")}
        config.data.train_files = str(folder / "games.jsonl")
        config.data.max_prompt_length, config.data.max_response_length = load.tokens, 2 * load.tokens
        config.env.name = IDLE if load.environment == "idle" else load.environment
        config.env.max_turns, config.env.max_action_tokens = load.turns, load.tokens // load.turns - SEEN_TOKENS
        config.actor_rollout_ref.rollout.name = "vllm"  # one request a turn through verl's client
        config.actor_rollout_ref.model.path = resolve_model(config.model.path, folder)
    return config


def prompts(config: DictConfig) -> Any:
    """Return the batch that verl's trainer would send."""
    dataset = TaskDataset(config.data.train_files)
    rows = collate_fn([dataset[number] for number in range(len(dataset))])
    rows["uid"] = np.array([f"{number:06d}" for number in range(len(dataset))], dtype=object)
    batch = tu.get_tensordict(rows)
    tu.assign_non_tensor_data(batch, "global_steps", 1)
    return batch


def measure(load: Load) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        config = scale_config(load, Path(folder))
        with Bench(config, load) as bench:
            batch = prompts(config)
            bench.warm_up(batch)
            return bench.play(batch)


@contextmanager
def local_ray() -> Iterator[None]:
    """Start Ray and a transfer queue, as a run on CPUs does, and end them."""
    config = OmegaConf.to_container(compose([]), resolve=True)
    given = {name: value for name, value in config["ray_kwargs"]["ray_init"].items() if value is not None}
    ray.init(**given | {"object_store_memory": 10**9}, log_to_driver=False)
    try:
        tq.init(OmegaConf.create(config["transfer_queue"]))
        yield
    finally:
        ray.shutdown()


HEAD = (
    "| environment | episodes | workers | episodes/s | limit | share | CPU ms a turn: agent loop | environment | "
    "server, queue, Ray | MiB an episode: agent loop | environment |"
)


def row(load: Load, found: Figures) -> str:
    cells = [load.environment, f"{load.episodes:,}", load.workers, f"{found.episodes_per_s:.2f}", f"{found.limit:.2f}"]
    cpu = [found.agent_cpu_ms, found.environment_cpu_ms, found.other_cpu_ms, found.agent_mib, found.environment_mib]
    return "| " + " | ".join(map(str, [*cells, f"{found.share:.2f}", *(f"{value:.2f}" for value in cpu)])) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[64, 256, 1024, 4096], help="at the same time")
    parser.add_argument("--environments", nargs="+", default=["idle", "textworld"], choices=["idle", "textworld"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1], help="agent-loop workers")
    parser.add_argument("--turns", type=int, default=16, help="of an episode")
    parser.add_argument("--tokens", type=int, default=16384, help="of an episode")
    parser.add_argument("--latency", type=float, default=4.0, help="seconds a turn in the server")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    shape = (args.turns, args.tokens, args.latency)
    sizes = ((name, size, count) for name in args.environments for size in args.episodes for count in args.workers)
    found = []
    print(HEAD, "|---" * HEAD.count(" | ") + "|---|", sep="\n")
    with local_ray():
        for size in sizes:
            load = Load(*size, *shape)
            found.append((load, measure(load)))
            print(row(*found[-1]), flush=True)
    print("\nBy arithmetic from the last row, never run on GPUs:", *needs(*found[-1][1].cpu), sep="\n")
    if args.out:
        rows = [asdict(load) | asdict(figures) for load, figures in found]
        told = {"rows": rows, "cores": os.cpu_count(), "machine_load": os.getloadavg()}
        args.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
