"""A language model as a policy: one sampling request a turn, token ids in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollouts.policy import Action, TurnContext
from rollouts.sampling import RequestTooLong, Sampler, SampleRequest, SamplingParams, request_id
from rollouts.seeds import request_seed


@dataclass(frozen=True)
class ContextLimit:
    """Maximum number of tokens in a row's prompt and in its response."""

    prompt: int
    response: int


@dataclass
class ModelPolicy:
    """The policy of one episode.

    Args:
        decode: turns sampled ids into text without special tokens.
        entropies, full_entropies: ask the server for these (``rollouts.sampling.Sample``).
    """

    sampler: Sampler
    decode: Callable[[Sequence[int]], str]
    params: SamplingParams
    limit: ContextLimit
    run_seed: int
    name: str = "model"
    entropies: bool = False
    full_entropies: bool = False

    async def act(self, context: TurnContext) -> Action:
        if not self._fits(context):
            return Action(text="", out_of_context=True)
        try:
            sample = await self.sampler.sample(self._request(context))
        except RequestTooLong:  # the model's own context may be shorter than the config's limit
            return Action(text="", out_of_context=True)
        return Action(self.decode(sample.token_ids).strip(), sample)

    def _fits(self, context: TurnContext) -> bool:
        prompt = context.prompt_length
        response = len(context.token_ids) - prompt + self._max_tokens(context)
        return prompt <= self.limit.prompt and response <= self.limit.response

    def _max_tokens(self, context: TurnContext) -> int:
        return context.max_tokens or self.params.max_action_tokens

    def _request(self, context: TurnContext) -> SampleRequest:
        return SampleRequest(
            request_id=request_id(context.step, context.prompt, context.sample),
            prompt_ids=context.token_ids[:],  # a copy: the episode goes on
            max_tokens=self._max_tokens(context),
            temperature=self.params.temperature,
            top_p=self.params.top_p,
            top_k=self.params.top_k,
            seed=request_seed(self.run_seed, context.step, context.prompt, context.sample, context.turn),
            entropies=self.entropies,
            full_entropies=self.full_entropies,
        )
