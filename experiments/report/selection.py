"""From a selector to the models that it names, and from these to one sample of success or score: seeds times games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.evaluation.result import State
from experiments.report.runs import LAST, Run, apart
from experiments.report.wins import Wins, wins_of
from experiments.sweep.definition import RESERVED, SUCCESS
from records.stages import stage_name

BASE = "base"
Context = tuple[tuple[str, str], ...]


class Unfilled(Exception):
    """No run speaks for a selector; the message says why, in a few words."""


@dataclass(frozen=True)
class Choice:
    """A selector, read: which runs (by ``axes``), which of their models, on which evaluation set (None: each run's
    first), and what
    of it is measured: ``success`` or ``score``."""

    axes: Mapping[str, str]
    stage: str = LAST
    evaluation_set: str | None = None
    measure: str = SUCCESS

    def takes(self, run: Run) -> bool:
        return all(run.coordinates.get(axis) == value for axis, value in self.axes.items())


@dataclass(frozen=True)
class Sample:
    """Success (or score) of one setting's models on one evaluation set, one row a seed.

    Attributes:
        seeds: of the rows; () for the base model, which is one measurement whatever the run's seed.
        expected: seeds that the sweep has for it.
        means: one success rate or mean score a row, in [0, 1].
        shares: shape (rows, games), in [0, 1]; None where episodes are missing.
        evaluation set: hash over the games; equal hashes may be paired game by game.
        wins: where it was read.
    """

    seeds: tuple[int, ...]
    expected: int
    means: np.ndarray
    shares: np.ndarray | None
    evaluation_set: str
    games: int
    samples_per_game: int
    wins: Sequence[Wins]

    @property
    def seeded(self) -> bool:
        return bool(self.seeds)


def choice_of(selector: Mapping[str, str]) -> Choice:
    axes = {key: value for key, value in selector.items() if key not in RESERVED}
    return Choice(axes, selector.get("stage", LAST), selector.get("evaluation_set"), selector.get("measure", SUCCESS))


def by_context(runs: Sequence[Run], named: Sequence[str]) -> dict[Context, list[Run]]:
    """Runs that stand on the same place of every axis that is not named, in the order in which they come."""
    return apart(runs, lambda run: tuple(item for item in run.coordinates.items() if item[0] not in named))


def sample(runs: Sequence[Run], choice: Choice) -> Sample:
    """What the runs that ``choice`` takes say together.

    Raises:
        Unfilled: there are none, none is finished, they are of several settings, or they played different games.
    """
    taken = [run for run in runs if choice.takes(run)]
    found = _measured(taken, choice)
    if len({wins.evaluation.games_hash for wins in found}) > 1:
        raise Unfilled("the runs played different games")
    if found[0].evaluation.policy == BASE:
        return _base(found)
    if len({tuple(wins.run.coordinates.items()) for wins in found}) > 1:
        settings = (" ".join(f"{axis}={value}" for axis, value in wins.run.coordinates.items()) for wins in found)
        raise Unfilled(f"several settings at once: {'; '.join(dict.fromkeys(settings))}")
    by_seed = {wins.run.seed: wins for wins in found}
    seeds = tuple(sorted(by_seed))
    return _sample(seeds, len({run.seed for run in taken}), [by_seed[seed] for seed in seeds])


def _measured(taken: Sequence[Run], choice: Choice) -> list[Wins]:
    if not taken:
        raise Unfilled("no such run in the sweep")
    finished = [run for run in taken if run.result]
    if not finished:
        counts = Counter(run.state for run in taken)
        raise Unfilled(", ".join(f"{counts[state]} {state}" for state in State if counts[state]))
    found = [(run, run.evaluation(choice.stage, choice.evaluation_set)) for run in finished]
    wins = [wins_of(run, evaluation, choice.measure) for run, evaluation in found if evaluation]
    if not wins:
        no_model = all(run.stage(choice.stage) is None for run in finished)
        raise Unfilled(f"no model {stage_name(choice.stage)}" if no_model else f"not played on {choice.evaluation_set}")
    if any(item.mean is None for item in wins):
        raise Unfilled("nobody knows the best score of these games")
    return wins


def _base(found: Sequence[Wins]) -> Sample:
    """One measurement, however many runs repeated it: rows that differ are samples of the same model.

    Raises:
        Unfilled: several base models, or one played in several ways.
    """
    made = [wins.run.result.stage(BASE) if wins.run.result else None for wins in found]
    ways = {
        (stage and stage.checkpoint, w.evaluation.temperature, w.evaluation.max_turns)
        for stage, w in zip(made, found, strict=True)
    }
    if len(ways) > 1:
        raise Unfilled("several base models at once")
    whole = _sample((), 1, found)
    shares = None if whole.shares is None else whole.shares.mean(axis=0, keepdims=True)
    return replace(whole, means=whole.means.mean(keepdims=True), shares=shares, wins=found[:1])


def _sample(seeds: tuple[int, ...], expected: int, rows: Sequence[Wins]) -> Sample:
    first = rows[0].evaluation
    shares = [wins.shares for wins in rows]
    known = [row for row in shares if row is not None]
    return Sample(
        seeds=seeds,
        expected=expected,
        means=np.array([wins.mean for wins in rows]),
        shares=np.stack(known) if len(known) == len(shares) else None,
        evaluation_set=first.games_hash,
        games=first.games,
        samples_per_game=first.samples_per_game,
        wins=rows,
    )
