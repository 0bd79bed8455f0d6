"""One episode as one function: prompt, act, observe, record.

Training (through verl's agent loop), demonstrations and evaluation all play through it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

from envs.types import Observation, StepResult, TaskRef
from rollouts.episode import Episode, Outcome, Turn
from rollouts.policy import Action, Policy, TurnContext
from rollouts.prompts import Message, PromptStyle, assistant, first_message, next_message, user
from rollouts.stream import TokenStream

CUT_OFF = (Outcome.OUT_OF_TURNS, Outcome.OUT_OF_CONTEXT)


class Session(Protocol):
    """One game being played somewhere (``envs.pool``)."""

    async def reset(self, task: TaskRef, seed: int) -> Observation: ...

    async def step(self, action: str) -> StepResult: ...

    async def finish(self) -> StepResult: ...


class TurnReward(Protocol):
    name: str

    def turn_rewards(self, turns: list[Turn], won: bool, max_score: float) -> list[float]: ...


@dataclass(frozen=True)
class EpisodePlan:
    """Which game is played, for how long, and which of several samples this is.

    ``prompt`` names the group of samples: the game's key where it is played by one group only.
    ``grade_unfinished``: the world grades an episode that was cut off (``World.grades_unfinished``).
    """

    task: TaskRef
    style: PromptStyle
    max_turns: int
    reward: TurnReward | None = None
    sample: int = 0
    step: int = 0
    prompt: str = ""
    grade_unfinished: bool = False


async def run_episode(policy: Policy, session: Session, plan: EpisodePlan, stream: TokenStream | None) -> Episode:
    """Play one episode to its end.

    With ``stream=None`` no token ids are kept (text players; ``rollouts.tokenise`` fills them in).

    Raises:
        EnvError: the world failed; nothing of the episode may be trained on.
    """
    observation = await session.reset(plan.task, plan.task.seed)
    episode = _open(policy, plan, observation, stream)
    for index in range(plan.max_turns):
        action = await _act(policy, episode, plan, observation, stream, index)
        if action.out_of_context:
            episode.outcome = Outcome.OUT_OF_CONTEXT
            break
        result = await _step(session, episode, action)
        observation = result.observation
        if _ended(episode, result):
            break
        if index + 1 < plan.max_turns:
            _show(episode, observation, stream)
    episode.final_observation = observation.text
    if plan.grade_unfinished and episode.outcome in CUT_OFF:
        await _grade(session, episode)
    await _reward(episode, plan)
    return episode


def _open(policy: Policy, plan: EpisodePlan, observation: Observation, stream: TokenStream | None) -> Episode:
    goal = observation.goal or plan.task.goal
    messages = [user(first_message(plan.style, goal, observation.text))]
    return Episode(
        task=plan.task.key,
        seed=plan.task.seed,
        split=plan.task.split,
        goal=goal,
        messages=messages,
        prompt_ids=stream.start(messages) if stream else [],
        turns=[],
        outcome=Outcome.OUT_OF_TURNS,
        sample=plan.sample,
        step=plan.step,
        policy=policy.name,
    )


async def _act(
    policy: Policy, episode: Episode, plan: EpisodePlan, seen: Observation, stream: TokenStream | None, index: int
) -> Action:
    ids = stream.ids if stream else []
    prompt = plan.prompt or plan.task.key
    context = TurnContext(episode.messages, ids, plan.task, seen, index, plan.sample, plan.step, prompt)
    start = time.perf_counter()
    action = await policy.act(context)
    if not action.out_of_context:
        episode.turns.append(_turn(action, seen, stream, time.perf_counter() - start))
        episode.messages.append(assistant(action.text))
        episode.policy_version = action.version
    return action


def _turn(action: Action, seen: Observation, stream: TokenStream | None, seconds: float) -> Turn:
    sampled = action.token_ids is not None
    ids = list(action.token_ids or ())
    if stream:
        ids = ids or stream.encode_action(action.text)
        stream.add_sampled(ids)
    return Turn(
        observation=seen.text,
        action=action.text,
        action_ids=ids,
        logprobs=list(action.logprobs or ()),
        sampled=sampled,
        act_seconds=seconds,
    )


async def _step(session: Session, episode: Episode, action: Action) -> StepResult:
    turn = episode.turns[-1]
    start = time.perf_counter()
    result = await session.step(action.text)
    turn.env_seconds = time.perf_counter() - start
    turn.valid = result.valid
    turn.score_delta = result.score_delta
    turn.info = dict(result.info)
    return result


async def _grade(session: Session, episode: Episode) -> None:
    """What stands when the turns or the context are used up counts: it goes to the last turn."""
    result = await session.finish()
    if result.won:
        episode.outcome = Outcome.WON
    if episode.turns:
        episode.turns[-1].score_delta += result.score_delta
        episode.turns[-1].info |= result.info


def _ended(episode: Episode, result: StepResult) -> bool:
    """A game that is over was won, or it was not; ``terminated`` alone never counts as success."""
    if result.won:
        episode.outcome = Outcome.WON
    elif result.lost or result.terminated:
        episode.outcome = Outcome.LOST
    return result.won or result.lost or result.terminated or result.truncated


def _show(episode: Episode, observation: Observation, stream: TokenStream | None) -> None:
    message: Message = user(next_message(observation.text))
    episode.messages.append(message)
    if stream:
        episode.turns[-1].context_ids = stream.add_context([message])


async def _reward(episode: Episode, plan: EpisodePlan) -> None:
    if plan.reward is None:
        return
    asked = (episode.turns, episode.won, plan.task.max_score)
    if getattr(plan.reward, "blocking", False):
        values = await asyncio.to_thread(plan.reward.turn_rewards, *asked)
    else:
        values = plan.reward.turn_rewards(*asked)
    for turn, value in zip(episode.turns, values, strict=True):
        turn.rewards[plan.reward.name] = value
