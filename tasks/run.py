"""A run: its config, its folder, and objects made from both, each built once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.chosen import Chosen, algorithm, slots_of
from turngrid.algorithms.registry import FORM, ROLES, Algorithm
from turngrid.envs.environment import Environment
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.resume import RlFolder
from turngrid.records.tracking import StageRun
from turngrid.rewards.registry import reward
from turngrid.rewards.reward import Reward
from turngrid.rollouts.chat_settings import ChatSettings, chat_settings
from turngrid.rollouts.policy import ContextLimit
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.prompt_forms.registry import prompt_form
from turngrid.rollouts.roles import Roles
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.rollouts.window import Summaries, Window, window_of
from turngrid.tasks.budget import Allocation, allocate_budget, rollout_forms
from turngrid.tasks.evaluation_sets import EvaluationSetting, env_node, evaluation_settings, opponents_of, reward_on


@dataclass(frozen=True, eq=False)
class Run:
    """A run with its checked config, or an evaluation with a separate folder."""

    config: DictConfig
    folder: Path

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Read the config that the run in ``folder`` was started with."""
        config = OmegaConf.load(folder / "config.yaml")
        assert isinstance(config, DictConfig)
        return cls(config, folder)

    @cached_property
    def environment(self) -> Environment:
        return make_environment(self.config.env.name, self.config.env)

    @cached_property
    def prompt(self) -> PromptForm:
        return prompt_form(self.config.get("prompt"))

    @cached_property
    def reward(self) -> Reward:
        """The run's reward if the environment offers it, else the environment's first."""
        name, settings = reward_on(self.environment, self.config), self.config.turn_reward
        return reward(name, settings if name == settings.name else None)

    @cached_property
    def window(self) -> Window | Summaries | None:
        return window_of(self.config.env, self.prompt, self.config.get(FORM))

    @cached_property
    def roles(self) -> Roles | None:
        """The policy's roles; None if it has one."""
        chosen = Chosen(slots_of(self.config, (ROLES,))).of(ROLES, 1)
        return Roles(chosen) if chosen else None

    @property
    def several_rows(self) -> bool:
        """Whether an episode may have several rows in training."""
        forms = rollout_forms(self.config).values()
        return bool(self.window or self.roles) or any(form.several_rows for form in forms)

    @cached_property
    def sides(self) -> int:
        """The most episodes that a sample gives in training."""
        return max((form.sides for form in rollout_forms(self.config).values()), default=1)

    @cached_property
    def chat(self) -> ChatSettings:
        return chat_settings(self.config)

    @cached_property
    def allocation(self) -> Allocation:
        """What the budget pays for; the environment may have fewer training games."""
        return allocate_budget(self.config)

    @cached_property
    def algorithm(self) -> Algorithm:
        return algorithm(self.config.algo.name)

    @cached_property
    def rl(self) -> RlFolder:
        return RlFolder(self.folder)

    @property
    def evaluation_settings(self) -> list[EvaluationSetting]:
        return evaluation_settings(self.config, self.folder)

    def tracked(self, stage: str) -> StageRun:
        return StageRun.of(self.config, self.folder, stage)

    def spec(self, task: TaskRef, max_turns: int, sample: int = 0, opponent: str = "") -> EpisodeSpec:
        """Return the spec of an episode, with the run's sampling settings.

        In a game of two seats the opponent is by default the first of ``eval.opponents``. The seat
        alternates with the sample; that of the first follows from the game's seed.
        """
        style, unfinished = self.environment.prompt, self.environment.grades_unfinished
        more: dict[str, Any] = {"grade_unfinished": unfinished, "window": self.window, "form": self.prompt}
        more |= {"max_actions": self.config.env.get("max_actions"), "roles": self.roles}
        if seats := self.environment.seats:
            more |= {"seat": seats[(task.seed + sample) % 2], "opponent": opponent or opponents_of(self.config)[0]}
        return EpisodeSpec(task, style, max_turns, self.reward, sample=sample, **more)

    def limit(self, context: int, response: int | None = None) -> ContextLimit:
        """Return an episode's token limits; without ``response``, training's."""
        data = self.config.data
        prompt, longest = int(data.max_prompt_length), response or int(data.max_response_length)
        return ContextLimit(prompt, min(longest, context - prompt))

    def of_environment(self, name: str) -> Run:
        """Return the same run with another environment's ``env`` node."""
        if name == self.config.env.name:
            return self
        return Run(self._with(env=env_node(self.config, name)), self.folder)

    def for_process(self, **node: Any) -> DictConfig:
        """Return a resolved copy of the config for another process, with the node ``run``."""
        return self._with(run={"folder": str(self.folder), **node})

    def _with(self, **nodes: Any) -> DictConfig:
        settings: Any = OmegaConf.to_container(self.config, resolve=True)
        return OmegaConf.create({**settings, **nodes})
