"""A run: its config, its folder, and objects made from both, each built once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.chosen import Chosen, algorithm, slots_of
from turngrid.algorithms.registry import FORM, ROLES, Algorithm
from turngrid.envs.environment import Environment
from turngrid.envs.extensions import shipped
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.resume import RlFolder
from turngrid.rewards.registry import reward
from turngrid.rewards.reward import Reward
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.policy import RANDOM, ContextLimit
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.prompt_forms.registry import prompt_form
from turngrid.rollouts.roles import Roles
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.rollouts.window import Summaries, Window, window_of
from turngrid.tasks.budget import Allocation, allocate_budget
from turngrid.tasks.schema import Budget, Cluster, Curriculum, Demos, Env, Eval, Health, Model, Tracking, TurnReward

# Keys of the run's env node that hold in any environment.
SHARED = ("workers", "step_deadline_s", "max_action_tokens", "cache_dir")
# Keys of an env node that may name a file or folder.
PATHS = ("cache_dir", "data_dir", "corpus", "mirror_dir", "instances", "test_instances", "python")


@dataclass(frozen=True, eq=False)
class Run:
    """A run with its config, or an evaluation with a separate folder.

    A config that is only checked or counted has no folder. Our nodes are read as ``env``, ``eval``
    and so on, by the types of ``schema.py``; verl's are read in ``config``.
    """

    config: DictConfig
    folder: Path = Path()
    _others: dict[str, Run] = field(default_factory=dict, init=False, repr=False)  # by environment

    @classmethod
    def read(cls, folder: Path, file: str = "config.yaml") -> Run:
        """Read the run in ``folder``: the config that it was started with, or a stage's."""
        config = OmegaConf.load(folder / file)
        assert isinstance(config, DictConfig)
        return cls(config, folder)

    @property
    def env(self) -> Env:
        return self.config.env

    @property
    def eval(self) -> Eval:
        return self.config.eval

    @property
    def demos(self) -> Demos:
        return self.config.demos

    @property
    def budget(self) -> Budget:
        return self.config.budget

    @property
    def model(self) -> Model:
        return self.config.model

    @property
    def turn_reward(self) -> TurnReward:
        return self.config.turn_reward

    @property
    def curriculum(self) -> Curriculum:
        return self.config.curriculum

    @property
    def cluster(self) -> Cluster:
        return self.config.cluster

    @property
    def tracking(self) -> Tracking:
        return self.config.tracking

    @property
    def health(self) -> Health:
        return self.config.health

    @property
    def seed(self) -> int:
        return int(self.config.seed)

    @property
    def max_turns(self) -> int:
        """The most turns of a training episode; composition fills in the default."""
        return int(self.config.env.max_turns)

    @cached_property
    def environment(self) -> Environment:
        return make_environment(self.env.name, self.config.env)

    @property
    def catalogue(self) -> Catalogue:
        """The games of the environment."""
        return Catalogue(self.environment, self.cache_dir)

    @property
    def cache_dir(self) -> Path | None:
        """The folder of made games, if the config names one."""
        return Path(self.env.cache_dir).expanduser() if self.env.cache_dir else None

    @cached_property
    def prompt(self) -> PromptForm:
        return prompt_form(self.config.get("prompt"))

    @cached_property
    def reward(self) -> Reward:
        name, settings = self.reward_name, self.config.turn_reward
        return reward(name, settings if name == settings.name else None)

    @property
    def reward_name(self) -> str:
        """The run's reward if the environment offers it, else its first: evaluation counts wins."""
        name = self.turn_reward.name
        return name if self.environment.offers(name) else self.environment.rewards[0]

    @property
    def opponents(self) -> list[str]:
        """The opponents of evaluations; training has the first."""
        return list(self.eval.opponents or [RANDOM])

    @cached_property
    def window(self) -> Window | Summaries | None:
        return window_of(self.config.env, self.prompt, self.config.get(FORM))

    @cached_property
    def roles(self) -> Roles | None:
        """The policy's roles; None if it has one."""
        chosen = Chosen(slots_of(self.config, (ROLES,))).of(ROLES, 1)
        return Roles(chosen) if chosen else None

    @cached_property
    def forms(self) -> dict[str, Any]:
        """The chosen rollout form by name, with its settings of the first step; {} if linear."""
        return Chosen(slots_of(self.config, (FORM,))).of(FORM, 1)

    @property
    def several_rows(self) -> bool:
        """Return whether an episode may have several rows in training."""
        return bool(self.window or self.roles) or any(form.several_rows for form in self.forms.values())

    @cached_property
    def sides(self) -> int:
        """The most episodes that a sample gives in training."""
        return max((form.sides for form in self.forms.values()), default=1)

    @cached_property
    def chat(self) -> ChatSettings:
        kwargs = OmegaConf.select(self.config, "data.apply_chat_template_kwargs")
        plain: Any = OmegaConf.to_container(kwargs, resolve=True) if kwargs else {}
        return ChatSettings(plain, OmegaConf.select(self.config, "actor_rollout_ref.model.custom_chat_template"))

    @cached_property
    def allocation(self) -> Allocation:
        """Return what the budget pays for; the environment may have fewer games.

        Raises:
            BudgetError: its units are too few.
        """
        prompts, samples = int(self.config.data.train_batch_size), int(self.config.actor_rollout_ref.rollout.n)
        samples = max((form.episodes(samples) for form in self.forms.values()), default=samples)
        return allocate_budget(self.budget, prompts, samples)

    @cached_property
    def methods(self) -> Chosen:
        """The methods of all slots, which checks ask; a stage makes those that it runs."""
        return Chosen(slots_of(self.config))

    @cached_property
    def algorithm(self) -> Algorithm:
        return algorithm(self.config.algo.name)

    @cached_property
    def rl(self) -> RlFolder:
        return RlFolder(self.folder)

    def spec(self, task: TaskRef, max_turns: int, sample: int = 0, opponent: str = "") -> EpisodeSpec:
        """Return the spec of an episode, with the run's sampling settings.

        In a game of two seats the opponent is by default the first of ``eval.opponents``. The seat
        alternates with the sample; that of the first follows from the game's seed.
        """
        style, unfinished = self.environment.prompt, self.environment.grades_unfinished
        more: dict[str, Any] = {"grade_unfinished": unfinished, "window": self.window, "form": self.prompt}
        more |= {"max_actions": self.config.env.get("max_actions"), "roles": self.roles}
        if seats := self.environment.seats:
            more |= {"seat": seats[(task.seed + sample) % 2], "opponent": opponent or self.opponents[0]}
        return EpisodeSpec(task, style, max_turns, self.reward, sample=sample, **more)

    def limit(self, context: int, response: int | None = None) -> ContextLimit:
        """Return an episode's token limits; without ``response``, training's."""
        data = self.config.data
        prompt, longest = int(data.max_prompt_length), response or int(data.max_response_length)
        return ContextLimit(prompt, min(longest, context - prompt))

    def of_environment(self, name: str) -> Run:
        """Return the same run with the ``env`` node of an environment, each made once."""
        if name == self.env.name:
            return self
        if name not in self._others:
            self._others[name] = Run(self._with(env=self.env_node(name)), self.folder)
        return self._others[name]

    def env_node(self, name: str) -> dict[str, Any]:
        """Return the ``env`` node of an environment.

        Another environment than the run's has its defaults, with the run's workers and limits.
        """
        node: Any = OmegaConf.to_container(self.config.env, resolve=True)
        if name == node["name"]:
            return node
        return {"name": name, **{key: node[key] for key in SHARED}, **shipped("env", name)}

    def for_process(self, **node: Any) -> DictConfig:
        """Return a resolved copy of the config for another process, with the node ``run``.

        Relative ``PATHS`` of ``env`` become absolute: the process works in the run's folder.
        """
        config = self._with(run={"folder": str(self.folder), **node})
        for key in PATHS:
            if (value := config.env.get(key)) and (path := Path(str(value)).expanduser()).exists():
                config.env[key] = str(path.absolute())
        return config

    def _with(self, **nodes: Any) -> DictConfig:
        settings: Any = OmegaConf.to_container(self.config, resolve=True)
        return OmegaConf.create({**settings, **nodes})
