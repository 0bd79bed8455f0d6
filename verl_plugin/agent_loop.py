"""verl's agent loop as a thin shell around ``rollouts.run_episode``."""

from __future__ import annotations

import json
from typing import Any

import torch
from pydantic import PrivateAttr
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from envs.pool import EnvPool, pool_of
from envs.registry import world
from envs.types import TaskRef
from experiments.curriculum import turns_at
from rewards.registry import reward
from rollouts.episode import Episode
from rollouts.loop import EpisodePlan, run_episode
from rollouts.model_policy import ContextLimit, ModelPolicy
from rollouts.retry import play_with_retries
from rollouts.row import to_row
from rollouts.sampling import Sampler, SamplingParams
from verl_plugin.samplers import ServerSampler
from verl_plugin.token_stream import TokenCodec


class EpisodeOutput(AgentLoopOutput):
    """verl's output, with one reward a turn where verl would put one a row."""

    _rewards: list[float] = PrivateAttr(default_factory=list)
    _episode: Episode | None = PrivateAttr(default=None)

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "rm_scores": torch.tensor(self._rewards, dtype=torch.float32)}


@register("turngrid")
class TurngridAgentLoop(AgentLoopBase):
    """Holds what the episodes of one worker process share; ``run`` plays one of them."""

    def __init__(
        self, *args: Any, hf_model_type: str | None = None, pool: EnvPool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, hf_model_type=hf_model_type, **kwargs)
        env, config = self.config.env, self.config
        self.world = world(env.name, env)
        self.reward = reward(config.turn_reward.name, config.turn_reward)
        self.codec = TokenCodec(self.tokenizer, hf_model_type, dict(self.apply_chat_template_kwargs))
        self.pool = pool or pool_of(env)
        self.limit = ContextLimit(config.data.max_prompt_length, config.data.max_response_length)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> EpisodeOutput:
        """Play one sample of one task; ``row`` holds the data set's fields, ``session_id`` and ``global_steps``.

        Raises:
            EpisodeFailed: the world failed at every try.
        """
        task = TaskRef.from_dict(json.loads(row["task"]))
        plan = EpisodePlan(
            task,
            self.world.prompt,
            self._max_turns(int(row["global_steps"])),
            self.reward,
            sample=int(row["session_id"]),
            step=int(row["global_steps"]),
            prompt=str(row.get("uid", "")),
            grade_unfinished=self.world.grades_unfinished,
        )
        policy = self._policy(sampling_params, row.get("sampler") or ServerSampler(self.server_manager))
        episode = await play_with_retries(
            self.pool.open, lambda session: run_episode(policy, session, plan, self.codec.stream())
        )
        return to_output(episode, self.reward.name)

    def _max_turns(self, step: int) -> int:
        return turns_at(self.config.curriculum.horizon, step, self.config.env.max_turns)

    def _policy(self, sampling: dict[str, Any], sampler: Sampler) -> ModelPolicy:
        params = SamplingParams(
            sampling["temperature"], sampling["top_p"], sampling["top_k"], self.config.env.max_action_tokens
        )
        return ModelPolicy(sampler, self.codec.decode, params, self.limit, self.config.seed)


def to_output(episode: Episode, reward_name: str) -> EpisodeOutput:
    """An episode as verl wants it. Every optional field is set, since verl leaves unset ones out."""
    row = to_row(episode, reward_name)
    total = sum(row.rewards)
    output = EpisodeOutput(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids,
        response_mask=row.mask,
        response_logprobs=row.logprobs,
        reward_score=total,  # not None, so that verl leaves the reward to us
        num_turns=len(episode.turns),
        metrics=AgentLoopMetrics(
            generate_sequences=sum(turn.act_seconds for turn in episode.turns),
            tool_calls=sum(turn.env_seconds for turn in episode.turns),
        ),
        extra_fields={
            "turn_scores": [turn.rewards.get(reward_name, 0.0) for turn in episode.turns],
            "tool_rewards": [],
            "reward_extra_info": {"acc": float(episode.won)},
            "min_global_steps": episode.policy_version,
            "max_global_steps": episode.policy_version,
        },
    )
    output._rewards = row.rewards
    output._episode = episode
    return output
