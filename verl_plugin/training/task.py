"""Runs verl's PPO task in this process, without a Ray actor, which saves about five seconds."""

from __future__ import annotations

from typing import Any

import ray
from omegaconf import DictConfig
from verl.trainer import main_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.utils.config import validate_config
from verl.workers.rollout import router

from turngrid.verl_plugin.training.async_trainer import ColocateAsyncTrainer, SeparateAsyncTrainer
from turngrid.verl_plugin.training.trainer import TurngridTrainer

TRAINERS = {
    "sync": TurngridTrainer,
    "colocate_async": ColocateAsyncTrainer,
    "separate_async": SeparateAsyncTrainer,
}


class _Run:
    """Stands in for a Ray actor's method: has ``remote``, as ``run_ppo`` expects of
    ``runner.run``.
    """

    @staticmethod
    def remote(config: DictConfig) -> ray.ObjectRef:
        runner: Any = main_ppo.TaskRunnerV1
        runner.__ray_metadata__.modified_class().run(config)
        return ray.put(None)


class _Runner:
    """Stands in for the Ray actor class that ``run_ppo`` starts, and runs immediately in this
    process.
    """

    run = _Run

    @classmethod
    def remote(cls) -> type[_Runner]:
        return cls


def train(config: DictConfig) -> None:
    """Train with our trainers under verl's names of modes, from which verl chooses the replay
    buffer.

    Raises what verl raises; if verl refuses the config, before anything heavy starts.

    Until verl lets a config name the class.
    """
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    TRAINER_REGISTRY.update(TRAINERS)
    # Pickled by value, so that the router's process does not import verl: 5 CPU s and 300 MiB
    ray.cloudpickle.register_pickle_by_value(router)
    main_ppo.run_ppo(config, task_runner_class=_Runner)
