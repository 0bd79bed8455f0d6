"""A run from top to bottom: games, demonstrations, SFT, RL, evaluation, report.

Each stage leaves its result on disk, written whole or not at all, and is skipped where that is there already: the same
command again goes on where the last one stopped.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from envs.games.catalogue import cache_root
from experiments.evaluation.result import RunResult
from experiments.evaluation.stage import Checkpoint, evaluate
from experiments.stages import experience, rl, run_summary, sft
from records.models.hub import check_hub
from records.models.locate import resolve_model
from records.stages import stage
from tasks import demonstrations, early_experience
from tasks.budget import Allocation, allocate_budget
from tasks.evaluation_sets import prepare_evaluation_sets
from tasks.splits import prepare_tasks


def run(config: DictConfig, folder: Path) -> RunResult:
    """Run every stage that ``config`` asks for and that ``folder`` does not hold yet.

    Raises:
        ModelError: the model cannot be had; no game has been made then.
        StageFailed: a stage's process ended badly; its log says why.
    """
    allocation = allocate_budget(config)
    base = resolve_model(config.model.path, cache_root())
    check_hub(base)
    if teacher := OmegaConf.select(config, "algo.teacher"):
        check_hub(resolve_model(str(teacher), cache_root()))
    with stage(folder, "games"):
        allocation = prepare_tasks(config, allocation, folder, avoid=prepare_evaluation_sets(config, folder))
    checkpoints = _train(config, allocation, folder, base)
    with stage(folder, "evaluation"):
        evaluate(config, folder, checkpoints, tracked=True)
    return run_summary.write(config, allocation, folder, checkpoints)


def _train(config: DictConfig, allocation: Allocation, folder: Path, base: str) -> list[Checkpoint]:
    checkpoints = [Checkpoint("base", base)]
    with rl.ahead(config, folder) if allocation.demonstrations and allocation.steps else nullcontext() as process:
        if allocation.demonstrations:
            checkpoints.append(Checkpoint("sft", _imitate(config, folder, base)))
        if allocation.steps:
            with stage(folder, "rl"):
                model = rl.train(config, allocation, folder, checkpoints[-1].path, process)
                checkpoints.append(Checkpoint("rl", str(model)))
    return checkpoints


def _imitate(config: DictConfig, folder: Path, base: str) -> str:
    """The model that SFT makes of ``base``."""
    shown = demonstrations.episodes_file(folder)
    if not shown.exists():
        with stage(folder, "demonstrations"):
            demonstrations.make_demonstrations(config, folder, base)
    if early_experience.kind_of(config) and not early_experience.rows_file(folder).exists():
        with stage(folder, "experience"):
            experience.make_rows(config, folder, base)
    with stage(folder, "sft"):
        return str(sft.run(config, folder, shown, base))
