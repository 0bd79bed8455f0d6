"""The evaluation as trackers show it: a step a checkpoint, the matrix, and a few episodes turn by turn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from envs.utils.printable import printable
from experiments.evaluation.matrix import EvaluationResult, evaluations_of
from experiments.evaluation.stage import played
from records.step_metrics import success_by_type
from records.tracking.stage_run import StageRun
from records.tracking.tracker import Table, Trackers
from rollouts.episode import Episode
from tasks.evaluation_sets import EvaluationSetting

EXAMPLES = 3  # wins, and as many other episodes, of each checkpoint on each evaluation set
MATRIX, TRAJECTORIES = "evaluation/matrix", "evaluation/trajectories"
MATRIX_COLUMNS = (
    "policy",
    "env",
    "task",
    "temperature",
    "success",
    "low",
    "high",
    "mean_score",
    "successes",
    "games",
    "samples_per_game",
    "mean_turns_to_success",
    "invalid_share",
    "unparsed_share",
    "tokens_per_turn",
    "max_turns",
    "optimal_turns",
    "out_of_reach",
    "games_hash",
)
TURN_COLUMNS = ("policy", "evaluation_set", "game", "outcome", "turn", "observation", "action", "valid", "rewards")

Played = Mapping[str, Sequence[Episode]]  # by policy


def log_evaluation(run: StageRun, policies: Sequence[str], settings: Sequence[EvaluationSetting]) -> None:
    """Hand all that was played to the run's trackers; ``policies`` are the checkpoints in the order in which they were
    made, and step 0 is the first of them."""
    folder = Path(run.folder)
    found = [(item, {policy: played(folder, policy, item.label) for policy in policies}) for item in settings]
    names = set_names(settings)
    evaluations = {item.label: evaluations_of(item, episodes) for item, episodes in found}
    tables = {MATRIX: matrix_table(evaluations.values()), TRAJECTORIES: trajectories(found, names)}
    trackers = Trackers(run)
    for step, policy in enumerate(policies):
        whole = {
            names[label]: of_set[step] for label, of_set in evaluations.items()
        }  # before those of a mixture's tasks
        types = [
            success_by_type(of_all[policy], f"success/test/{names[item.label]}/by_type/") for item, of_all in found
        ]
        metrics = policy_metrics(whole) | dict(pair for told in types for pair in told.items())
        last = step == len(policies) - 1
        trackers.log(step, {"policy": policy, **metrics}, tables if last else {})
    trackers.finish()


def set_names(settings: Sequence[EvaluationSetting]) -> dict[str, str]:
    """A setting's label -> what its metrics are called by: the task, and whatever else tells it from the
    others."""
    environments = {item.evaluation_set.env for item in settings}
    temperatures = {item.temperature for item in settings}
    return {
        item.label: (f"{item.evaluation_set.env}:" if len(environments) > 1 else "")
        + item.evaluation_set.task
        + (f"@{item.temperature:g}" if len(temperatures) > 1 else "")
        for item in settings
    }


def policy_metrics(evaluations: Mapping[str, EvaluationResult]) -> dict[str, float | None]:
    """Success in [0, 1] with its 95 % bounds, mean score in shares of the best, and how the policy played, by
    evaluation set."""
    metrics: dict[str, float | None] = {}
    for evaluation_set, evaluation in evaluations.items():
        metrics |= {
            f"success/test/{evaluation_set}": evaluation.interval.mean,
            f"success/test/{evaluation_set}/low": evaluation.low,
            f"success/test/{evaluation_set}/high": evaluation.high,
            f"rollout/test/{evaluation_set}/score": evaluation.mean_score,
            f"rollout/test/{evaluation_set}/turns_to_success": evaluation.mean_turns_to_success,
            f"rollout/test/{evaluation_set}/invalid_actions": evaluation.invalid_share,
            f"rollout/test/{evaluation_set}/unparsed_actions": evaluation.unparsed_share,
            f"rollout/test/{evaluation_set}/tokens_per_turn": evaluation.tokens_per_turn,
        }
    return metrics


def matrix_table(evaluation_sets: Iterable[Sequence[EvaluationResult]]) -> Table:
    evaluations = [evaluation for evaluation_set in evaluation_sets for evaluation in evaluation_set]
    told = [{**asdict(evaluation), "success": evaluation.interval.mean} for evaluation in evaluations]
    return Table(MATRIX_COLUMNS, [[values[name] for name in MATRIX_COLUMNS] for values in told])


def trajectories(found: Sequence[tuple[EvaluationSetting, Played]], names: Mapping[str, str]) -> Table:
    """A row a turn, of the first wins and the first other episodes."""
    rows: list[list[object]] = []
    for item, by_policy in found:
        for policy, episodes in by_policy.items():
            wins = [episode for episode in episodes if episode.won][:EXAMPLES]
            others = [episode for episode in episodes if not episode.won][:EXAMPLES]
            rows += [row for episode in wins + others for row in _turns(policy, names[item.label], episode)]
    return Table(TURN_COLUMNS, rows)


def _turns(policy: str, evaluation_set: str, episode: Episode) -> list[list[object]]:
    head = [policy, evaluation_set, episode.task, str(episode.outcome)]
    return [
        [
            *head,
            number,
            printable(turn.observation),
            printable(turn.action),
            turn.valid,
            json.dumps(turn.rewards, sort_keys=True),
        ]
        for number, turn in enumerate(episode.turns, start=1)
    ]
