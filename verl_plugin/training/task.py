"""verl's PPO task inside the calling process instead of in a Ray actor: one process and about five seconds less."""

from __future__ import annotations

import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.workers.rollout import router

from verl_plugin.training import async_trainer, task_loader, trainer, window_rows


class _Run:
    """What ``runner.run`` is to ``run_ppo``: something with ``remote``."""

    @staticmethod
    def remote(config: DictConfig) -> ray.ObjectRef:
        TaskRunnerV1.__ray_metadata__.modified_class().run(config)
        return ray.put(None)


class _Runner:
    """Looks like the Ray actor class that ``run_ppo`` starts, and runs at once, here."""

    run = _Run

    @classmethod
    def remote(cls) -> type[_Runner]:
        return cls


def train(config: DictConfig) -> None:
    """Train to the end. Raises whatever verl raises, before anything heavy for a config that verl refuses."""
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    trainer.install()
    async_trainer.install()
    task_loader.install(config)
    window_rows.install(config)
    ray.cloudpickle.register_pickle_by_value(router)  # its process need not import verl: 5 CPU s and 300 MiB
    run_ppo(config, task_runner_class=_Runner)
