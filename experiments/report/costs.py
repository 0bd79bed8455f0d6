"""What the runs of a setting spent, and which code they were made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from experiments.report.runs import Run, grouped


@dataclass(frozen=True)
class Cost:
    """Means over the finished runs of one setting.

    Attributes:
        units: budget units charged.
        demonstrations, episodes: played for training, charged or not.
        games: distinct games of training.
        tokens: sampled in RL.
        seconds: wall seconds of all stages, over all attempts.
    """

    name: str
    runs: int
    units: float
    demonstrations: float
    episodes: float
    games: float
    tokens: float
    seconds: float


def costs(runs: Sequence[Run]) -> list[Cost]:
    """One a setting, for runs whose ledger is known (W&B's logs do not have it)."""
    known = [run for run in runs if run.result and run.result.notes.get("spent")]
    groups = grouped(known, nameless="each run")
    return [_cost(name, group) for name, group in groups.items()]


def _cost(name: str, runs: Sequence[Run]) -> Cost:
    results = [run.result for run in runs if run.result]

    def mean(kind: str, what: str) -> float:
        return fmean(result.notes["spent"]["kinds"].get(kind, {}).get(what, 0.0) for result in results)

    return Cost(
        name=name,
        runs=len(runs),
        units=fmean(result.units for result in results),
        demonstrations=mean("demonstration", "count"),
        episodes=mean("rl_episode", "count"),
        games=mean("rl_episode", "games"),
        tokens=mean("rl_episode", "tokens"),
        seconds=fmean(result.seconds for result in results),
    )


def total(found: Sequence[Cost]) -> Cost:
    """Sums over all runs."""
    names = ("units", "demonstrations", "episodes", "games", "tokens", "seconds")
    sums = {name: sum(cost.runs * getattr(cost, name) for cost in found) for name in names}
    return Cost("all runs together", sum(cost.runs for cost in found), **sums)


@dataclass(frozen=True)
class Origin:
    """A commit with its packages. ``runs``: how many were started with it last."""

    commit: str
    versions: str
    runs: int


def origins(runs: Sequence[Run]) -> list[Origin]:
    """By the last attempt of each run."""
    counts: dict[tuple[str, str], int] = {}
    for run in runs:
        for attempt in run.attempts[-1:]:
            commit = (attempt.commit[:10] if attempt.commit else "an installed package") + (
                " with changes" if attempt.dirty else ""
            )
            versions = ", ".join(f"{name} {version}" for name, version in attempt.versions.items())
            counts[commit, versions] = counts.get((commit, versions), 0) + 1
    return [Origin(commit, versions, count) for (commit, versions), count in counts.items()]
