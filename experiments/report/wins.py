"""Per-game success and score of a model on an evaluation set, read off its episodes."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from experiments.evaluation.matrix import EvaluationResult
from experiments.evaluation.stage import episodes_file
from experiments.report.runs import Run
from experiments.sweep.definition import SCORE, SUCCESS
from records.success import share_of_best
from rollouts.episode import Outcome
from tasks.evaluation_sets import label


class Line(msgspec.Struct):
    """What a win or a score needs of an episode; all else in the line is skipped unread."""

    task: str
    outcome: str
    score: float | None = None


@dataclass(frozen=True)
class Wins:
    """One run's model on one evaluation set.

    Attributes:
        cell: what the run's result says of it.
        measure: ``success`` or ``score``.
        mean: over all episodes, in [0, 1]; of the score None where no score was kept.
        shares: one value a game, shape (games,), in [0, 1]: the share of its episodes that were won, or their mean score;
            None where the episodes are not there.
    """

    run: Run
    evaluation: EvaluationResult
    measure: str
    mean: float | None
    shares: np.ndarray | None


_decoder = msgspec.json.Decoder(Line)


def wins_of(run: Run, evaluation: EvaluationResult, measure: str = SUCCESS) -> Wins:
    """Read once for as long as the run is held."""
    key = (measure, evaluation.policy, evaluation.env, evaluation.task)
    if key not in run.read_once:
        mean = evaluation.mean_score if measure == SCORE else evaluation.interval.mean
        run.read_once[key] = Wins(run, evaluation, measure, mean, _shares(run, evaluation, measure, mean))
    return run.read_once[key]


def _shares(run: Run, evaluation: EvaluationResult, measure: str, mean: float | None) -> np.ndarray | None:
    """None also where the episodes do not add up to what the result says."""
    lines = _lines(run, evaluation)
    values = [
        share_of_best(line.outcome, line.score) if measure == SCORE else float(line.outcome == Outcome.WON)
        for line in lines or ()
    ]
    known = [value for value in values if value is not None]
    if mean is None or not known or len(known) < len(values) or not isclose(fmean(known), mean, abs_tol=1e-9):
        return None
    return np.asarray(known).reshape(evaluation.games, evaluation.samples_per_game).mean(axis=1)


def _lines(run: Run, evaluation: EvaluationResult) -> list[Line] | None:
    """Game by game, the samples of each one after the other; a mixture's evaluation set also has results for each of its
    tasks."""
    name = label(run.settings.get("env.name", evaluation.env), evaluation.env, evaluation.task, evaluation.temperature)
    first, labelled = (episodes_file(run.folder, evaluation.policy, folder) for folder in ("", name))
    lines = _read(labelled) if labelled.exists() else _read(first)
    whole = labelled.exists() or (evaluation.env, evaluation.task) == run.evaluation_sets[0]
    chosen = lines if whole else [line for line in lines if f"/{evaluation.task}/" in f"/{line.task}/"]
    return chosen if len(chosen) == evaluation.games * evaluation.samples_per_game else None


def outcomes(path: Path) -> list[str]:
    """How the episodes of a file ended, in order."""
    return [line.outcome for line in _read(path)]


def _read(path: Path) -> list[Line]:
    return _decoder.decode_lines(path.read_bytes()) if path.exists() else []
