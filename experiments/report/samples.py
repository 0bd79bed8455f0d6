"""A selector's sample: success or score of the models that it names, seeds by games."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import isclose
from pathlib import Path

import msgspec
import numpy as np

from turngrid.experiments.evaluation.result import EvaluationResult, State
from turngrid.experiments.evaluation.stage import BEFORE_RL, episodes_file
from turngrid.experiments.report.runs import LAST, ReportedRun, group_by
from turngrid.experiments.sweep.definition import RESERVED, SCORE, SUCCESS, Selector
from turngrid.records.stages import stage_name
from turngrid.records.statistics import share_of_best
from turngrid.rollouts.episode import Outcome
from turngrid.tasks.evaluation_sets import AGAINST, label

BASE = "base"


class Unfilled(Exception):
    """No run has data for a table cell's selector; the message is the reason shown there."""


class Line(msgspec.Struct, frozen=True):
    """The fields of an episode that success and score need."""

    task: str
    outcome: str
    score: float | None = None


@dataclass(frozen=True)
class Sample:
    """Success or score of one setting's models on one evaluation set, one row per seed."""

    seeds: tuple[int, ...]  # of the rows; () for the base model, which is one measurement
    expected: int  # number of seeds in the sweep; 0 for the base model
    shares: np.ndarray  # share of won episodes or mean score, (rows, games) in [0, 1]
    evaluation_set: str  # hash over the games; samples with equal hashes can be paired by game
    samples_per_game: int
    lowered: int = 0  # runs whose learning rate ``health=rollback`` lowered
    model: str = ""  # the base model

    @property
    def games(self) -> int:
        return self.shares.shape[1]

    def of_seeds(self, seeds: Sequence[int]) -> np.ndarray:
        """Return the rows of these seeds; the base model's only row stands for every seed."""
        return self.shares[[self.seeds.index(seed) if self.seeds else 0 for seed in seeds]]


def samples(runs: Sequence[ReportedRun], selectors: Sequence[Selector]) -> tuple[list[list[Sample]], list[str]]:
    """Return the selectors' samples for each setting of the axes that no selector names.

    Also return why other settings have none.

    Raises:
        Unfilled: no setting has a sample for each selector.
    """
    named = {axis for selector in selectors for axis in selector if axis not in RESERVED}
    groups = group_by(runs, lambda run: tuple(item for item in run.coordinates.items() if item[0] not in named))
    rows: list[list[Sample]] = []
    problems: dict[str, None] = {}
    for group in groups.values():
        try:
            rows.append([sample(group, selector) for selector in selectors])
        except Unfilled as error:
            problems[str(error)] = None
    if not rows:
        raise Unfilled("; ".join(problems) or "no such run in the sweep")
    return rows, [*problems]


def sample(runs: Sequence[ReportedRun], selector: Selector) -> Sample:
    """Build the sample of the runs that ``selector`` names.

    Raises:
        Unfilled: no run is finished, the runs have several settings, were tested on different
            games, or lack episodes.
    """
    wanted = {key: value for key, value in selector.items() if key not in RESERVED}.items()
    chosen = [run for run in runs if wanted <= run.coordinates.items()]
    rows = _measured(chosen, selector)
    first = rows[0][1]
    base = first.policy == BASE
    if problem := _mixed(rows, base):
        raise Unfilled(problem)
    by_seed = dict(sorted({run.seed: (run, evaluation) for run, evaluation in rows}.items()))
    measured = rows if base else by_seed.values()
    shares = np.stack([shares_of(*row, selector.get("measure", SUCCESS)) for row in measured])
    if base:  # all runs' measurements of one model
        own, model = shares.mean(axis=0, keepdims=True), _base_model(rows[0][0])
        return Sample((), 0, own, first.games_hash, first.samples_per_game, model=model)
    if len(by_seed) < len(rows):
        twice = [str(run.folder) for run, _ in rows if run is not by_seed[run.seed][0]]
        raise Unfilled(f"several runs of one setting and seed: leave out {', '.join(twice)}")
    expected = len({run.seed for run in chosen})
    lowered = sum(bool(run.rollbacks) for run, _ in by_seed.values()) if first.policy not in BEFORE_RL else 0
    return Sample(tuple(by_seed), expected, shares, first.games_hash, first.samples_per_game, lowered)


