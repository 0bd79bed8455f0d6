"""The evaluation stage: every checkpoint runs the same held-out games, in a process of its own.

Policies that answer in text run in this process.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.envs.hosting.pool import EnvPool, pool_of
from turngrid.envs.utils.bar import ticking_bar
from turngrid.records.damage import discard
from turngrid.records.process.exit_codes import Failure, say
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.failed_episodes import EpisodeFailed, failed_episode, run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import START, Policy
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.tasks import stage_process
from turngrid.tasks.evaluation_sets import EvaluationSetting, evaluation_settings
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks

BEFORE_RL = ("base", "sft")
PoolOf = Callable[[Run, str], Awaitable[EnvPool]]  # returns an environment's pool


@dataclass(frozen=True)
class Checkpoint:
    """A model to be evaluated."""

    name: str  # the stage that made it
    path: str  # a folder or a Hugging Face name
    chat: ChatSettings | None = None  # None: as the config says
    library: bool = False  # looked up as its training left it


def episodes_file(folder: Path, name: str, label: str = "") -> Path:
    """Return ``evaluation/LABEL/NAME.jsonl``; the first setting has no label."""
    return folder / "evaluation" / label / f"{name}.jsonl"


def evaluate(run: Run, checkpoints: Sequence[Checkpoint], tracked: bool = False) -> None:
    """Evaluate the checkpoints in the settings whose episodes are missing, or StageFailed."""
    folder, settings = run.folder, evaluation_settings(run)
    left = sum(missing_episodes(folder, checkpoint.name, item) for checkpoint in checkpoints for item in settings)
    if not left and not (tracked and not stage_process.tracked(run, "evaluation").is_logged()):
        return
    path = folder / "evaluation" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(process_config(run, checkpoints, tracked), path)
    progress_file(folder).unlink(missing_ok=True)  # left by a killed evaluation
    with ticking_bar(total=left, desc="evaluation", unit="game") as bar:

        def update() -> None:
            with suppress(FileNotFoundError, ValueError):  # not there yet, or being written
                bar.update(max(0, int(progress_file(folder).read_text()) - bar.n))

        stage_process.run_stage(run, "evaluation", "turngrid.experiments.evaluation.process", [str(path)], update)
    progress_file(folder).unlink(missing_ok=True)


def process_config(run: Run, checkpoints: Sequence[Checkpoint], tracked: bool) -> DictConfig:
    """Return the run's config with ``policies``, opponents' ``models`` by name, and ``tracked``."""
    rows = [{**asdict(one), "chat": asdict(one.chat or run.chat)} for one in checkpoints]
    before = [one.path for one in checkpoints if one.name in BEFORE_RL]
    return run.for_process(policies=rows, models={START: before[-1]} if before else {}, tracked=tracked)


def missing_episodes(folder: Path, name: str, item: EvaluationSetting) -> int:
    """Return the number of episodes that a policy lacks in a setting."""
    return 0 if episodes_file(folder, name, item.label).exists() else item.evaluation_set.games * item.samples_per_game


def set_evaluation_aside(folder: Path, name: str) -> None:
    """Set aside the episodes of models before they are made again; ``name`` is a pattern."""
    for file in sorted((folder / "evaluation").rglob(f"{name}.jsonl")):
        moved_to = discard(folder, file).relative_to(folder)
        say(
            f"note: {file.relative_to(folder)} is of an earlier model; "
            f"it is evaluated again, and the file moved to {moved_to}"
        )


def progress_file(folder: Path) -> Path:
    return folder / "evaluation" / ".progress"


def write(folder: Path, name: str, item: EvaluationSetting, episodes: Sequence[Episode]) -> None:
    """Write a policy's episodes in a setting; raise Failure if every one of them failed."""
    if all(episode.outcome is Outcome.ERROR for episode in episodes):
        error = " ".join(episodes[0].error.split())
        raise Failure(f"{name}: every game of {item.evaluation_set.task} failed: {error}")
    write_episodes(episodes_file(folder, name, item.label), episodes)


def played(folder: Path, name: str, label: str = "") -> list[Episode]:
    return list(read_episodes(episodes_file(folder, name, label)))


# ---- policies that answer in text


def episode_specs(run: Run, item: EvaluationSetting) -> list[EpisodeSpec]:
    """Return every episode of the setting: games in order, a game's samples together."""
    run, turns = run.of_environment(item.evaluation_set.env), item.evaluation_set.max_turns
    games = read_tasks(Path(item.evaluation_set.file))
    samples = range(item.samples_per_game)
    return [run.spec(game, turns, sample, item.opponent) for game in games for sample in samples]


async def roll_out_in_text(
    policy: Policy, specs: Sequence[EpisodeSpec], pool: EnvPool, at_once: int, done: Callable[[], object], seed: int = 0
) -> list[Episode]:
    """Run all ``specs``, ``at_once`` at a time, and return the episodes in their order.

    An episode that fails in the environment is recorded as an error. The random policy needs a pool
    that lists legal commands. Scripted opponents draw by ``seed``.
    """
    gate = asyncio.Semaphore(at_once)

    async def play(spec: EpisodeSpec) -> Episode:
        async with gate:
            try:
                episode = await run_with_retries(
                    pool.open, lambda session: run_episode(policy, session, spec, None, None, seed)
                )
            except EpisodeFailed as error:
                episode = failed_episode(spec, policy.name, error)
        done()
        return episode

    return list(await asyncio.gather(*(play(spec) for spec in specs)))


@asynccontextmanager
async def open_pools(legal: bool = False) -> AsyncIterator[PoolOf]:
    """Yield a function that returns an environment's pool, started on first use."""
    pools: dict[str, EnvPool] = {}
    async with AsyncExitStack() as stack:

        async def of(run: Run, name: str) -> EnvPool:
            if name not in pools:
                env = run.of_environment(name).config.env
                pools[name] = await stack.enter_async_context(pool_of(env, legal=legal))
            return pools[name]

        yield of
