"""Compare the environments: success of expert and random, speed, lengths, repeated states.

    python -m experiments.suite [KEY=VALUE ...]
    python -m experiments.suite only=crafting,sokoban eval.games=20
    python -m train -m sweep=suite_laptop               # trains, and ends with this table

only=      environments, separated by commas; by default all of sweep=suite_laptop
KEY=VALUE  as for `python -m train`: eval.games=, output_dir=, cluster=, fresh=true

Existing episodes are kept. An environment whose extra is missing is skipped, with the line that
installs it. docs/env.md explains the columns."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean

from rich.table import Table

from turngrid.envs.hosting.pool import Session
from turngrid.envs.types import TaskRef
from turngrid.envs.utils.names import meant
from turngrid.experiments.evaluate import composed, evaluation_folder, hold
from turngrid.experiments.evaluation.policies import policies
from turngrid.experiments.evaluation.result import Measures, evaluation
from turngrid.experiments.evaluation.stage import open_pools, played
from turngrid.experiments.evaluation.tables import filled, plain_text
from turngrid.experiments.suite.extras import lacking
from turngrid.experiments.sweep.definition import load, scale_of
from turngrid.experiments.tables import listed
from turngrid.records.models.locate import resolve_model
from turngrid.records.process.exit_codes import Refusal, command, own_words, say
from turngrid.records.step_metrics import repeated_states
from turngrid.rollouts.episode import Episode
from turngrid.tasks.evaluation_sets import EvaluationSetting
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks

NAME, SCALE, AXIS = "suite_laptop", "laptop", "env"
# Random play has several samples a game, as training has: states repeat within and between them.
SAMPLES = {"expert": 1, "random": 4}
SESSIONS, GAMES, MEASURED_S = 4, 8, 1.0
WIDTH = 180


@dataclass
class Options:
    only: str = ""


@dataclass(frozen=True)
class Row:
    """One environment.

    Attributes:
        scripted: success of expert and random.
        steps_per_second: of expert plans, through the pool.
        repeated: share of random play's turns whose observation another turn of its game has too.
        optimal: mean, lowest and highest number of the expert's turns.
        tokens: of an expert's episode, by the model's tokenizer; the mean.
    """

    env: str
    task: str
    scripted: dict[str, Measures]
    steps_per_second: float
    repeated: float
    optimal: tuple[float, int, int]
    tokens: float
    max_turns: int


@command(__doc__)
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options, Refusal)
    if words:
        raise Refusal(f"{words[0]}: this command takes KEY=VALUE only; use only={words[0]}")
    rows = []
    for name, own in _chosen(environments(), listed(options.only)).items():
        if reason := lacking(own):
            say(f"note: {name} is skipped: {reason}")
            continue
        say(f"suite: {name}")
        rows.append(measured([*own, *overrides]))
    print(plain_text([table(rows)], WIDTH).rstrip(), flush=True)
    return 0


def environments() -> dict[str, list[str]]:
    """Return each environment's overrides: of those that are trained in, then of the others."""
    definition = load(NAME)
    scale = scale_of(definition, SCALE)
    trained = {name: [*scale.overrides, *own] for name, own in scale.axes[AXIS].items()}
    return trained | (definition.suite or {})


def _chosen(every: Mapping[str, list[str]], names: Sequence[str]) -> dict[str, list[str]]:
    if unknown := next((name for name in names if name not in every), None):
        raise Refusal(f"only={unknown}: no such environment{meant(unknown, every)} ({', '.join(every)})")
    return {name: every[name] for name in names or every}


def measured(overrides: list[str]) -> Row:
    """Evaluate expert and random where episodes are missing, and measure the rest.

    Raises:
        ConfigError: the overrides are refused.
        TaskError: an evaluation set cannot be filled.
    """
    shown = {name: _scripted(name, [*overrides, f"eval.samples_per_game={count}"]) for name, count in SAMPLES.items()}
    run, item, expert = shown["expert"]
    lengths = [len(episode.turns) for episode in expert if episode.won] or [0]
    return Row(
        env=str(run.config.env.name),
        task=item.evaluation_set.task,
        scripted={policy: evaluation(policy, item, episodes) for policy, (_, item, episodes) in shown.items()},
        steps_per_second=asyncio.run(steps_per_second(run, item)),
        repeated=repeated_states(list(own) for _, own in groupby(shown["random"][2], lambda one: one.task)),
        optimal=(fmean(lengths), min(lengths), max(lengths)),
        tokens=_tokens(expert, str(run.config.model.path)),
        max_turns=item.evaluation_set.max_turns,
    )


def _scripted(policy: str, overrides: list[str]) -> tuple[Run, EvaluationSetting, list[Episode]]:
    config = composed([policy], overrides)
    run = Run(config, evaluation_folder(config))
    hold(run, policies([policy], None, config), 1)
    (item,) = run.evaluation_settings
    return run, item, played(run.folder, policy, item.label)


def _tokens(episodes: Sequence[Episode], model: str) -> float:
    from transformers import AutoTokenizer  # a second

    tokenizer = AutoTokenizer.from_pretrained(resolve_model(model))
    texts = (tokenizer.apply_chat_template(episode.messages, tokenize=False) for episode in episodes)
    return fmean(len(tokenizer.encode(text)) for text in texts)


async def steps_per_second(run: Run, item: EvaluationSetting) -> float:
    """Time expert plans in several sessions at once, after each game was played once."""
    tasks = [task for task in read_tasks(Path(item.evaluation_set.file)) if task.expert_plan][:GAMES]
    async with open_pools() as pool_of:
        pool = await pool_of(run, item.evaluation_set.env)
        sessions = [await pool.open() for _ in range(SESSIONS)]
        games = [tasks[number::SESSIONS] or tasks for number in range(SESSIONS)]
        pairs = list(zip(sessions, games, strict=True))
        await asyncio.gather(*(_play(*pair, 0) for pair in pairs))
        start = time.perf_counter()
        steps = await asyncio.gather(*(_play(*pair, MEASURED_S) for pair in pairs))
        return sum(steps) / (time.perf_counter() - start)


async def _play(session: Session, tasks: Sequence[TaskRef], seconds: float) -> int:
    """Play all games, again until the time is over; return the number of steps."""
    steps, end = 0, time.perf_counter() + seconds
    while not steps or time.perf_counter() < end:
        for task in tasks:
            await session.reset(task, 0)
            for action in task.expert_plan:
                await session.step(action)
                steps += 1
    return steps


def table(rows: Sequence[Row]) -> Table:
    columns: dict[str, Callable[[Row], str]] = {"environment": lambda row: f"{row.env} {row.task}"}
    for name in SAMPLES:
        columns[f"{name} %"] = lambda row, name=name: _success(row.scripted[name])
    columns |= {
        "repeated states %": lambda row: f"{100 * row.repeated:.0f}",
        "expert's turns": lambda row: "{:.1f} ({} to {})".format(*row.optimal),
        "turns at most": lambda row: str(row.max_turns),
        "tokens an episode": lambda row: f"{row.tokens:,.0f}",
        "steps/s": lambda row: f"{row.steps_per_second:,.0f}",
    }
    return filled("success %, 95 % interval, games (x samples)", columns, rows)


def _success(result: Measures) -> str:
    mean, low, high = (f"{100 * share:.0f}" for share in (result.interval.mean, result.low, result.high))
    samples = f" x {result.samples_per_game}" * (result.samples_per_game > 1)
    return f"{mean} [{low}, {high}]\n{result.games}{samples}"


if __name__ == "__main__":
    sys.exit(main())
