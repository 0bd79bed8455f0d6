"""An environment's measurements (success, speed, lengths, repeated states) and their tables."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean

from rich.table import Table
from transformers import AutoTokenizer

from turngrid.envs.hosting.pool import Session
from turngrid.envs.types import TaskRef
from turngrid.experiments.evaluate import composed, evaluation_folder, hold
from turngrid.experiments.evaluation.policies import policies
from turngrid.experiments.evaluation.result import Measures, RunResult, evaluation
from turngrid.experiments.evaluation.stage import open_pools, played
from turngrid.experiments.evaluation.tables import filled, plain_text
from turngrid.experiments.sweep.definition import SweepRun
from turngrid.records.models.locate import resolve_model
from turngrid.records.step_metrics import repeated_states
from turngrid.rollouts.episode import Episode
from turngrid.tasks.evaluation_sets import EvaluationSetting, evaluation_settings
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks

# Random play has several samples a game, as training has: states repeat within and between them.
SAMPLES = {"expert": 1, "random": 4}
BASE = "base"
SESSIONS, GAMES, MEASURED_S = 4, 8, 1.0
WIDTH = 180


@dataclass(frozen=True)
class Row:
    """One environment.

    Attributes:
        scripted: success of expert and random.
        trained: success by training, ``base`` first; of the runs that have ended.
        steps_per_second: of expert plans, through the pool.
        repeated: share of random play's turns whose observation another turn of its game has too.
        optimal: mean, lowest and highest number of the expert's turns.
        tokens: of an expert's episode, by the model's tokenizer; the mean.
    """

    env: str
    task: str
    scripted: dict[str, Measures]
    trained: dict[str, Measures]
    steps_per_second: float
    repeated: float
    optimal: tuple[float, int, int]
    tokens: float
    max_turns: int

    @property
    def first_win(self) -> str:
        """Return the fewest demonstrations after which the model wins a game; "" if none do."""
        if self.trained.get(BASE) and self.trained[BASE].successes:
            return "0"
        return next((name for name, success in self.trained.items() if name.isdigit() and success.successes), "")


def measured(overrides: Sequence[str], runs: Sequence[SweepRun], output_dir: Path) -> Row:
    """Evaluate expert and random where episodes are missing, and read the runs that have ended.

    Raises:
        ConfigError: the overrides are refused.
        TaskError: an evaluation set cannot be filled.
    """
    own = [*(item for item in overrides if not item.startswith("tracking.")), f"output_dir={output_dir}"]
    shown = {policy: _scripted(policy, [*own, f"eval.samples_per_game={count}"]) for policy, count in SAMPLES.items()}
    run, item, expert = shown["expert"]
    pace = asyncio.run(steps_per_second(run, item))
    lengths = [len(episode.turns) for episode in expert if episode.won] or [0]
    results = {run.coordinates["training"]: output_dir / run.folder for run in runs}
    ended = {training: result for training, folder in results.items() if (result := RunResult.read(folder))}
    bases = [stage for result in ended.values() if (stage := result.stage(BASE))]
    trained = {BASE: bases[0]} if bases else {}
    trained |= {training: result.stages[-1] for training, result in ended.items()}
    return Row(
        env=str(run.env.name),
        task=item.evaluation_set.task,
        scripted={policy: evaluation(policy, item, episodes) for policy, (_, item, episodes) in shown.items()},
        trained=trained,
        steps_per_second=pace,
        repeated=repeated_states(list(own) for _, own in groupby(shown["random"][2], lambda one: one.task)),
        optimal=(fmean(lengths), min(lengths), max(lengths)),
        tokens=_tokens(expert, str(run.model.path)),
        max_turns=item.evaluation_set.max_turns,
    )


def _scripted(policy: str, overrides: list[str]) -> tuple[Run, EvaluationSetting, list[Episode]]:
    run = Run(composed([policy], overrides))
    run = replace(run, folder=evaluation_folder(run))
    hold(run, policies([policy], None, run), 1)
    (item,) = evaluation_settings(run)
    return run, item, played(run.folder, policy, item.label)


def _tokens(episodes: Sequence[Episode], model: str) -> float:
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


# ---- tables


def text(rows: Sequence[Row], skipped: Mapping[str, str]) -> str:
    """Return the tables; ``skipped``: environment -> the line that installs what it lacks."""
    lines = [f"skipped: {name}: {reason}" for name, reason in skipped.items()]
    return "\n".join([plain_text([_success(rows), _about(rows)], WIDTH).rstrip(), *lines])


def _success(rows: Sequence[Row]) -> Table:
    columns: dict[str, Callable[[Row], str]] = {"environment": lambda row: f"{row.env} {row.task}"}
    trainings = dict.fromkeys(name for row in rows for name in row.trained)
    for name in (*SAMPLES, *sorted(trainings, key=lambda name: name != BASE)):
        head = name if name in (*SAMPLES, BASE) else f"SFT {name}"  # "100 + RL" is SFT on 100, then RL
        columns[head] = lambda row, name=name: _cell({**row.scripted, **row.trained}.get(name))
    columns["demonstrations for a win"] = lambda row: row.first_win or "-"
    return filled("success %, 95 % interval, games (x samples)", columns, rows)


def _about(rows: Sequence[Row]) -> Table:
    columns: dict[str, Callable[[Row], str]] = {
        "environment": lambda row: f"{row.env} {row.task}",
        "steps/s": lambda row: f"{row.steps_per_second:,.0f}",
        "repeated states %": lambda row: f"{100 * row.repeated:.0f}",
        "expert's turns": lambda row: "{:.1f} ({} to {})".format(*row.optimal),
        "turns at most": lambda row: str(row.max_turns),
        "tokens an episode": lambda row: f"{row.tokens:,.0f}",
    }
    return filled("what the environments are like", columns, rows)


def _cell(result: Measures | None) -> str:
    if result is None:
        return "-"
    mean, low, high = (f"{100 * share:.0f}" for share in (result.interval.mean, result.low, result.high))
    samples = f" x {result.samples_per_game}" * (result.samples_per_game > 1)
    return f"{mean} [{low}, {high}]\n{result.games}{samples}"
