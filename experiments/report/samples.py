"""From a selector to one sample of success or score: the models that it names, seeds by games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from experiments.evaluation.matrix import EvaluationResult
from experiments.evaluation.result import State
from experiments.evaluation.stage import episodes_file
from experiments.report.runs import LAST, Run, apart
from experiments.sweep.definition import RESERVED, SCORE, SUCCESS
from records.stages import stage_name
from records.success import share_of_best
from rollouts.episode import Outcome
from tasks.evaluation_sets import label

BASE = "base"
Context = tuple[tuple[str, str], ...]


class Unfilled(Exception):
    """No run has data for a selector; the message is a short reason."""


class _Line(msgspec.Struct):
    """The fields of an episode that success and score need."""

    task: str
    outcome: str
    score: float | None = None


_decoder = msgspec.json.Decoder(_Line)


@dataclass(frozen=True)
class Choice:
    """A selector.

    Attributes:
        axes: the values that a run must have.
        stage: which of the run's models.
        evaluation_set: None for each run's first one.
        measure: ``success`` or ``score``.
    """

    axes: Mapping[str, str]
    stage: str = LAST
    evaluation_set: str | None = None
    measure: str = SUCCESS

    def takes(self, run: Run) -> bool:
        return all(run.coordinates.get(axis) == value for axis, value in self.axes.items())


@dataclass(frozen=True)
class Wins:
    """One run's model on one evaluation set.

    Attributes:
        evaluation: what the run's result says of it.
        mean: over all episodes, in [0, 1]; None if no score was recorded.
        shares: each game's share of won episodes, or mean score; None if the episodes are missing.
    """

    run: Run
    evaluation: EvaluationResult
    mean: float | None
    shares: np.ndarray | None


@dataclass(frozen=True)
class Sample:
    """Success or score of one setting's models on one evaluation set, one row per seed.

    Attributes:
        seeds: of the rows; () for the base model, which is one measurement.
        expected: number of seeds in the sweep.
        means: one value per row, in [0, 1].
        shares: shape (rows, games), in [0, 1]; None if episodes are missing.
        evaluation_set: hash over the games; samples with equal hashes can be paired game by game.
        scored: the values are scores.
    """

    seeds: tuple[int, ...]
    expected: int
    means: np.ndarray
    shares: np.ndarray | None
    evaluation_set: str
    games: int
    samples_per_game: int
    scored: bool


def choice_of(selector: Mapping[str, str]) -> Choice:
    axes = {key: value for key, value in selector.items() if key not in RESERVED}
    return Choice(axes, selector.get("stage", LAST), selector.get("evaluation_set"), selector.get("measure", SUCCESS))


def by_context(runs: Sequence[Run], named: Sequence[str]) -> dict[Context, list[Run]]:
    """Group runs by their values on all axes that are not ``named``."""
    return apart(runs, lambda run: tuple(item for item in run.coordinates.items() if item[0] not in named))


def sample(runs: Sequence[Run], choice: Choice) -> Sample:
    """Join the runs that ``choice`` takes.

    Raises:
        Unfilled: no run is finished, the runs have several settings, or they ran on different games.
    """
    taken = [run for run in runs if choice.takes(run)]
    rows = _measured(taken, choice)
    if len({wins.evaluation.games_hash for wins in rows}) > 1:
        raise Unfilled("the runs played different games")
    if rows[0].evaluation.policy == BASE:
        return _base(rows, choice)
    settings = dict.fromkeys(
        " ".join(f"{axis}={value}" for axis, value in wins.run.coordinates.items()) for wins in rows
    )
    if len(settings) > 1:
        raise Unfilled(f"several settings at once: {'; '.join(settings)}")
    by_seed = dict(sorted({wins.run.seed: wins for wins in rows}.items()))
    return _sample(tuple(by_seed), len({run.seed for run in taken}), list(by_seed.values()), choice)


def _measured(taken: Sequence[Run], choice: Choice) -> list[Wins]:
    if not taken:
        raise Unfilled("no such run in the sweep")
    finished = [run for run in taken if run.result]
    if not finished:
        counts = Counter(run.state for run in taken)
        raise Unfilled(", ".join(f"{counts[state]} {state}" for state in State if counts[state]))
    evaluations = [(run, run.evaluation(choice.stage, choice.evaluation_set)) for run in finished]
    rows = [wins_of(run, evaluation, choice.measure) for run, evaluation in evaluations if evaluation]
    if not rows:
        no_model = all(run.stage(choice.stage) is None for run in finished)
        raise Unfilled(f"no model {stage_name(choice.stage)}" if no_model else f"not played on {choice.evaluation_set}")
    if any(wins.mean is None for wins in rows):
        raise Unfilled("the best score of these games is not known")
    return rows


def _base(rows: Sequence[Wins], choice: Choice) -> Sample:
    """Average all runs' measurements of one base model.

    Raises:
        Unfilled: the models, temperatures or turn limits differ.
    """
    stages = [wins.run.result.stage(BASE) if wins.run.result else None for wins in rows]
    ways = {
        (stage and stage.checkpoint, wins.evaluation.temperature, wins.evaluation.max_turns)
        for stage, wins in zip(stages, rows, strict=True)
    }
    if len(ways) > 1:
        raise Unfilled("several base models at once")
    return _sample((), 1, rows, choice)


def _sample(seeds: tuple[int, ...], expected: int, rows: Sequence[Wins], choice: Choice) -> Sample:
    """Without ``seeds`` the rows are measurements of one model, and their mean is the only row."""
    first = rows[0].evaluation
    known = [wins.shares for wins in rows if wins.shares is not None]
    means, shares = np.array([wins.mean for wins in rows]), np.stack(known) if len(known) == len(rows) else None
    if not seeds:
        means, shares = means.mean(keepdims=True), None if shares is None else shares.mean(axis=0, keepdims=True)
    scored = choice.measure == SCORE
    return Sample(seeds, expected, means, shares, first.games_hash, first.games, first.samples_per_game, scored)


def wins_of(run: Run, evaluation: EvaluationResult, measure: str = SUCCESS) -> Wins:
    """Read the episodes once for as long as the run is held."""
    key = (measure, evaluation.policy, evaluation.env, evaluation.task)
    if key not in run.read_once:
        mean = evaluation.mean_score if measure == SCORE else evaluation.interval.mean
        run.read_once[key] = Wins(run, evaluation, mean, _shares(run, evaluation, measure, mean))
    return run.read_once[key]


def _shares(run: Run, evaluation: EvaluationResult, measure: str, mean: float | None) -> np.ndarray | None:
    """Return None also if the episodes do not add up to the result's mean."""
    values = [
        share_of_best(line.outcome, line.score) if measure == SCORE else float(line.outcome == Outcome.WON)
        for line in _lines(run, evaluation)
    ]
    known = [value for value in values if value is not None]
    complete = len(known) == evaluation.games * evaluation.samples_per_game > 0
    if mean is None or not complete or not isclose(fmean(known), mean, abs_tol=1e-9):
        return None
    return np.asarray(known).reshape(evaluation.games, evaluation.samples_per_game).mean(axis=1)


def _lines(run: Run, evaluation: EvaluationResult) -> list[_Line]:
    """Return the episodes game by game; a mixture's file is filtered by task."""
    name = label(run.settings.get("env.name", evaluation.env), evaluation.env, evaluation.task, evaluation.temperature)
    first, labelled = (episodes_file(run.folder, evaluation.policy, folder) for folder in ("", name))
    if labelled.exists() or (evaluation.env, evaluation.task) == run.evaluation_sets[0]:
        return _read(labelled if labelled.exists() else first)
    return [line for line in _read(first) if f"/{evaluation.task}/" in f"/{line.task}/"]


def outcomes(path: Path) -> list[str]:
    """Return how the episodes of a file ended, in order."""
    return [line.outcome for line in _read(path)]


def _read(path: Path) -> list[_Line]:
    return _decoder.decode_lines(path.read_bytes()) if path.exists() else []
