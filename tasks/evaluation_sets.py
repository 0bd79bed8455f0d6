"""Evaluation sets: the fixed games that checkpoints are tested on, equal in all runs of a task."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from turngrid.envs.games.catalogue import games_hash
from turngrid.envs.registry import known
from turngrid.envs.types import TaskRef
from turngrid.envs.utils.names import file_name
from turngrid.records.models.locate import run_of
from turngrid.records.process.exit_codes import say
from turngrid.tasks.mixture import task_weights
from turngrid.tasks.run import Run
from turngrid.tasks.splits import fingerprints, list_games, read_tasks, task_file, what_to_set, write_tasks

AGAINST = " against "  # between task and opponent


@dataclass(frozen=True)
class EvaluationSet:
    """Games of one task and how long each may last."""

    env: str
    task: str
    file: str  # the games as JSON lines of ``TaskRef``
    sha256: str  # of the games in order, equal on every machine
    games: int
    max_turns: int
    max_response_length: int  # tokens after an episode's first prompt
    optimal_turns: float | None  # mean length of the games' expert plans; None without expert plans
    out_of_reach: int  # games whose expert plan is longer than an episode may be
    max_actions: int | None = None  # in an episode, if an answer may have several

    @property
    def reach(self) -> int:
        """Actions in an episode at most."""
        return self.max_turns if self.max_actions is None else self.max_actions


@dataclass(frozen=True)
class EvaluationSetting:
    """An evaluation set at one temperature, with ``samples_per_game`` episodes per game."""

    label: str  # name of the folder; "" for the first setting
    evaluation_set: EvaluationSet
    temperature: float
    samples_per_game: int
    opponent: str = ""  # in games of two seats; the seat alternates with the sample

    @property
    def task(self) -> str:
        """The name in tables and records."""
        task = self.evaluation_set.task
        return f"{task}{AGAINST}{self.opponent}" if self.opponent else task


def tested(run: Run) -> list[tuple[str, str]]:
    """Return (environment, task) of each evaluation set in ``eval.tasks``; default: the run's task.

    ``ENV/TASK`` is a task of another environment; other names are tasks of the run's environment.
    """

    def named(name: str) -> tuple[str, str]:
        env, _, task = name.partition("/")
        return (env, task) if task and known(env) else (own(run)[0], name)

    return [named(str(name)) for name in run.eval.tasks] or [own(run)]


def own(run: Run) -> tuple[str, str]:
    """Return environment and task (or mixture) that the run trains on."""
    return str(run.env.name), str(run.env.task)


def turns_of(run: Run, env: str, task: str) -> int:
    """Return ``eval.max_turns``, else training's limit for the run's task, else the environment's.

    Raises:
        TaskError: the environment or task does not exist.
    """
    if run.eval.max_turns is not None:
        return run.eval.max_turns
    if (env, task) == own(run):
        return run.max_turns
    return run.of_environment(env).environment.max_turns(task)


def response_length(run: Run, turns: int) -> int:
    """Return the response's token limit, raised in proportion to ``turns`` up to the context."""
    length = int(run.config.data.max_response_length)
    longer = -(-length * turns // run.max_turns)
    return max(length, min(longer, run.model.context - int(run.config.data.max_prompt_length)))


def evaluation_settings(run: Run) -> list[EvaluationSetting]:
    """Return every evaluation set at every temperature; their games must have been listed."""
    node, sets = run.eval, [_evaluation_set(run, *names) for names in tested(run)]
    settings: list[EvaluationSetting] = []
    for one, temperature in itertools.product(sets, map(float, node.temperatures)):
        opponents, samples = samples_of(run, one.env)
        for opponent in opponents:
            name = label(own(run)[0], one.env, one.task, temperature, opponent) if settings else ""
            settings.append(EvaluationSetting(name, one, temperature, samples, opponent))
    return settings


def note_trained(label: str, model: str, settings: Sequence[EvaluationSetting]) -> None:
    """Print on how many games of each evaluation set the run of a model path was trained."""
    folder = run_of(model) if model else None
    trained = set(fingerprints(folder, "train", "demonstrations").values()) if folder else set()
    for games in dict.fromkeys(item.evaluation_set for item in settings):
        if known := sum(game.fingerprint in trained for game in read_tasks(Path(games.file))):
            say(f"note: {label} was trained on {known} of the {games.games} games of {games.task}")


def samples_of(run: Run, env: str) -> tuple[list[str], int]:
    """Return the opponents in an environment ("": no seats), and a game's samples against each."""
    seats = run.of_environment(env).environment.seats
    return run.opponents if seats else [""], run.eval.samples_per_game * max(1, len(seats))


def through_servers(run: Run) -> bool:
    """Return whether rollout servers run the evaluation; by default with vLLM on GPUs."""
    if run.eval.servers is not None:
        return run.eval.servers
    return bool(run.config.trainer.device == "cuda" and run.config.actor_rollout_ref.rollout.name == "vllm")


def label(own_env: str, env: str, task: str, temperature: float, opponent: str = "") -> str:
    """Return the folder name of any evaluation setting but the first."""
    against = f"-{opponent}" if opponent else ""
    return file_name(f"{task if env == own_env else f'{env}-{task}'}{against}-t{temperature:g}")


def by_task(item: EvaluationSetting) -> list[tuple[EvaluationSetting, list[int]]]:
    """Split a mixture's setting by task, each with its games' indices; [] if there is one task."""
    games = read_tasks(Path(item.evaluation_set.file))
    tasks = list(dict.fromkeys(game.task for game in games))
    indices = {task: [i for i, game in enumerate(games) if game.task == task] for task in tasks}
    parts = []
    for task in tasks if len(tasks) > 1 else ():
        measured = _measured([games[i] for i in indices[task]], item.evaluation_set.reach)
        part = replace(item.evaluation_set, task=task, **measured)
        parts.append((replace(item, evaluation_set=part), indices[task]))
    return parts


def _evaluation_set(run: Run, env: str, task: str) -> EvaluationSet:
    file, turns = _file(run, env, task), turns_of(run, env, task)
    actions = turns * run.prompt.actions_a_turn
    if env == own(run)[0] and (most := run.config.env.get("max_actions")) is not None:
        actions = min(actions, int(most))
    return EvaluationSet(
        env=env,
        task=task,
        file=str(file),
        max_turns=turns,
        max_response_length=response_length(run, turns),
        max_actions=None if actions == turns else actions,
        **_measured(read_tasks(file), actions),
    )


def _measured(games: Sequence[TaskRef], actions: int) -> dict[str, Any]:
    plans = [len(game.expert_plan) for game in games if game.expert_plan]
    return {
        "sha256": games_hash(games),
        "games": len(games),
        "optimal_turns": fmean(plans) if plans else None,
        "out_of_reach": sum(plan > actions for plan in plans),
    }


def _file(run: Run, env: str, task: str) -> Path:
    if (env, task) == own(run):
        return task_file(run.folder, "test")
    return run.folder / "tasks" / "evaluation_sets" / f"{file_name(f'{env}-{task}')}.jsonl"


def prepare_evaluation_sets(run: Run, also_own: bool = False) -> frozenset[str]:
    """Write the games of all evaluation sets but the run's own and return their fingerprints.

    An evaluation set ignores all other splits, so that it is the same in every run; the other
    splits avoid its games. With ``also_own`` the run's own is written too.

    Raises:
        TaskError: an environment has too few games.
    """
    fingerprints: set[str] = set()
    for env, task in tested(run):
        if also_own or (env, task) != own(run):
            there = run.of_environment(env)
            weights = task_weights(run.config.env) if (env, task) == own(run) else {task: 1.0}
            with what_to_set():
                listed = list_games(there.catalogue, weights, {"test": run.eval.games}, there.reward_name)
            games = listed["test"].tasks
            write_tasks(_file(run, env, task), games)
            fingerprints |= {game.fingerprint for game in games}
    return frozenset(fingerprints)
