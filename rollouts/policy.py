"""Policies, which turn the episode so far into one action: the expert, a random one, a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from turngrid.envs.types import EnvError, Observation, TaskRef
from turngrid.rollouts.sampling import RequestTooLong, Sample, Sampler, SampleRequest, SamplingParams, request_id
from turngrid.rollouts.seeds import request_seed


@dataclass(frozen=True)
class TurnContext:
    """Everything that a policy may read.

    Args:
        messages, token_ids: the episode so far, or a window of it.
        observation: only scripted policies read its ``legal`` and ``expert``.
        prompt: name of the group that ``sample`` belongs to.
        prompt_length: tokens of ``token_ids`` that are the prompt.
        max_tokens: limit of the answer; None: the policy's own limit.
        acted: actions that the episode's turns have run, one a turn unless answers have several.
    """

    messages: Sequence[dict[str, str]]
    token_ids: Sequence[int]
    task: TaskRef
    observation: Observation
    turn: int
    sample: int
    step: int
    prompt: str
    prompt_length: int = 0
    max_tokens: int | None = None
    acted: int = 0

    def seed(self, run_seed: int) -> int:
        """Return the seed of this turn's answer."""
        return request_seed(run_seed, self.step, self.prompt, self.sample, self.turn)


@dataclass(frozen=True)
class Reply:
    """A policy's answer.

    Args:
        text: the answer.
        sample: tokens that ``text`` was decoded from; None for text policies.
        out_of_context: the prompt left no room for an action, so the episode ends.
        plan: of a scripted policy, this action and the planned ones after it; the prompt form
            writes an answer with them.
    """

    text: str
    sample: Sample | None = None
    out_of_context: bool = False
    plan: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The training step whose weights sampled the answer."""
        return self.sample.version if self.sample else 0

    @property
    def ids(self) -> list[int]:
        return list(self.sample.token_ids) if self.sample else []

    @property
    def as_sampled(self) -> dict[str, Any]:
        """The fields of a ``Turn`` that its sample determines, besides the ids."""
        if (sample := self.sample) is None:
            return {"sampled": False, "versions": [0, 0]}
        return {
            "logprobs": list(sample.logprobs),
            "versions": [sample.version if sample.oldest is None else sample.oldest, sample.version],
            "entropies": list(sample.entropies),
            "full_entropies": list(sample.full_entropies),
        }


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    async def act(self, context: TurnContext) -> Reply: ...


@dataclass(frozen=True)
class ExpertPolicy:
    """Follows the game's expert plan, which the catalogue replayed to a win.

    Raises:
        EnvError: the plan ended before the game was won, so this is not the accepted game.
    """

    name: str = "expert"

    async def act(self, context: TurnContext) -> Reply:
        plan = context.task.expert_plan
        if context.acted >= len(plan):
            raise EnvError(
                f"{context.task.key}: the expert plan of {len(plan)} steps ended without a win; "
                "if the environment now makes other games, change its version"
            )
        return Reply(text=plan[context.acted], plan=plan[context.acted :])


SELF = "self"  # the opponent that is the policy itself
RANDOM, FIRST, EXACT = SCRIPTED = ("random", "first", "exact")
START = "start"  # in evaluation, the model with which RL began
PAST, ENDPOINT = SERVED = ("past", "endpoint")  # earlier weights of the run; a chat endpoint


@dataclass(frozen=True)
class RandomPolicy:
    """Draws uniformly from the legal commands; seeded, so that an evaluation can be repeated.

    With another name of ``SCRIPTED`` it takes the first command, or draws from the best ones, which
    the environment knows (``Observation.expert``).
    """

    run_seed: int = 0
    name: str = RANDOM

    async def act(self, context: TurnContext) -> Reply:
        seen = context.observation
        commands = {FIRST: seen.legal[:1], EXACT: seen.expert}.get(self.name, sorted(seen.legal))
        return one_of(commands, context, Random(context.seed(self.run_seed)))


def one_of(commands: Sequence[str], context: TurnContext, draw: Random) -> Reply:
    if not commands:
        raise EnvError(
            f"{context.task.key}: the environment lists no commands to choose from (Observation.legal, expert)"
        )
    text = draw.choice(commands)
    return Reply(text=text, plan=(text,))


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
        entropies, full_entropies: ask the server for these (``turngrid.rollouts.sampling.Sample``).
        weights: file of the weights that sample (``turngrid.rollouts.sampling.SampleRequest``).
    """

    sampler: Sampler
    decode: Callable[[Sequence[int]], str]
    params: SamplingParams
    limit: ContextLimit
    run_seed: int
    name: str = "model"
    entropies: bool = False
    full_entropies: bool = False
    weights: str = ""

    async def act(self, context: TurnContext) -> Reply:
        if not self._fits(context):
            return Reply(text="", out_of_context=True)
        try:
            sample = await self.sampler.sample(self._request(context))
        except RequestTooLong:  # the model's own context may be shorter than the config's limit
            return Reply(text="", out_of_context=True)
        return Reply(self.decode(sample.token_ids).strip(), sample)

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
            seed=context.seed(self.run_seed),
            entropies=self.entropies,
            full_entropies=self.full_entropies,
            weights=self.weights,
        )
