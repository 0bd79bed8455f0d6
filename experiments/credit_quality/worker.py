"""A process that measures games, one after the other. What is said and sampled is as in training."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from envs.registry import make_environment
from envs.text_env import TextEnv
from envs.types import TaskRef
from envs.utils.parent import die_with_parent
from experiments.credit_quality.measured_game import MeasuredGame, Measurement
from experiments.credit_quality.rollouts import NoisyExpert, Rollouts, TextRollouts
from rewards.registry import reward
from rollouts.chat_settings import ChatSettings
from rollouts.loop import EpisodeSpec
from rollouts.policy import ContextLimit, RandomPolicy
from rollouts.prompt_forms.registry import prompt_form
from rollouts.sampling import SamplingParams
from rollouts.window import window_of

CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Job:
    """What all games have in common. ``config``: the run's, as YAML; ``kind``, ``path``, ``chat``: of the policy; ``noise``: of the expert.
    ``folder``: where games are kept."""

    config: str
    kind: str
    path: str
    chat: ChatSettings
    noise: float
    folder: str

    def file(self, task: TaskRef) -> Path:
        return Path(self.folder) / "games" / f"{task.seed}-{task.sha256[:8]}.json"

    def read(self, task: TaskRef) -> MeasuredGame:
        return MeasuredGame.read(self.file(task), task.key)


class Worker:
    def __init__(self, job: Job) -> None:
        config = OmegaConf.create(job.config)
        assert isinstance(config, DictConfig)
        self.job, self.config = job, config
        self.environment, self.form = make_environment(config.env.name, config.env), prompt_form(config.get("prompt"))
        self.reward = reward(config.turn_reward.name, config.turn_reward)
        self.rollouts = self._rollouts()

    def _rollouts(self) -> Rollouts:
        if self.job.kind == CHECKPOINT:
            return self._model()
        seed = int(self.config.seed)
        return TextRollouts(NoisyExpert(self.job.noise, seed) if self.job.kind == "expert" else RandomPolicy(seed))

    def _model(self) -> Rollouts:
        import torch  # it and what follows take seconds to import
        from transformers.utils.logging import disable_progress_bar

        from experiments.credit_quality.model_rollouts import ModelRollouts
        from verl_plugin.rollout.local_rollouts import LoadedModel, Rules

        torch.set_num_threads(1)
        disable_progress_bar()  # "Loading weights": ours says more
        model = LoadedModel(self.job.path, self.config.trainer.device, self.job.chat, self.form.marks)
        rollout, prompt = self.config.actor_rollout_ref.rollout, int(self.config.data.max_prompt_length)
        params = SamplingParams(rollout.temperature, rollout.top_p, rollout.top_k, self.config.env.max_action_tokens)
        response = min(int(self.config.data.max_response_length), model.context - prompt)
        return ModelRollouts(model, Rules(params, ContextLimit(prompt, response), int(self.config.seed)))

    def measurement(self, task: TaskRef) -> Measurement:
        env = self.config.env
        spec = EpisodeSpec(
            task,
            self.environment.prompt,
            int(env.max_turns),
            self.reward,
            grade_unfinished=self.environment.grades_unfinished,
            window=window_of(env, self.form),
            form=self.form,
        )
        return Measurement(self.rollouts, self._make, spec, self.reward.name)

    def _make(self) -> TextEnv:
        text = self.job.kind != CHECKPOINT
        return self.environment.env(legal=text or self.form.admissible, expert=self.job.kind == "expert")

    def do(self, what: str, task: TaskRef, *numbers: int) -> None:
        """``screen`` or ``measure`` of ``Measurement``; what it finds is kept."""
        game = self.job.read(task)
        asyncio.run(getattr(self.measurement(task), what)(game, *numbers))
        game.write(self.job.file(task))


_worker: list[Worker] = []  # of a process that another one started


def start(job: Job) -> None:
    """An interrupt is the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    _worker.append(Worker(job))


def do(what: str, task: dict[str, Any], *numbers: int) -> None:
    _worker[0].do(what, TaskRef.from_dict(task), *numbers)
