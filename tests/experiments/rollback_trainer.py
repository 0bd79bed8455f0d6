"""A trainer without a model: the KL of an update is in proportion to the learning rate."""

import sys
from pathlib import Path

from omegaconf import OmegaConf

from turngrid.records.files import checkpoints
from turngrid.records.health.alarms import Watch
from turngrid.records.metrics import append_metrics
from turngrid.records.process.child import stage_exit_code
from turngrid.records.resume import RlFolder


def checkpoint(rl: RlFolder, step: int) -> None:
    folder = checkpoints.folder_of(rl.checkpoints, step)
    (folder / "actor").mkdir(parents=True)
    checkpoints.seal(folder)


def train(file: Path) -> None:
    config = OmegaConf.load(file)
    rl, rate = RlFolder(Path(config.run.folder)), float(config.actor_rollout_ref.actor.optim.lr)
    watch = Watch(rl, config.health, lambda *_: None, True)
    for step in range(rl.saved_step() + 1, config.trainer.total_training_steps + 1):
        metrics = {"success/train": 0.5, "actor/lr": rate, "actor/ppo_kl": rate * (step > 2)}
        append_metrics(rl.metrics, step, metrics)
        watch(step, metrics)
        checkpoint(rl, step)


if __name__ == "__main__":
    sys.exit(stage_exit_code(lambda: train(Path(sys.argv[1]))))
