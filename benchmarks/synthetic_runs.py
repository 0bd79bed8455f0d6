"""Run folders as a run leaves them, with wins that we choose: for tests of the report and for its
benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from turngrid.experiments.evaluation.result import EvaluationResult, RunResult, StageResult
from turngrid.experiments.evaluation.stage import episodes_file
from turngrid.records.metrics import append_metrics
from turngrid.records.provenance import ATTEMPTS, Attempt
from turngrid.records.statistics import summarise
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import write_episodes

ENV, TEMPERATURE, TURNS = "textworld", 0.4, 12
EPISODES = 128  # of a training step
Wins = Sequence[float]
SHARED = ("successes", "games", "low", "high", "mean_turns_to_success", "invalid_share", "outcomes", "max_turns")


def make_run(
    folder: Path,
    played: Mapping[str, Mapping[str, Wins]],
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    curve: Sequence[float] = (),
    turns: int = 2,
) -> Path:
    """Write the folder of a finished run.

    Args:
        folder: to be made.
        played: stage -> evaluation set -> score of each game, in [0, 1], a win being 1; the stages
            in the order in which they were made.
        seed: of the run.
        config: its config, nested; the seed is put in.
        curve: success on the training episodes of each step.
        turns: length of an episode, each turn with 16 sampled and 40 context tokens.
    """
    begin_run(folder, seed, config, curve)
    evaluation_sets = list(next(iter(played.values())))
    evaluations = []
    for evaluation_set in evaluation_sets:
        label = "" if evaluation_set == evaluation_sets[0] else f"{evaluation_set}-t{TEMPERATURE:g}"
        for stage, wins in played.items():
            episodes = [episode(evaluation_set, game, won, turns) for game, won in enumerate(wins[evaluation_set])]
            write_episodes(episodes_file(folder, stage, label), episodes)
            evaluations.append(evaluation_of(stage, evaluation_set, episodes))
    stages = [stage_of(evaluation) for evaluation in evaluations if evaluation.task == evaluation_sets[0]]
    spent = {"kinds": {"rl_episode": {"count": EPISODES * len(curve), "games": 240, "tokens": 5000 * len(curve)}}}
    result = RunResult(
        folder.name, str(folder), seed, stages, 240, seconds=200.0, notes={"spent": spent}, matrix=evaluations
    )
    result.write(folder)
    return folder


def begin_run(folder: Path, seed: int, config: Mapping[str, Any] | None = None, curve: Sequence[float] = ()) -> Path:
    """Write a run that was started and ended after the steps of ``curve``."""
    folder.mkdir(parents=True)
    settings = {"env": {"name": ENV}, "model": {"path": "asset://tiny"}, **(config or {}), "seed": seed}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    attempt = Attempt("0123456789abcdef", False, {"python": "3.11.7", "verl": "0.9.1"}, 1.0)
    (folder / ATTEMPTS).write_text(json.dumps(asdict(attempt)) + "\n", encoding="utf-8")
    for step, share in enumerate(curve, start=1):
        append_metrics(folder / "rl" / "metrics.jsonl", step, {"success/train": share, "rollout/episodes": EPISODES})
    return folder


def episode(evaluation_set: str, game: int, score: float, turns: int) -> Episode:
    turn = Turn("You are in the kitchen. A <b>table</b>.", "open door", [7] * 16, [-0.5] * 16, [9] * 40)
    messages = [{"role": "user", "content": turn.observation}, {"role": "assistant", "content": turn.action}] * turns
    outcome = Outcome.WON if score == 1 else Outcome.OUT_OF_TURNS
    key = f"{ENV}/{evaluation_set}/{game + 1}"
    return Episode(
        key, game + 1, "test", "open the door", messages, [1] * 120, [turn] * turns, outcome, score=float(score)
    )


def evaluation_of(stage: str, evaluation_set: str, episodes: Sequence[Episode]) -> EvaluationResult:
    return EvaluationResult(
        policy=stage,
        env=ENV,
        task=evaluation_set,
        games_hash=f"{evaluation_set} {len(episodes)}",
        temperature=TEMPERATURE,
        max_turns=TURNS,
        out_of_reach=0,
        **summarise(episodes),
    )


def stage_of(evaluation: EvaluationResult) -> StageResult:
    values = {name: getattr(evaluation, name) for name in SHARED}
    return StageResult(
        name=evaluation.policy,
        checkpoint=evaluation.policy,
        temperature=TEMPERATURE,
        games_hash=evaluation.games_hash,
        **values,
    )
