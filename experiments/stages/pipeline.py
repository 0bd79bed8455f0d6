"""A run from top to bottom: games, demonstrations, SFT, RL, evaluation, run summary.

Each stage writes its result whole or not at all, and is skipped if the result exists. So the same
command goes on where the last one stopped.
"""

from __future__ import annotations

from contextlib import nullcontext

from omegaconf import OmegaConf

from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.evaluation.stage import Checkpoint, evaluate
from turngrid.experiments.stages import experience, rl, run_summary, sft
from turngrid.records.models.hub import check_hub
from turngrid.records.models.locate import resolve_model
from turngrid.records.stages import stage
from turngrid.tasks import demonstrations, early_experience
from turngrid.tasks.budget import Allocation
from turngrid.tasks.evaluation_sets import prepare_evaluation_sets
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks


def execute(run: Run) -> RunResult:
    """Run every stage that the config asks for and that the folder does not hold yet.

    Raises:
        ModelError: the model cannot be had; no game has been made then.
        StageFailed: a stage's process failed; its log says why.
    """
    config, folder = run.config, run.folder
    base = resolve_model(config.model.path, cache_root())
    check_hub(base)
    if teacher := OmegaConf.select(config, "algo.teacher"):
        check_hub(resolve_model(str(teacher), cache_root()))
    with stage(folder, "games"):
        allocation = prepare_tasks(config, run.allocation, folder, avoid=prepare_evaluation_sets(config, folder))
    checkpoints = _train(run, allocation, base)
    with stage(folder, "evaluation"):
        evaluate(run, checkpoints, tracked=True)
    return run_summary.write(run, allocation, checkpoints)


def _train(run: Run, allocation: Allocation, base: str) -> list[Checkpoint]:
    checkpoints = [Checkpoint("base", base)]
    with rl.ahead(run) if allocation.demonstrations and allocation.steps else nullcontext() as process:
        if allocation.demonstrations:
            checkpoints.append(Checkpoint("sft", _imitate(run, base)))
        if allocation.steps:
            with stage(run.folder, "rl"):
                model = rl.train(run, allocation, checkpoints[-1].path, process)
                checkpoints.append(Checkpoint("rl", str(model)))
    return checkpoints


def _imitate(run: Run, base: str) -> str:
    """Return the model that SFT makes of ``base``."""
    config, folder = run.config, run.folder
    shown = demonstrations.episodes_file(folder)
    if not shown.exists():
        with stage(folder, "demonstrations"):
            demonstrations.make_demonstrations(config, folder, base)
    if early_experience.kind_of(config) and not early_experience.rows_file(folder).exists():
        with stage(folder, "experience"):
            experience.make_rows(run, base)
    with stage(folder, "sft"):
        return str(sft.train(run, shown, base))
