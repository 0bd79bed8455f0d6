"""Results of policies, paired comparisons, and a run's result: ``result.json`` in its folder."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.evaluation.ratings import Played, Rating, ratings_of
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import ATTEMPTS
from turngrid.records.run_folder import read_failure
from turngrid.records.statistics import Interval, mean_interval, sign_flip, summarise, wins_by_sample
from turngrid.rollouts.episode import Episode
from turngrid.tasks.evaluation_sets import EvaluationSetting, by_task

FILE = "result.json"


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The result of one policy on one evaluation set."""

    successes: int  # episodes won; that an episode ended is no win
    games: int  # games of the evaluation set
    low: float  # 95 % bounds of the success rate, in [0, 1]; Wilson's, with several samples a bootstrap over games
    high: float
    mean_turns_to_success: float | None  # over the episodes won; None without wins
    invalid_share: float  # share of actions that the environment did not understand
    outcomes: Mapping[str, int]  # episodes by how they ended
    temperature: float
    max_turns: int
    games_hash: str  # which games these were
    samples_per_game: int = 1  # episodes of each game; ``successes`` counts all of them
    pass_at: Mapping[str, Sequence[float]] = field(default_factory=dict)  # k -> (mean, low, high), of several samples
    tokens_per_turn: float | None = None  # sampled; None for policies that answer in text
    optimal_turns: float | None = None  # mean length of the games' expert plans; None without plans
    turns_over_optimal: float | None = None  # max_turns / optimal_turns
    mean_score: float | None = None  # a share of the best; None if that is unknown
    unparsed_share: float | None = None  # share of answers in which no action was found
    matches: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of matches, by seat and of ``both``

    @property
    def interval(self) -> Interval:
        return Interval(self.successes / (self.games * self.samples_per_game), self.low, self.high)

    def measures(self) -> dict[str, Any]:
        """Return the fields of this class by name."""
        return {item.name: getattr(self, item.name) for item in fields(Measures)}


@dataclass(frozen=True)
class EvaluationResult(Measures):
    """One policy on one evaluation set at one temperature."""

    policy: str  # the run's stage, a checkpoint's name, ``expert``, ``random``, an endpoint's model
    env: str
    task: str
    out_of_reach: int  # games whose expert plan is longer than ``max_turns``

    @property
    def column(self) -> tuple[str, str, float]:
        """Return the table's column that it belongs to."""
        return self.env, self.task, self.temperature


@dataclass(frozen=True)
class PairedComparison:
    """Two policies on the same games."""

    before: str
    after: str
    env: str
    task: str
    temperature: float
    games: int
    gain: float  # success of ``after`` minus that of ``before``, in [-1, 1]
    low: float  # its 95 % bounds, from a bootstrap over games
    high: float
    gained: int  # games that ``after`` won more often than ``before``
    lost: int  # less often
    p: float  # two-sided; McNemar's exact test with one sample a game, else the sign-flip test


class State(StrEnum):
    """A run's state. From its folder, a running run and a killed one look the same: unfinished."""

    FINISHED = "finished"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    NOT_STARTED = "not started"


def state(folder: Path) -> State:
    """Return the state read from the run's folder, the only trace of a job on another machine."""
    with suppress(Refusal):
        if RunResult.read(folder):
            return State.FINISHED
    if read_failure(folder):
        return State.FAILED
    return State.UNFINISHED if (folder / ATTEMPTS).exists() else State.NOT_STARTED


@dataclass(frozen=True)
class StageResult(Measures):
    """The result of one model on the first evaluation set, and what making that model cost."""

    name: str  # the stage that made it: ``base``, ``sft`` or ``rl``
    checkpoint: str  # the folder or name of the model
    units: float = 0.0  # budget units that the stage spent
    tokens: int = 0  # sampled in training
    seconds: float = 0.0  # wall seconds of the stage over all attempts, without evaluation


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    name: str
    folder: str
    seed: int
    stages: Sequence[StageResult]  # results on the first evaluation set at the first temperature
    units: float  # of the budget, spent
    units_left: float = 0.0
    seconds: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    matrix: Sequence[EvaluationResult] = field(default_factory=list)  # results on every evaluation set
    comparisons: Sequence[PairedComparison] = field(default_factory=list)  # of every two checkpoints
    ratings: Sequence[Rating] = field(default_factory=list)  # of checkpoints and opponents, from their matches

    def stage(self, name: str) -> StageResult | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def write(self, folder: Path) -> None:
        """Write ``result.json`` atomically."""
        write_whole(folder / FILE, json.dumps(asdict(self), indent=2, sort_keys=True) + "\n")

    @classmethod
    def read(cls, folder: Path) -> RunResult | None:
        """Return a run's result, None before its end; raise Refusal if it is damaged."""
        path = folder / FILE
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except msgspec.DecodeError as error:
            raise Refusal(f"{path} cannot be read; the same command makes it again") from error


def results_of(
    settings: Sequence[EvaluationSetting], played: Played
) -> tuple[list[EvaluationResult], list[PairedComparison], list[Rating]]:
    """Return the results and comparisons setting by setting, and the ratings."""
    evaluations: list[EvaluationResult] = []
    paired: list[PairedComparison] = []
    for item in settings:
        episodes = played(item)
        evaluations += evaluations_of(item, episodes)
        paired += [_compared(item, *names, episodes) for names in itertools.combinations(episodes, 2)]
    return evaluations, paired, ratings_of(settings, played)


def evaluations_of(item: EvaluationSetting, played: Mapping[str, Sequence[Episode]]) -> list[EvaluationResult]:
    """Return each policy's result in a setting; a mixture also has one for each of its tasks."""
    evaluations = [evaluation(policy, item, episodes) for policy, episodes in played.items()]
    for part, games in by_task(item):
        chosen = [item.samples_per_game * game + sample for game in games for sample in range(item.samples_per_game)]
        evaluations += [evaluation(policy, part, [episodes[i] for i in chosen]) for policy, episodes in played.items()]
    return evaluations


def evaluation(policy: str, item: EvaluationSetting, episodes: Sequence[Episode]) -> EvaluationResult:
    """Return a policy's result in a setting. ``episodes``: in the order of ``episode_specs``."""
    evaluation_set = item.evaluation_set
    optimal = evaluation_set.optimal_turns
    return EvaluationResult(
        policy=policy,
        env=evaluation_set.env,
        task=item.task,
        games_hash=evaluation_set.sha256,
        temperature=item.temperature,
        max_turns=evaluation_set.max_turns,
        out_of_reach=evaluation_set.out_of_reach,
        optimal_turns=optimal,
        turns_over_optimal=evaluation_set.max_turns / optimal if optimal else None,
        **summarise(episodes, item.samples_per_game),
    )


def _compared(
    item: EvaluationSetting, before: str, after: str, played: Mapping[str, Sequence[Episode]]
) -> PairedComparison:
    """Compare a policy of a setting with an earlier one."""
    first, second = (np.sum(wins_by_sample(played[name], item.samples_per_game), axis=0) for name in (before, after))
    differences = second - first
    gain = mean_interval(differences / item.samples_per_game, lowest=-1.0)
    return PairedComparison(
        before=before,
        after=after,
        env=item.evaluation_set.env,
        task=item.task,
        temperature=item.temperature,
        games=len(differences),
        gain=gain.mean,
        low=gain.low,
        high=gain.high,
        gained=int(np.sum(differences > 0)),
        lost=int(np.sum(differences < 0)),
        p=sign_flip(differences.tolist()),
    )
