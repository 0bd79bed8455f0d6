"""From measured games to figures: the truth, each method's rating, and differences between methods."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envs.utils.files import write_whole
from experiments.credit_quality.gradients import cosines
from experiments.credit_quality.insight import Insight
from experiments.credit_quality.intervals import Interval, differences, of_truth, rated, wanted_k, wanted_tasks
from experiments.credit_quality.measured_game import MeasuredGame, keys
from experiments.credit_quality.measures import task_sums
from experiments.credit_quality.methods import Batch, Groups, Method
from experiments.credit_quality.study import Measured
from experiments.credit_quality.truth import Truth, truth
from rollouts.episode import Episode

FILE = "results.json"
WANTED_RELIABILITY, WANTED_HALF = 0.6, 0.05
Table = Mapping[str, Mapping[str, Interval]]


@dataclass(frozen=True)
class Results:
    """``about``: what was measured, in words and numbers. ``truth``: by name. ``methods``: {measure: {method: interval}}; ``differences``: the
    same, each method less ``against``. ``plan``: lines that say how much more precision would cost."""

    about: Mapping[str, Any]
    truth: Mapping[str, Interval]
    methods: Table
    against: str
    differences: Table
    plan: Sequence[str]

    def write(self, folder: Path) -> None:
        text = json.dumps(_rounded(asdict(self)), indent=1, sort_keys=False)
        write_whole(folder / FILE, text + "\n")

    @classmethod
    def read(cls, file: Path) -> Results:
        data = json.loads(file.read_text(encoding="utf-8"))
        table = {name: _table(data[name]) for name in ("methods", "differences")}
        return cls(**{**data, **table, "truth": _row(data["truth"])})


def _rounded(value: Any) -> Any:
    """Four digits; null where a figure is not defined."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return (round(value, 4) if math.isfinite(value) else None) if isinstance(value, float) else value


def _row(row: Mapping[str, Mapping[str, float | None]]) -> dict[str, Interval]:
    return {
        name: Interval(**{key: math.nan if item is None else item for key, item in found.items()})
        for name, found in row.items()
    }


def _table(table: Mapping[str, Any]) -> dict[str, dict[str, Interval]]:
    return {measure: _row(row) for measure, row in table.items()}


@dataclass(frozen=True)
class Rated:
    """``credits``: (N,) of each method over all turns, by its label; ``groups``: the episodes, in the same order."""

    results: Results
    truth: Truth
    credits: Mapping[str, np.ndarray]
    groups: Groups


def results(
    games: Measured,
    methods: Sequence[Method],
    reward: str,
    samples: int,
    k: int,
    about: Mapping[str, Any],
    policy: Insight,
) -> Rated:
    """Raises: ValueError: an episode's advantages do not add up to R - V(s0)."""
    groups = [[episode for episode in game.episodes[:samples] if episode.turns] for game in games.taken]
    known = true_advantages(games.taken, groups, reward, k)
    batch, told = policy.batch(methods, games, groups, reward, k)
    credits = {method.label: method.credit(batch) for method in methods}
    sums = {
        method.label: task_sums(known, credits[method.label].turns, without_one(method, batch, samples))
        for method in methods
    }
    against = next(iter(sums))
    found = of_truth(sums[against])
    ratings, less = rated(sums), differences(sums, against)
    tokens = {name: credit.tokens for name, credit in credits.items()}
    if gradients := policy.gradients(groups, tokens, known):
        of_gradients = cosines(*gradients, against)
        ratings, less = ratings | of_gradients[0], less | of_gradients[1]
    counts = {
        **told,
        "games": [game.key for game in games.taken],
        "episodes": sum(map(len, groups)),
        "turns": len(known.advantage),
        "prefixes": len(
            {(number, key) for number, group in enumerate(groups) for episode in group for key in keys(episode)}
        ),
        "won": float(np.mean([episode.won for group in groups for episode in group])),
        "cpu_seconds": round(sum(game.seconds for game in games.taken)),
    }
    lines = plan(found["reliability"], ratings["r"][against], k, len(groups), counts["cpu_seconds"])
    made = Results({**about, **counts}, found, ratings, against, less, lines)
    return Rated(made, known, {name: credit.turns for name, credit in credits.items()}, groups)


