"""A run from start to end: games, demonstrations, SFT, RL, evaluation, run summary.

Each stage writes its result atomically, and is skipped if the result exists. So repeating the
command resumes the run.
"""

from collections.abc import Mapping

from omegaconf import OmegaConf

from turngrid.config import precision
from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.evaluation.result import EvaluationResult, RunResult, StageResult, results_of
from turngrid.experiments.evaluation.stage import Checkpoint, evaluate, played
from turngrid.experiments.stages import experience, rl, sft
from turngrid.experiments.stages.ledger import FILE as LEDGER
from turngrid.experiments.stages.ledger import Entry, ledger, spent
from turngrid.records.files.json_lines import read_lines, write_lines
from turngrid.records.health.alarms import Curves, alarms
from turngrid.records.models.locate import check_hub, resolve_model
from turngrid.records.stages import WITHOUT_LIBRARY, stage, stage_seconds
from turngrid.rollouts.episode import Episode
from turngrid.tasks import demonstrations, early_experience
from turngrid.tasks.budget import Allocation
from turngrid.tasks.evaluation_sets import EvaluationSetting, evaluation_settings, note_trained, prepare_evaluation_sets
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks, skipped_games


def execute(run: Run) -> RunResult:
    """Run every stage of the config whose result is missing.

    Raises:
        ModelError: the model is not available; it is checked before any game is made.
        StageFailed: a stage's process failed; its log has the reason.
    """
    base = resolve_model(run.model.path, cache_root())
    check_hub(base)
    if teacher := OmegaConf.select(run.config, "algo.teacher"):
        check_hub(resolve_model(str(teacher), cache_root()))
    with stage(run.folder, "games"):
        allocation = prepare_tasks(run, avoid=prepare_evaluation_sets(run))
    note_trained(f"model.path={run.model.path}", str(run.model.path), evaluation_settings(run))
    checkpoints = _train(run, allocation, base)
    with stage(run.folder, "evaluation"):
        evaluate(run, checkpoints, tracked=True)
    return write_summary(run, checkpoints)


def _train(run: Run, allocation: Allocation, base: str) -> list[Checkpoint]:
    checkpoints = [Checkpoint("base", base)]
    if allocation.demonstrations:
        checkpoints.append(Checkpoint("sft", _imitate(run, base)))
    if allocation.steps:
        with stage(run.folder, "rl"):
            model = rl.train(run, allocation, checkpoints[-1].path)
            checkpoints += _after_rl(run, str(model))
    return checkpoints


def _after_rl(run: Run, model: str) -> list[Checkpoint]:
    """Return the last checkpoint, of a run with a library twice (``eval.library``)."""
    wanted = (run.eval.library or "both") if run.config.get("library") else "none"
    return {
        "none": [Checkpoint("rl", model)],
        "frozen": [Checkpoint("rl", model, library=True)],
        "both": [Checkpoint(WITHOUT_LIBRARY, model), Checkpoint("rl", model, library=True)],
    }[wanted]


def _imitate(run: Run, base: str) -> str:
    """Run SFT on ``base`` and return the resulting model."""
    folder = run.folder
    shown = demonstrations.episodes_file(folder)
    if not shown.exists():
        with stage(folder, "demonstrations"):
            demonstrations.make_demonstrations(run, base)
    if run.demos.experience and not early_experience.rows_file(folder).exists():
        with stage(folder, "experience"):
            experience.make_rows(run, base)
    with stage(folder, "sft"):
        return str(sft.train(run, shown, base))


# Ledger entries and timed stages by the model that they made
CHARGED = {"base": (), "sft": ("demonstration", "alternative"), "rl": ("rl_episode",)}
TIMED = {"base": (), "sft": ("demonstrations", "experience", "sft"), "rl": ("rl",)}


def write_summary(run: Run, checkpoints: list[Checkpoint]) -> RunResult:
    """Write the ledger and, last, ``result.json``, which marks the run as finished."""
    folder = run.folder
    entries, seconds, settings = ledger(run), stage_seconds(folder), evaluation_settings(run)
    write_lines(folder / LEDGER, entries)

    def by_checkpoint(item: EvaluationSetting) -> dict[str, list[Episode]]:
        return {made.name: played(folder, made.name, item.label) for made in checkpoints}

    matrix, paired, ratings = results_of(settings, by_checkpoint)
    stages = [_stage(*made, entries, seconds) for made in zip(checkpoints, matrix, strict=False)]
    units = sum(entry.units for entry in entries)
    result = RunResult(
        name=folder.name,
        folder=str(folder),
        seed=run.seed,
        stages=stages,
        units=units,
        units_left=run.budget.units - units,
        seconds=sum(seconds.values()),
        notes={
            "spent": spent(run.budget, entries),
            "skipped": skipped_games(folder),
            "precision": precision.explained(run.config),
            "no_signal": _no_signal(run),
            "rollbacks": [str(rollback) for rollback in rl.read_rollbacks(run.rl)],
        },
        matrix=matrix,
        comparisons=paired,
        ratings=ratings,
    )
    result.write(folder)
    return result


def _no_signal(run: Run) -> str:
    """Return the first alarm of steps without signal, also with ``health=off``; "" without one."""
    if (limit := run.health.no_signal) is None:
        return ""
    raised = alarms(Curves.of(read_lines(run.rl.metrics), run.algorithm.needs_group), {"no_signal": limit})
    return str(raised[0]) if raised else ""


def _stage(
    checkpoint: Checkpoint, first: EvaluationResult, entries: list[Entry], seconds: Mapping[str, float]
) -> StageResult:
    """Return a checkpoint's result in the ``first`` evaluation setting, and its training cost."""
    mine = [entry for entry in entries if entry.kind in CHARGED.get(checkpoint.name, ())]
    return StageResult(
        name=checkpoint.name,
        checkpoint=checkpoint.path,
        units=sum(entry.units for entry in mine),
        tokens=sum(entry.tokens for entry in mine),
        seconds=sum(seconds.get(name, 0.0) for name in TIMED.get(checkpoint.name, ())),
        **first.measures(),
    )
