"""The policies that can be measured, and a process that measures games."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import EnvError, TaskRef
from turngrid.envs.utils.parent import die_with_parent
from turngrid.experiments.credit_quality.game import GameTree, MeasuredGame, Measurement, Rollouts
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.lockstep import LockstepBatch, Slot
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import Action, ContextLimit, Policy, RandomPolicy, TurnContext, any_legal, dice
from turngrid.rollouts.sampling import Sample, SampleRequest, SamplingParams
from turngrid.tasks.run import Run

if TYPE_CHECKING:
    from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules

CHECKPOINT = "checkpoint"


@dataclass
class TextRollouts:
    """A policy that answers in text."""

    policy: Policy

    async def roll_out(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        return [_one_token_a_turn(await run_episode(self.policy, await tree.open(), spec, None)) for spec in specs]


def _one_token_a_turn(episode: Episode) -> Episode:
    """Give each turn one action token, for methods to credit, and one context token."""
    episode.turns = [replace(turn, action_ids=[0], context_ids=[0]) for turn in episode.turns]
    return episode


@dataclass(frozen=True)
class NoisyExpert:
    """Follow the observation's expert plan; if it has none, the game's plan at this turn.

    With probability ``noise``, or if there is no plan, draw from the legal commands.
    """

    noise: float
    run_seed: int
    name: str = "expert"

    async def act(self, context: TurnContext) -> Action:
        plan = context.observation.expert or context.task.expert_plan[context.turn :]
        draw = dice(self.run_seed, context)
        if draw.random() >= self.noise and plan:
            return Action(text=plan[0], plan=plan)
        return any_legal(context, draw)


class ModelRollouts:
    """A model that runs all episodes of a call at once, and remembers its answers to a game.

    A request's seed is derived from its episode and turn, and a batch holds the requests of one
    game. So results do not depend on the number of processes.
    """

    def __init__(self, model: LoadedModel, rules: Rules) -> None:
        self.model, self.rules = model, rules
        self._tree: GameTree | None = None  # the game of the answers
        self._answers: dict[tuple[bytes, int], Sample] = {}  # by prompt and seed

    async def roll_out(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        if tree is not self._tree:
            self._tree, self._answers = tree, {}
        lockstep = LockstepBatch(len(specs), self._answer)
        episodes = await asyncio.gather(*(self._one(spec, lockstep.slot(i), tree) for i, spec in enumerate(specs)))
        if failed := next((episode for episode in episodes if episode.outcome is Outcome.ERROR), None):
            raise EnvError(f"{failed.task}: {failed.error}")
        return list(episodes)

    async def _one(self, spec: EpisodeSpec, slot: Slot, tree: GameTree) -> Episode:
        from turngrid.verl_plugin.rollout.local_rollouts import play_one

        sessions: Any = tree  # opens sessions, as a pool does
        async with slot:
            return await play_one(self.model.codec, spec, slot, self.rules, sessions, lambda: None)

    async def _answer(self, requests: list[SampleRequest]) -> list[Sample]:
        keys = [(np.asarray(request.prompt_ids, dtype=np.int32).tobytes(), request.seed) for request in requests]
        new = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._answers}
        if new:
            self._answers |= zip(new, await self.model([*new.values()]), strict=True)
        return [self._answers[key] for key in keys]


# ---- the process


@dataclass(frozen=True)
class Job:
    """Settings that all games of a study share.

    Attributes:
        config: the run's config as YAML.
        kind, path, chat: of the policy.
        noise: probability of a random action of the expert.
        folder: where measured games are stored.
    """

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
    """Measures games one after the other."""

    def __init__(self, job: Job) -> None:
        config = OmegaConf.create(job.config)
        assert isinstance(config, DictConfig)
        self.job, self.run = job, Run(config, Path(job.folder))
        self.rollouts = self._rollouts()

    def _rollouts(self) -> Rollouts:
        if self.job.kind == CHECKPOINT:
            return self._model()
        seed = int(self.run.config.seed)
        return TextRollouts(NoisyExpert(self.job.noise, seed) if self.job.kind == "expert" else RandomPolicy(seed))

    def _model(self) -> Rollouts:
        import torch  # this and the next imports take seconds
        from transformers.utils.logging import disable_progress_bar

        from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules

        torch.set_num_threads(1)
        disable_progress_bar()
        config = self.run.config
        model = LoadedModel(self.job.path, config.trainer.device, self.job.chat, self.run.prompt.marks)
        rollout, prompt = config.actor_rollout_ref.rollout, int(config.data.max_prompt_length)
        params = SamplingParams(rollout.temperature, rollout.top_p, rollout.top_k, config.env.max_action_tokens)
        response = min(int(config.data.max_response_length), model.context - prompt)
        return ModelRollouts(model, Rules(params, ContextLimit(prompt, response), int(config.seed)))

    def measurement(self, task: TaskRef) -> Measurement:
        spec = self.run.spec(task, int(self.run.config.env.max_turns))
        return Measurement(self.rollouts, self._make, spec, self.run.reward.name)

    def _make(self) -> TextEnv:
        legal = self.job.kind != CHECKPOINT or self.run.prompt.admissible
        return self.run.environment.env(legal=legal, expert=self.job.kind == "expert")

    def do(self, what: str, task: TaskRef, *numbers: int) -> None:
        """Call ``screen`` or ``measure`` of a game's ``Measurement``, and save the game."""
        game = self.job.read(task)
        asyncio.run(getattr(self.measurement(task), what)(game, *numbers))
        game.write(self.job.file(task))


_worker: list[Worker] = []  # set in a child process only


def start(job: Job) -> None:
    """Initialise this child process; the parent handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    _worker.append(Worker(job))


def do(what: str, task: dict[str, Any], *numbers: int) -> None:
    _worker[0].do(what, TaskRef.from_dict(task), *numbers)
