"""Opponents of self-play that are served: earlier weights of the run, and a chat endpoint."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from turngrid.envs.types import EnvError
from turngrid.rollouts.chat_policy import ChatPolicy, EndpointError
from turngrid.rollouts.policy import ENDPOINT, PAST, ModelPolicy, Policy, Reply, TurnContext
from turngrid.rollouts.seeds import derive_seed
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.tasks.run import Run
from turngrid.verl_plugin.rollout.samplers import keep_weights


@dataclass(frozen=True)
class EndpointOpponent:
    """A chat endpoint as an opponent: its failures are those of the environment."""

    chat: ChatPolicy
    name: str = ENDPOINT

    async def act(self, context: TurnContext) -> Reply:
        try:
            reply = await self.chat.act(context)
        except EndpointError as error:
            raise EnvError(f"{context.task.key}: the opponent failed: {error}") from error
        if reply.out_of_context:
            raise EnvError(f"{context.task.key}: the match is too long for the opponent {self.chat.name}")
        return reply


@dataclass
class Opponents:
    """The served opponents of a run's rollout form, in one worker."""

    run: Run
    form: Callable[[int], Any]  # of a step
    _kept: int = field(default=0, init=False)  # the newest step whose first weights are kept

    async def keep(self, step: int) -> None:
        """Keep the weights with which ``step`` begins, if they become an opponent.

        Raises:
            SampleLost: the rollout server died.
        """
        if self.form(step).keeps(step) and self._kept != step:
            await keep_weights(self.file(step - 1))
            self._kept = step

    def file(self, step: int) -> Path:
        return self.run.rl.opponents / f"{step:06d}.pt"

    def of(self, spec: EpisodeSpec, policy: ModelPolicy) -> tuple[EpisodeSpec, Policy | None]:
        """Return the spec with its opponent's full name, and that opponent if it is served.

        All matches of a step against the past have one opponent, drawn by the run's seed: the
        server then holds one model more, whatever the size of the pool.
        """
        if spec.opponent == PAST:
            drawn = Random(derive_seed(PAST, self.run.config.seed, spec.step))
            step = drawn.choice(self.form(spec.step).past(spec.step))
            earlier = replace(policy, weights=str(self.file(step)), entropies=False, full_entropies=False)
            return replace(spec, opponent=f"{PAST}:{step}"), earlier
        return spec, self.endpoint if spec.opponent == ENDPOINT else None

    @cached_property
    def endpoint(self) -> EndpointOpponent:
        config, endpoint = self.run.config, self.form(1).served()
        temperature, tokens = float(config.actor_rollout_ref.rollout.temperature), int(config.env.max_action_tokens)
        settings = (temperature, tokens, int(config.seed), self.run.chat.kwargs)
        return EndpointOpponent(ChatPolicy(endpoint, endpoint.client(), *settings, marks=self.run.prompt.marks))
