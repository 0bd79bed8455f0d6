"""verl's agent loop as a thin shell around ``rollouts.run_episode``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig
from pydantic import PrivateAttr
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from algorithms.chosen import ALGO, Chosen, slots_of
from algorithms.registry import FORM, IN_ROLLOUT, ON_BATCH
from envs.hosting.pool import EnvPool, pool_of
from envs.registry import make_environment
from envs.types import TaskRef
from rewards.named import named_reward
from rewards.registry import reward
from rollouts.episode import Episode, Turn
from rollouts.failed_episodes import run_with_retries
from rollouts.forms.linear import Linear
from rollouts.loop import EpisodeSpec, run_episode
from rollouts.model_policy import ContextLimit, ModelPolicy
from rollouts.prompt_forms.form import PLAIN_FORM, PromptForm
from rollouts.prompt_forms.registry import prompt_form
from rollouts.row import Row, to_rows, window_starts
from rollouts.sampling import Sampler, SamplingParams
from rollouts.shaping import shape
from rollouts.window import window_of
from tasks.curriculum import turns_at
from verl_plugin.rollout.samplers import ServerSampler
from verl_plugin.rollout.token_stream import TokenCodec
from verl_plugin.rollout.turn_fields import TreePlace, state_wanted, turn_fields


class RowOutput(AgentLoopOutput):
    """verl's output of one row, with one reward a turn where verl would put one a row."""

    _rewards: list[float] = PrivateAttr(default_factory=list)
    _more: dict[str, torch.Tensor] = PrivateAttr(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """verl's fields, without a copy of each token's numbers as Python objects."""
        tokens = {
            "prompts": _tensor(self.prompt_ids, np.int64),
            "responses": _tensor(self.response_ids, np.int64),
            "response_mask": _tensor(self.response_mask, np.int64),
            "rollout_log_probs": _tensor(self.response_logprobs or [], np.float32),
            "rm_scores": _tensor(self._rewards, np.float32),
        }
        told = self.model_dump(include={"num_turns", "metrics", "extra_fields"}, exclude_unset=True)
        return {**told, **tokens, **self._more}


def _tensor(numbers: Sequence[float], kind: type[np.number]) -> torch.Tensor:
    """Of a list, torch alone takes four to eight times as long."""
    return torch.from_numpy(np.array(numbers, dtype=kind))


@register("turngrid")
class TurngridAgentLoop(AgentLoopBase):
    """Holds what the episodes of one worker process share; ``run`` plays one of them."""

    def __init__(
        self, *args: Any, hf_model_type: str | None = None, pool: EnvPool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, hf_model_type=hf_model_type, **kwargs)
        env, config = self.config.env, self.config
        self.environment = make_environment(env.name, env)
        self.reward = reward(config.turn_reward.name, config.turn_reward)
        self.prompt_form = prompt_form(config.get("prompt"))
        kwargs, marks = dict(self.apply_chat_template_kwargs), self.prompt_form.marks
        self.codec = TokenCodec(self.tokenizer, hf_model_type, kwargs, marks)
        self.pool = pool or pool_of(env, legal=self.prompt_form.admissible)
        self.window = window_of(env, self.prompt_form, config.get(FORM))
        self.methods, self.on_batch = Chosen(slots_of(config, IN_ROLLOUT)), Chosen(slots_of(config, (*ON_BATCH, ALGO)))
        self.full_entropies = entropies_wanted(config, self.on_batch)
        self.state, self.sent = state_wanted(config, self.on_batch), sorted(self.on_batch.reads())
        read = (self.methods.reads() | self.on_batch.reads()) - {self.reward.name}
        self.named = {name: named_reward(name) for name in sorted(read)}
        self.limit = ContextLimit(config.data.max_prompt_length, config.data.max_response_length)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[RowOutput]:
        """Play one sample of one task from its start; its rows (``to_outputs``)."""
        spec = replace(self.spec(row), sample=int(row["session_id"]))
        episode = await self.play(spec, sampling_params, ServerSampler(self.server_manager))
        return to_outputs(episode, self.reward.name, self.state, self.sent, form=self.prompt_form)

    def spec(self, row: Mapping[str, Any]) -> EpisodeSpec:
        """Of a group's samples, but for their numbers. ``row`` holds the data set's fields, and ``global_steps``. With ``validate``
        the game is played as at the last step of a curriculum, and seeded by its name: verl's ids of validated prompts are
        random."""
        step, validate, config = int(row["global_steps"]), row.get("validate"), self.config
        turns = config.env.max_turns
        return EpisodeSpec(
            TaskRef.from_dict(json.loads(row["task"])),
            self.environment.prompt,
            turns if validate else turns_at(config.curriculum.horizon, step, turns),
            self.reward,
            step=step,
            prompt="" if validate else str(row.get("uid", "")),
            grade_unfinished=self.environment.grades_unfinished,
            window=self.window,
            named={} if validate else self.named,
            void="" if validate else self._void(step),
            form=self.prompt_form,
        )

    def form(self, step: int) -> Linear:
        """How the groups of a training step are played."""
        return next(iter(self.methods.of(FORM, step).values()), Linear())

    async def play(
        self, spec: EpisodeSpec, sampling_params: dict[str, Any], sampler: Sampler, entropies: bool = False
    ) -> Episode:
        """``entropies``: those of the sampled tokens are wanted too. Rewards are shaped but for a validated game, whose spec names no
        prompt.

        Raises:
            EpisodeFailed: environment or server failed at every try.
        """
        full = self.full_entropies and bool(spec.prompt)
        policy = self._policy(sampling_params, sampler, entropies, full)
        episode = await run_with_retries(
            self.pool.open, lambda session: run_episode(policy, session, spec, self.codec.stream())
        )
        transforms = self.methods.of("shaping", spec.step)
        if episode.turns and spec.prompt and (transforms or spec.named):
            shape(episode, self.reward.name, transforms)
        return episode

    def _void(self, step: int) -> str:
        """The kind of turn with which an episode ends, where a filter says so."""
        filters = self.on_batch.of("filter", step).values()
        return next((str(method.void) for method in filters if getattr(method, "stop", False)), "")

    def _policy(self, sampling: dict[str, Any], sampler: Sampler, entropies: bool, full: bool) -> ModelPolicy:
        params = SamplingParams(
            sampling["temperature"], sampling["top_p"], sampling["top_k"], self.config.env.max_action_tokens
        )
        asked = {"entropies": entropies, "full_entropies": full}
        return ModelPolicy(sampler, self.codec.decode, params, self.limit, self.config.seed, **asked)


def to_outputs(
    episode: Episode,
    reward_name: str,
    state: str | None = None,
    named: Sequence[str] = (),
    tree: TreePlace | None = None,
    form: PromptForm = PLAIN_FORM,
) -> list[RowOutput]:
    """An episode as verl wants it: one row, or one a window; with ``turn_fields`` where ``state`` says what a state is, and
    ``tree`` where it stands among the others of its group. ``form``: how it was played.

    Raises:
        ValueError: no turn was played, so there is nothing to learn from.
    """
    ends = [*window_starts(episode), len(episode.turns)]
    rows = to_rows(episode, reward_name)
    outputs = []
    for row, (first, last) in zip(rows, pairwise(ends), strict=True):
        output = _output(episode, row, episode.turns[first:last], episode.versions(first, last), reward_name)
        output._more = turn_fields(episode, first, last, state, named, tree, form) if state else {}
        output._more |= entropies_of(episode.turns[first:last])
        outputs.append(output)
    return outputs


def entropies_wanted(config: DictConfig, methods: Chosen) -> bool:
    """Whether the server is to tell those of its tokens: ``methods`` of the update read them, and the trainer has no pass of its own to
    find them (``config.method_settings``)."""
    return "entropy" in methods.needs() and bool(config.algorithm.rollout_correction.bypass_mode)


def entropies_of(turns: Sequence[Turn]) -> dict[str, torch.Tensor]:
    """(T,) of a row, nats, 0 off its actions, as verl names what its own pass finds; nothing where nobody asked for them.

    Raises:
        ValueError: a token lacks its own.
    """
    if not any(turn.full_entropies for turn in turns):
        return {}
    if any(len(turn.full_entropies) != len(turn.action_ids) for turn in turns):
        raise ValueError("the rollout server did not tell the entropy of every token")
    found = [number for turn in turns for number in turn.full_entropies + [0.0] * len(turn.context_ids)]
    return {"entropy": torch.tensor(found, dtype=torch.float32)}


def _output(
    episode: Episode, row: Row, turns: Sequence[Turn], versions: tuple[int, int], reward_name: str
) -> RowOutput:
    """Its lists are the row's own: pydantic would look at every token, and copy it."""
    output = RowOutput.model_construct(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids,
        response_mask=row.mask,
        response_logprobs=row.logprobs,
        reward_score=sum(row.rewards),  # not None, so that verl leaves the reward to us
        num_turns=sum(not turn.summary for turn in turns),
        metrics=AgentLoopMetrics(
            generate_sequences=sum(turn.act_seconds for turn in turns),
            tool_calls=sum(turn.env_seconds for turn in turns),
        ),
        extra_fields={
            "turn_scores": [turn.trained(reward_name) for turn in turns],
            "tool_rewards": [],
            "reward_extra_info": {"acc": float(episode.won)},
            "min_global_steps": versions[0],
            "max_global_steps": versions[1],
        },
    )
    output._rewards = row.rewards
    return output
