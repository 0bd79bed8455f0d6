"""Early experience: sample alternatives to the expert's actions, and make SFT rows from them.

The model samples in a separate process, ``main``, which writes ``episodes/alternatives.jsonl``.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from tqdm import tqdm

from turngrid.config import precision
from turngrid.config.experience import writer
from turngrid.envs.hosting.pool import pool_of
from turngrid.envs.types import Observation, TaskRef
from turngrid.envs.utils.bar import ticking_bar
from turngrid.records.process.child import stage_exit_code
from turngrid.records.process.exit_codes import Failure, say
from turngrid.rollouts.chat_policy import ChatPolicy, EndpointError
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.policy import TurnContext
from turngrid.rollouts.sampling import SamplingParams
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.rollouts.stream import user
from turngrid.tasks.demonstrations import episodes_file
from turngrid.tasks.early_experience import (
    REFLECTION,
    TEMPERATURE,
    alternatives_file,
    distinct,
    question,
    reflection_row,
    rows_file,
    specs,
    world_model_row,
)
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks, task_file
from turngrid.tasks.stage_process import run_stage

AT_ONCE = 16  # requests to the writer
THOUGHT_TOKENS = 256

Pair = tuple[Episode, Episode]  # a demonstration, and an alternative to one of its actions


def make_rows(run: Run, model: str) -> None:
    """Write the SFT rows that are made from alternatives. Existing alternatives are reused.

    Raises:
        StageFailed: the sampling process failed.
        Failure: the writer, which formulates reflections, does not answer.
    """
    if not alternatives_file(run.folder).exists():
        _draw(run, model)
    demonstrations = {episode.task: episode for episode in read_episodes(episodes_file(run.folder))}
    pairs = [(demonstrations[episode.task], episode) for episode in read_episodes(alternatives_file(run.folder))]
    if run.demos.experience == REFLECTION:
        rows = _reflected(run, pairs)
    else:
        rows = [world_model_row(alternative) for _, alternative in pairs if alternative.final_observation.strip()]
    write_episodes(rows_file(run.folder), rows)


def _draw(run: Run, model: str) -> None:
    file = run.folder / "episodes" / "alternatives.yaml"
    OmegaConf.save(run.for_process(model=model), file)
    with ticking_bar(desc="alternatives", bar_format="{desc}: {elapsed}"):
        run_stage(run, "alternatives", "turngrid.experiments.stages.experience", [str(file)])
    file.unlink()


def _reflected(run: Run, pairs: Sequence[Pair]) -> list[Episode]:
    tasks = {task.key: task for task in read_tasks(task_file(run.folder, "demonstrations"))}
    with ticking_bar(total=len(pairs), desc="reflections", unit="thought") as bar:
        try:
            thoughts = asyncio.run(_ask(run, pairs, tasks, bar))
        except EndpointError as error:
            raise Failure(f"demos.writer: {error}") from error
    functions = run.environment.prompt.functions
    rows = [
        reflection_row(other, shown.turns[len(other.prefix)].action, thought, run.prompt, functions)
        for (shown, other), thought in zip(pairs, thoughts, strict=True)
    ]
    if left_out := rows.count(None):
        form = run.config.prompt.name
        other = "react" if form == "think_action" else "think_action"
        say(f"note: prompt={form}: it cannot write {left_out} of {len(rows)} reflections; use prompt={other}")
    return [row for row in rows if row is not None]


async def _ask(run: Run, pairs: Sequence[Pair], tasks: dict[str, TaskRef], bar: tqdm) -> list[str]:
    """Return the writer's thought for each pair, in order."""
    endpoint, gate = writer(run.config), asyncio.Semaphore(AT_ONCE)
    async with endpoint.client() as client:
        policy = ChatPolicy(endpoint, client, temperature=1.0, max_tokens=THOUGHT_TOKENS, run_seed=run.seed)

        async def think(pair: Pair) -> str:
            other = pair[1]
            task = tasks[other.task]
            where = (task, Observation(""), len(other.prefix), other.sample, 0, f"reflect {task.key}")
            async with gate:
                answer = await policy.act(TurnContext([user(question(*pair))], [], *where))
            bar.update()
            return answer.text

        return list(await asyncio.gather(*map(think, pairs)))


# ---- the sampling process


async def draw(run: Run, path: str) -> list[Episode]:
    """Sample alternatives to the demonstrations' actions; Refusal if a game differs."""
    from turngrid.verl_plugin.rollout.local_rollouts import (  # torch and transformers: in this process only
        LoadedModel,
        Rules,
    )
    from turngrid.verl_plugin.training import watchdog

    config = run.config
    watchdog.begin(run.cluster.hung_factor, run.cluster.hung_after_s)
    demonstrations = list(read_episodes(episodes_file(run.folder)))
    games = read_tasks(task_file(run.folder, "demonstrations"))
    bases = [EpisodeSpec(game, run.environment.prompt, 1, run.reward, form=run.prompt) for game in games]
    wanted = [specs(shown, base, config.demos.alternatives) for shown, base in zip(demonstrations, bases, strict=True)]
    model = LoadedModel(path, config.trainer.device, run.chat, run.prompt.marks, precision.dtype(config, path))
    params = SamplingParams(TEMPERATURE, max_action_tokens=int(config.env.max_action_tokens))
    async with pool_of(config.env, legal=run.prompt.admissible) as pool:
        every = [spec for of_one in wanted for spec in of_one]
        rules = Rules(params, run.limit(model.context), int(config.seed))
        drawn = iter(await model.roll_out(every, rules, pool, lambda: watchdog.current.enter("game")))
        watchdog.current.end()
    return [
        alternative
        for shown, of_one in zip(demonstrations, wanted, strict=True)
        for alternative in distinct(shown, [next(drawn) for _ in of_one])
    ]


def main() -> None:
    config: Any = OmegaConf.load(sys.argv[1])
    run = Run(config, Path(config.run.folder))
    write_episodes(alternatives_file(run.folder), asyncio.run(draw(run, config.run.model)))


if __name__ == "__main__":
    sys.exit(stage_exit_code(main))