def _mixed(rows: Sequence[tuple[ReportedRun, EvaluationResult]], base: bool) -> str:
    """Return why these results are no sample of one model (``base``) or one setting, or ""."""
    if len({evaluation.games_hash for _, evaluation in rows}) > 1:
        return "the runs were evaluated on different games"
    if base:
        models = {(_base_model(run), tested.temperature, tested.max_turns) for run, tested in rows}
        return "several base models at once" if len(models) > 1 else ""
    settings = dict.fromkeys(" ".join(f"{axis}={value}" for axis, value in run.coordinates.items()) for run, _ in rows)
    return f"several settings at once: {'; '.join(settings)}" if len(settings) > 1 else ""


def _base_model(run: ReportedRun) -> str:
    stage = run.result and run.result.stage(BASE)
    return stage.checkpoint if stage else ""


def _measured(chosen: Sequence[ReportedRun], selector: Selector) -> list[tuple[ReportedRun, EvaluationResult]]:
    if not chosen:
        raise Unfilled("no such run in the sweep")
    finished = [run for run in chosen if run.result]
    if not finished:
        counts = Counter(run.state for run in chosen)
        raise Unfilled(", ".join(f"{counts[state]} {state}" for state in State if counts[state]))
    stage, evaluation_set = selector.get("stage", LAST), selector.get("evaluation_set")
    evaluations = [(run, run.evaluation(stage, evaluation_set)) for run in finished]
    rows = [(run, evaluation) for run, evaluation in evaluations if evaluation]
    if not rows:
        no_model = all(run.stage(stage) is None for run in finished)
        raise Unfilled(f"no model {stage_name(stage)}" if no_model else f"not evaluated on {evaluation_set}")
    return rows


def shares_of(run: ReportedRun, evaluation: EvaluationResult, measure: str = SUCCESS) -> np.ndarray:
    """Return each game's share of won episodes, or its mean score.

    Raises:
        Unfilled: no score was recorded, or the episodes do not add up to the result.
    """
    mean = evaluation.mean_score if measure == SCORE else evaluation.interval.mean
    if mean is None:
        raise Unfilled("the best score of these games is not known")
    values = [
        share_of_best(line.outcome, line.score) if measure == SCORE else float(line.outcome == Outcome.WON)
        for line in _lines(run, evaluation)
    ]
    known = np.array([value for value in values if value is not None])
    complete = len(known) == evaluation.games * evaluation.samples_per_game > 0
    if not complete or not isclose(known.mean(), mean, abs_tol=1e-9):
        raise Unfilled(f"{run.name}: episodes are missing; remove its result.json and repeat the run's command")
    return known.reshape(evaluation.games, evaluation.samples_per_game).mean(axis=1)


def _lines(run: ReportedRun, evaluation: EvaluationResult) -> Sequence[Line]:
    """Return the episodes grouped by game; a mixture's file is filtered by task."""
    task, _, opponent = evaluation.task.partition(AGAINST)
    own = run.settings.get("env.name", evaluation.env)
    name = label(own, evaluation.env, task, evaluation.temperature, opponent)
    first, labelled = (episodes_file(run.folder, evaluation.policy, folder) for folder in ("", name))
    if labelled.exists() or (evaluation.env, evaluation.task) == run.evaluation_sets[0]:
        return read(labelled if labelled.exists() else first)
    return [line for line in read(first) if f"/{evaluation.task}/" in f"/{line.task}/"]


@cache
def read(path: Path) -> Sequence[Line]:
    """Read a file of episodes; return nothing if it is missing or damaged."""
    with suppress(FileNotFoundError, msgspec.DecodeError):
        return msgspec.json.Decoder(Line).decode_lines(path.read_bytes())
    return ()
