"""The agent loop: samples episodes and turns them into rows of verl's queue."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from turngrid.algorithms.chosen import ALGO, Chosen, slots_of
from turngrid.algorithms.registry import FORM, IN_ROLLOUT, ON_BATCH, STATES
from turngrid.envs.hosting.pool import pool_of
from turngrid.envs.types import TaskRef
from turngrid.rewards.registry import named_reward
from turngrid.rollouts.ending import shape
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.failed_episodes import run_with_retries
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import SELF, ContextLimit, ModelPolicy, Policy
from turngrid.rollouts.row import Row, to_rows, turns_of_rows
from turngrid.rollouts.sampling import Sampler, SamplingParams
from turngrid.tasks.curriculum import turns_at
from turngrid.tasks.run import Run
from turngrid.verl_plugin.rollout.contexts import context_fields
from turngrid.verl_plugin.rollout.opponents import Opponents
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.rollout.turn_fields import turn_fields, verl_fields
from turngrid.verl_plugin.shared_state import Reader


class TurngridAgentLoop:
    """State shared by the episodes of one worker."""

    def __init__(self, config: DictConfig, tokenizer: Any, hf_model_type: str | None) -> None:
        self.config, env = config, config.env
        self.run = Run(config, Path(config.run.folder))
        self.reward, self.prompt_form = self.run.reward, self.run.prompt
        template = dict(config.data.get("apply_chat_template_kwargs", {}))
        self.codec = TokenCodec(tokenizer, hf_model_type, template, self.prompt_form.marks)
        self.pool = pool_of(env, legal=self.prompt_form.admissible)
        # a game's samples share a process if every process has a game
        self.together = env.workers * config.actor_rollout_ref.rollout.agent.num_workers <= config.data.train_batch_size
        self.methods, self.on_batch = Chosen(slots_of(config, IN_ROLLOUT)), Chosen(slots_of(config, (*ON_BATCH, ALGO)))
        self.full_entropies = entropies_wanted(config, self.on_batch)
        self.state = (config.algo.get("state") or STATES[0]) if self.on_batch else None  # None: no method reads it
        self.sent = sorted(self.on_batch.reads())
        read = (self.methods.reads() | self.on_batch.reads()) - {self.reward.name}
        self.named = {name: named_reward(name) for name in sorted(read)}
        self.limit = ContextLimit(config.data.max_prompt_length, config.data.max_response_length)
        self.asking = self.on_batch.asking()
        self.opponents = Opponents(self.run, self.form)
        self.shared = Reader(Path(config.run.get("shared") or ""), self.on_batch)

    def spec(self, row: Mapping[str, Any]) -> EpisodeSpec:
        """Return the spec that all samples of a group share.

        With ``validate`` the game is as at the last step of a curriculum, and seeded by its name,
        since verl's ids of validation prompts are random.
        """
        step, validate, turns = int(row["global_steps"]), row.get("validate"), self.config.env.max_turns
        self.shared.at(step)
        turns = turns if validate else turns_at(self.run.curriculum.horizon, step, turns)
        spec = self.run.spec(TaskRef.from_dict(json.loads(row["task"])), turns)
        spec = replace(spec, step=step, library=self.library(step))
        if validate:
            return spec
        return replace(spec, prompt=str(row.get("uid", "")), named=self.named, void=self._void(step))

    def library(self, step: int) -> Any:
        return next(iter(self.on_batch.of("library", step).values()), None)

    def form(self, step: int) -> Linear:
        return next(iter(self.methods.of(FORM, step).values()), Linear())

    async def play(self, spec: EpisodeSpec, sampler: Sampler, entropies: bool = False) -> Episode:
        """Sample an episode and shape its rewards.

        Validation episodes (without ``prompt``) have own sampling settings and are not shaped. A
        match that an opponent forfeits before the policy has a turn is played against itself.

        Raises:
            EpisodeFailed: environment or server failed in every attempt.
        """
        trained, rollout = bool(spec.prompt), self.config.actor_rollout_ref.rollout
        node = rollout if trained else rollout.val_kwargs
        params = SamplingParams(node.temperature, self.config.env.max_action_tokens, node.top_p, node.top_k)
        asked = {"entropies": entropies, "full_entropies": self.full_entropies and trained}
        policy = ModelPolicy(sampler, self.codec.decode, params, self.limit, self.config.seed, **asked)
        episode = await self._run(policy, *self.opponents.of(spec, policy))
        if spec.opponent and episode.won and not episode.turns:  # the opponent lost before the policy had a turn
            episode = await self._run(policy, replace(spec, opponent=SELF, both=False), None)
        transforms = self.methods.of("shaping", spec.step)
        for side in (episode, *episode.sides):
            if side.turns and trained and (transforms or spec.named):
                shape(side, self.reward.name, transforms, len(spec.task.expert_plan))
        return episode

    async def _run(self, policy: ModelPolicy, spec: EpisodeSpec, opponent: Policy | None) -> Episode:
        seed, stream = self.config.seed, self.codec.stream
        return await run_with_retries(
            partial(self.pool.open, spec.prompt if self.together else ""),
            lambda session: run_episode(policy, session, spec, stream(), stream(), seed, opponent),
        )

    def contexts(self, episode: Episode, prompt: Mapping[str, Any]) -> list[dict[str, torch.Tensor]]:
        spans = bool(self.run.tracking.reasoning)
        if not (self.asking or spans):
            return []
        answering = self.run.environment.answering
        return context_fields(self.asking, episode, self.spec(prompt), self.codec, answering, spans)

    def _void(self, step: int) -> str:
        filters = self.on_batch.of("filter", step).values()
        return next((str(method.void) for method in filters if getattr(method, "stop", False)), "")


def row_fields(episode: Episode, reward_name: str, state: str | None = None, **described: Any) -> list[dict[str, Any]]:
    """Make the fields of verl's rows: one row an episode, or one a window.

    Without ``state`` they lack ``turn_fields``, whose other arguments are ``described``.

    Raises:
        ValueError: the episode has no turn.
    """
    fields = []
    for row, (first, last) in zip(to_rows(episode, reward_name), turns_of_rows(episode), strict=True):
        turns, versions = episode.turns[first:last], episode.versions(first, last)
        own = _of_verl(row, turns, episode.won, versions) | entropies_of(turns)
        if state:
            own |= turn_fields(episode, first, last, state, **described)
        fields.append(own)
    return fields


def entropies_wanted(config: DictConfig, methods: Chosen) -> bool:
    """Return whether a method reads entropies that no forward pass of the trainer computes."""
    return "entropy" in methods.needs() and bool(config.algorithm.rollout_correction.bypass_mode)


def entropies_of(turns: Sequence[Turn]) -> dict[str, torch.Tensor]:
    """Return a row's entropies: (T,) in nats, 0 except on actions; {} if not requested.

    Raises:
        ValueError: a token has no entropy.
    """
    if not any(turn.full_entropies for turn in turns):
        return {}
    if any(len(turn.full_entropies) != len(turn.action_ids) for turn in turns):
        raise ValueError("the rollout server did not send the entropy of every token")
    numbers = [number for turn in turns for number in turn.full_entropies + [0.0] * len(turn.context_ids)]
    return {"entropy": torch.tensor(numbers, dtype=torch.float32)}


def _of_verl(row: Row, turns: Sequence[Turn], won: bool, versions: tuple[int, int]) -> dict[str, Any]:
    """Make the fields that verl's agent loop gives a row, but with one reward a turn."""
    return {
        **verl_fields(*(_tensor(numbers, np.int64) for numbers in (row.prompt_ids, row.response_ids, row.mask))),
        "rollout_log_probs": _tensor(row.logprobs, np.float32),
        "rm_scores": _tensor(row.rewards, np.float32),
        "num_turns": sum(not turn.aside for turn in turns),
        "metrics": {
            "generate_sequences": sum(turn.act_seconds for turn in turns),
            "tool_calls": sum(turn.env_seconds for turn in turns),
        },
        "extra_fields": {
            "reward_extra_info": {"acc": float(won)},
            "min_global_steps": versions[0],
            "max_global_steps": versions[1],
        },
    }


def _tensor(numbers: Sequence[float], dtype: type[np.number]) -> torch.Tensor:
    """Convert a list to a tensor through numpy; torch alone takes four to eight times as long."""
    return torch.from_numpy(np.array(numbers, dtype=dtype))