def true_advantages(games: Sequence[MeasuredGame], groups: Sequence[Sequence[Episode]], reward: str, k: int) -> Truth:
    """From the first ``k`` continuations of every prefix."""
    return truth(
        [
            (
                number,
                [np.array(game.values[key][:k]) for key in keys(episode)],
                sum(turn.trained(reward) for turn in episode.turns),
            )
            for number, (game, group) in enumerate(zip(games, groups, strict=True))
            for episode in group
        ]
    )


def without_one(method: Method, batch: Batch, samples: int) -> np.ndarray | None:
    """(samples, N): the credit where sample i of every group was left out, NaN on its own turns; None for groups too small for it."""
    groups = batch.groups
    if min(map(len, groups)) < 3:
        return None
    found = []
    for left in range(samples):
        own = [[number == left for number in range(len(group)) for _ in group[number].turns] for group in groups]
        mask = np.array([turn for group in own for turn in group])
        row = np.full(len(mask), np.nan)
        row[~mask] = method.credit(batch.without(left)).turns
        found.append(row)
    return np.stack(found)


def plan(reliability: Interval, r: Interval, k: int, tasks: int, cpu_seconds: float) -> list[str]:
    """What a reliability of .6, and intervals of +- .05, would take."""
    lines = []
    each = cpu_seconds / max(tasks, 1)
    try:
        enough = wanted_k(reliability.estimate, k, WANTED_RELIABILITY)
        lines.append(
            f"a reliability of {WANTED_RELIABILITY} takes k = {enough}: {_minutes(each * enough / k)} of CPU a game"
        )
    except ValueError as error:
        lines.append(str(error))
    if math.isfinite(r.half) and r.half > 0:
        many = wanted_tasks(r.half, tasks, WANTED_HALF)
        lines.append(f"an interval of +- {WANTED_HALF} for r takes {many} tasks: {_minutes(each * many)} of CPU in all")
    return lines


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"


def progress(games: Sequence[MeasuredGame], reward: str, samples: int, k: int) -> str:
    """The precision so far, with the score less its group's mean as an example of a method."""
    if len(games) < 2:
        return ""
    groups = [[episode for episode in game.episodes[:samples] if episode.turns] for game in games]
    known = true_advantages(games, groups, reward, k)
    counts = np.bincount(known.episode)
    task = known.task[np.cumsum(counts) - 1]
    credit = known.score - (np.bincount(task, known.score) / np.bincount(task))[task]
    sums = task_sums(known, np.repeat(credit, counts))
    found, example = of_truth(sums, draws=200)["reliability"], rated({"": sums}, draws=200)["r"][""]
    return f"reliability {found.estimate:.2f}, r +- {example.half:.2f}" if math.isfinite(found.estimate) else ""


def shown(interval: Interval) -> str:
    if not math.isfinite(interval.estimate):
        return "-"
    bounds = f" ({interval.low:.2f} to {interval.high:.2f})" if math.isfinite(interval.low) else ""
    return f"{interval.estimate:.2f}{bounds}".replace("-0.00", "0.00")


def by_rating(found: Results) -> list[str]:
    """The methods, best correlation first."""
    return sorted(found.methods["r"], key=lambda name: -np.nan_to_num(found.methods["r"][name].estimate, nan=-9))


def markdown(found: Results, only: Sequence[str] = ()) -> str:
    """The table of measures, or of some only, by rating, and the paired differences of r."""
    measures = [name for name in found.methods if not only or name in only]
    head = ["method", *measures, f"r less that of {found.against}"]
    rows = [
        [
            f"`{name}`",
            *(shown(found.methods[measure][name]) for measure in measures),
            shown(found.differences["r"][name]),
        ]
        for name in by_rating(found)
    ]
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))
