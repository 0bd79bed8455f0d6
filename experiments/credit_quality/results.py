"""Compute the results from measured games: true advantages, ratings of methods, and differences."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.credit_quality.game import MeasuredGame, keys, score
from turngrid.experiments.credit_quality.intervals import (
    GRADIENT,
    PARTS,
    Interval,
    Products,
    cosines,
    differences,
    of_truth,
    rated,
)
from turngrid.experiments.credit_quality.measures import Truth, task_sums, truth
from turngrid.experiments.credit_quality.methods import Groups, Method
from turngrid.experiments.credit_quality.study import Measured

if TYPE_CHECKING:
    from turngrid.experiments.credit_quality.critic import RunCritic
    from turngrid.experiments.credit_quality.policy_model import PolicyModel

FILE = "results.json"
MOST = 10**9  # numbers in all gradients together: 4 GB
Table = Mapping[str, Mapping[str, Interval]]


@dataclass(frozen=True)
class Results:
    """Results of a study.

    Attributes:
        about: what was measured, in words and numbers.
        truth: statistics of the true advantages, by name.
        methods: {measure: {method: interval}}.
        against: the method that all others are compared with.
        differences: as ``methods``, each method minus ``against``.
    """

    about: Mapping[str, Any]
    truth: Mapping[str, Interval]
    methods: Table
    against: str
    differences: Table

    def write(self, folder: Path) -> None:
        text = json.dumps(_rounded(asdict(self)), indent=1, sort_keys=False)
        write_whole(folder / FILE, text + "\n")

    @classmethod
    def read(cls, file: Path) -> Results:
        data = json.loads(file.read_text(encoding="utf-8"))
        table = {name: _table(data[name]) for name in ("methods", "differences")}
        return cls(**{**data, **table, "truth": _row(data["truth"])})


def _rounded(value: Any) -> Any:
    """Round floats to four digits; NaN and infinity become null."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return (round(value, 4) if math.isfinite(value) else None) if isinstance(value, float) else value


def _row(row: Mapping[str, Mapping[str, float | None]]) -> dict[str, Interval]:
    return {
        name: Interval(**{key: math.nan if item is None else item for key, item in bounds.items()})
        for name, bounds in row.items()
    }


def _table(table: Mapping[str, Any]) -> dict[str, dict[str, Interval]]:
    return {measure: _row(row) for measure, row in table.items()}


@dataclass(frozen=True)
class Rated:
    """Results with each method's credit, (N,) over all turns of ``groups``, by its label."""

    results: Results
    truth: Truth
    credits: Mapping[str, np.ndarray]
    groups: Groups


@dataclass(frozen=True)
class Insight:
    """Numbers that the policy provides if it is a model: entropies, values, gradients.

    Attributes:
        model: None for policies that are no model.
        critic: the run's critic; None if it has none.
        wanted: whether to compute gradients.
    """

    model: PolicyModel | None = None
    critic: RunCritic | None = None
    wanted: bool = True

    def inputs(
        self, needs: frozenset[str], games: Measured, groups: Groups, reward: str, k: int
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return (n,) numbers of all action tokens that methods need, and notes on the critic."""
        known: dict[str, np.ndarray] = {}
        if not self.model:
            return known, {}
        if "entropy" in needs:
            known["entropy"] = np.concatenate([self.model.entropy(episode) for group in groups for episode in group])
        if "values" not in needs:
            return known, {}
        from turngrid.experiments.credit_quality.critic import run_values, trained_values

        critic, made = "the run's" if self.critic else "trained here", (games, groups, reward, k)
        values = run_values(self.critic, *made) if self.critic else trained_values(self.model, *made)
        known["values"] = np.concatenate([one for group in values.values for one in group])
        return known, {"critic": critic, "critic_explains": values.explained}

    def gradients(
        self, groups: Groups, credits: Mapping[str, np.ndarray], truth: Truth
    ) -> Mapping[str, Products] | None:
        """Return the gradients' products.

        None without a model, or if the gradients have more than ``MOST`` numbers together.
        """
        if self.model is None or not self.wanted or len(groups) * (len(credits) + PARTS) * self.model.size > MOST:
            return None
        from turngrid.experiments.credit_quality.policy_model import of_games

        return of_games(self.model, groups, credits, truth)


def results(
    games: Measured,
    methods: Sequence[Method],
    reward: str,
    samples: int,
    k: int,
    about: Mapping[str, Any],
    policy: Insight,
) -> Rated:
    """Rate the methods.

    Raises:
        ValueError: an episode's advantages do not add up to R - V(s0).
    """
    groups = [[episode for episode in game.episodes[:samples] if episode.turns] for game in games.taken]
    known = true_advantages(games.taken, groups, reward, k)
    needs = frozenset(need for method in methods for need in method.needs)
    inputs, notes = policy.inputs(needs, games, groups, reward, k)
    credits = {method.label: method.credit(groups, inputs) for method in methods}
    sums = {name: task_sums(known, credit.turns) for name, credit in credits.items()}
    against = methods[0].label
    ratings, less = rated(sums), differences(sums, against)
    if gradients := policy.gradients(groups, {name: credit.tokens for name, credit in credits.items()}, known):
        ratings[GRADIENT], less[GRADIENT] = cosines(gradients, against)
    counts = {**about, **notes, **_counts(games.taken, groups, known)}
    made = Results(counts, of_truth(sums[against]), ratings, against, less)
    return Rated(made, known, {name: credit.turns for name, credit in credits.items()}, groups)


def _counts(games: Sequence[MeasuredGame], groups: Groups, known: Truth) -> dict[str, Any]:
    episodes = [(number, episode) for number, group in enumerate(groups) for episode in group]
    return {
        "games": [game.key for game in games],
        "episodes": len(episodes),
        "turns": len(known.advantage),
        "prefixes": len({(number, key) for number, episode in episodes for key in keys(episode)}),
        "won": float(np.mean([episode.won for _, episode in episodes])),
        "cpu_seconds": round(sum(game.seconds for game in games)),
    }


def true_advantages(games: Sequence[MeasuredGame], groups: Groups, reward: str, k: int) -> Truth:
    """Estimate the true advantages from the first ``k`` continuations of every prefix."""
    return truth(
        [
            (number, [np.array(game.values[key][:k]) for key in keys(episode)], score(episode, reward))
            for number, (game, group) in enumerate(zip(games, groups, strict=True))
            for episode in group
        ]
    )


def shown(interval: Interval) -> str:
    if not math.isfinite(interval.estimate):
        return "-"
    bounds = f" ({interval.low:.2f} to {interval.high:.2f})" if math.isfinite(interval.low) else ""
    return f"{interval.estimate:.2f}{bounds}".replace("-0.00", "0.00")


def by_rating(results: Results) -> list[str]:
    """Return the methods, best correlation first."""
    return sorted(results.methods["r"], key=lambda name: -np.nan_to_num(results.methods["r"][name].estimate, nan=-9))


def markdown(results: Results, only: Sequence[str] = ()) -> str:
    """Return a table of the measures (of all methods or of those in ``only``) and differences of
    r.
    """
    measures = [name for name in results.methods if not only or name in only]
    head = ["method", *measures, f"r less that of {results.against}"]
    rows = [
        [
            f"`{name}`",
            *(shown(results.methods[measure][name]) for measure in measures),
            shown(results.differences["r"][name]),
        ]
        for name in by_rating(results)
    ]
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))
