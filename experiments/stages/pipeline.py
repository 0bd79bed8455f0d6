"""A run from start to end: games, demonstrations, SFT, RL, evaluation, run summary.

Each stage writes its result atomically, and is skipped if the result exists. So repeating the
command resumes the run.
"""

from contextlib import nullcontext

from omegaconf import OmegaConf

from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.evaluation.stage import Checkpoint, evaluate
from turngrid.experiments.stages import experience, rl, run_summary, sft
from turngrid.records.models.locate import check_hub, resolve_model
from turngrid.records.stages import stage
from turngrid.tasks import demonstrations, early_experience
from turngrid.tasks.budget import Allocation
from turngrid.tasks.evaluation_sets import prepare_evaluation_sets
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks


def execute(run: Run) -> RunResult:
    """Run every stage of the config whose result is missing.

    Raises:
        ModelError: the model is not available; it is checked before any game is made.
        StageFailed: a stage's process failed; its log has the reason.
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
    """Run SFT on ``base`` and return the resulting model."""
    config, folder = run.config, run.folder
    shown = demonstrations.episodes_file(folder)
    if not shown.exists():
        with stage(folder, "demonstrations"):
            demonstrations.make_demonstrations(run, base)
    if early_experience.kind_of(config) and not early_experience.rows_file(folder).exists():
        with stage(folder, "experience"):
            experience.make_rows(run, base)
    with stage(folder, "sft"):
        return str(sft.train(run, shown, base))
