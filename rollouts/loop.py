"""One episode as one function: prompt, act, observe, record.

Training (through verl's agent loop), demonstrations and evaluation all play through it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from envs.types import Observation, StepResult
from rewards.reward import one_a_turn
from rollouts.answers import listed, meaning, message
from rollouts.begin import Session, begin
from rollouts.episode import Episode, Outcome, Turn
from rollouts.policy import Action, Policy, TurnContext
from rollouts.prompts import assistant, user
from rollouts.spec import EpisodeSpec
from rollouts.stream import TokenStream
from rollouts.summaries import Summaries
from rollouts.window import View

CUT_OFF = (Outcome.OUT_OF_TURNS, Outcome.OUT_OF_CONTEXT)


async def run_episode(policy: Policy, session: Session, spec: EpisodeSpec, stream: TokenStream | None) -> Episode:
    """Play one episode to its end.

    With ``stream=None`` no token ids are kept (text policies; ``rollouts.tokenise`` fills them in).

    Raises:
        EnvError: the environment failed; nothing of the episode may be trained on.
    """
    opening = await session.reset(spec.task, spec.task.seed)
    episode, view = _open(policy, spec, opening, stream)
    observation = await begin(session, spec, episode, view, opening)
    for index in range(len(episode.turns), spec.max_turns):
        action = await _act(policy, episode, spec, observation, view, stream)
        if action.out_of_context:
            _out_of_context(episode)
            break
        result = await _step(session, episode)
        observation = result.observation
        if _ended(episode, result) or _void(episode, spec.void):
            break
        if index + 1 < spec.max_turns and not await _show(policy, episode, spec, observation, view, stream):
            _out_of_context(episode)
            break
    episode.final_observation = observation.text
    _versions(episode)
    if spec.grade_unfinished and episode.outcome in CUT_OFF:
        await _grade(session, episode)
    _score(episode, spec.task.max_score)
    await _reward(episode, spec)
    return episode


def _open(
    policy: Policy, spec: EpisodeSpec, observation: Observation, stream: TokenStream | None
) -> tuple[Episode, View]:
    goal = observation.goal or spec.task.goal
    turns: list[Turn] = []
    view = View(spec.form, spec.form.head(spec.style, goal, spec.guidance), turns, spec.window, stream)
    view.open(message(spec.form, observation))
    episode = Episode(
        task=spec.task.key,
        seed=spec.task.seed,
        split=spec.task.split,
        goal=goal,
        messages=list(view.messages),
        prompt_ids=view.prompt_ids,
        turns=turns,
        outcome=Outcome.OUT_OF_TURNS,
        sample=spec.sample,
        step=spec.step,
        policy=policy.name,
        guidance=spec.guidance,
        trains_thoughts=spec.form.train_thoughts,
    )
    return episode, view


async def _act(
    policy: Policy, episode: Episode, spec: EpisodeSpec, seen: Observation, view: View, stream: TokenStream | None
) -> Action:
    content = message(spec.form, seen)
    if view.full:
        view.slide(content)
    start = time.perf_counter()
    action = await policy.act(_context(episode, spec, seen, view, stream))
    while action.out_of_context and view.slide(content):
        action = await policy.act(_context(episode, spec, seen, view, stream))
    if not action.out_of_context:
        turn = _turn(action, spec, episode.goal, seen, stream)
        turn.act_seconds, turn.prompt_ids = time.perf_counter() - start, view.begins_with(len(episode.turns))
        episode.turns.append(turn)
        episode.messages.append(assistant(turn.said))
        episode.policy_version = action.version
    return action


def _context(
    episode: Episode,
    spec: EpisodeSpec,
    seen: Observation,
    view: View,
    stream: TokenStream | None,
    max_tokens: int | None = None,
) -> TurnContext:
    ids = stream.ids if stream else []
    place = (spec.task, seen, len(episode.turns), spec.sample, spec.step, spec.group)
    return TurnContext(view.messages, ids, *place, len(view.prompt_ids) - episode.prefix_tokens, max_tokens)


def _turn(action: Action, spec: EpisodeSpec, goal: str, seen: Observation, stream: TokenStream | None) -> Turn:
    """What was said, and what it means."""
    sampled = action.token_ids is not None
    functions = spec.style.functions
    said = spec.form.demonstrate(goal, action.plan, functions) if action.plan else action.text
    ids = list(action.token_ids or ())
    if stream:
        ids = ids or stream.encode_action(said)
        stream.add_sampled(ids)
    return Turn(
        observation=seen.text,
        action_ids=ids,
        **_as_sampled(action),
        sampled=sampled,
        admissible=listed(spec.form, seen),
        **meaning(spec.form, said, functions, ids, stream),
    )


def _as_sampled(action: Action) -> dict[str, Any]:
    oldest = action.version if action.oldest is None else action.oldest
    return {
        "logprobs": list(action.logprobs or ()),
        "versions": [oldest, action.version],
        "entropies": list(action.entropies),
    }


async def _step(session: Session, episode: Episode) -> StepResult:
    turn = episode.turns[-1]
    start = time.perf_counter()
    result = await session.step(turn.action)
    turn.env_seconds = time.perf_counter() - start
    turn.parsed &= result.parsed
    turn.valid = result.valid
    turn.score_delta = result.score_delta
    turn.info = dict(result.info)
    return result


def _versions(episode: Episode) -> None:
    """Kept by turn only where they differ."""
    oldest, newest = episode.versions()
    if oldest == newest:
        for turn in episode.turns:
            turn.versions = []


async def _grade(session: Session, episode: Episode) -> None:
    """What stands when the turns or the context are used up counts: it goes to the last turn."""
    result = await session.finish()
    if result.won:
        episode.outcome = Outcome.WON
    if episode.turns:
        episode.turns[-1].score_delta += result.score_delta
        episode.turns[-1].info |= result.info


def _out_of_context(episode: Episode) -> None:
    """The row ends with the last action: what came after it is what had no room, or a summary that nothing came of."""
    episode.outcome = Outcome.OUT_OF_CONTEXT
    if episode.turns and episode.turns[-1].summary:
        episode.turns.pop()
    if episode.turns:
        episode.turns[-1].context_ids = []


def _ended(episode: Episode, result: StepResult) -> bool:
    """A game that is over was won, or it was not; ``terminated`` alone never counts as success."""
    if result.won:
        episode.outcome = Outcome.WON
    elif result.lost or result.terminated:
        episode.outcome = Outcome.LOST
    return result.won or result.lost or result.terminated or result.truncated


def _void(episode: Episode, kind: str) -> bool:
    turn = episode.turns[-1]
    if not kind or (turn.parsed and (turn.valid or kind == "unparsed")):
        return False
    episode.outcome = Outcome.LOST
    return True


async def _show(
    policy: Policy, episode: Episode, spec: EpisodeSpec, seen: Observation, view: View, stream: TokenStream | None
) -> bool:
    """What is to be answered next, in a new row where the present one is summed up first. False: that cannot be done."""
    content = message(spec.form, seen)
    episode.messages.append(user(content))
    if (rules := view.to_be_summed_up) is None or stream is None:
        episode.turns[-1].context_ids = view.show(content)
        return True
    if not rules.left(episode.turns) or not await _sum_up(rules, policy, episode, spec, seen, view, stream):
        return False
    view.begin_with(rules.told(episode.turns[-1].said), content)
    return True


async def _sum_up(
    rules: Summaries,
    policy: Policy,
    episode: Episode,
    spec: EpisodeSpec,
    seen: Observation,
    view: View,
    stream: TokenStream,
) -> bool:
    """Ask for a summary; False: there is no room for it."""
    episode.turns[-1].context_ids = view.show(rules.ask(seen.text))
    start = time.perf_counter()
    action = await policy.act(_context(episode, spec, seen, view, stream, rules.length))
    if action.out_of_context:
        return False
    ids = list(action.token_ids or ()) or stream.encode_action(action.text)
    stream.add_sampled(ids)
    seconds = time.perf_counter() - start
    told: dict[str, Any] = {"sampled": action.token_ids is not None, **_as_sampled(action), "act_seconds": seconds}
    episode.turns.append(Turn(seen.text, action.text, ids, summary=True, **told))
    episode.policy_version = action.version
    return True


def _score(episode: Episode, best: float) -> None:
    """Some games can end below 0."""
    if best > 0:
        earned = sum(turn.score_delta for turn in [*episode.prefix, *episode.turns])
        episode.score = min(1.0, max(0.0, earned / best))


async def _reward(episode: Episode, spec: EpisodeSpec) -> None:
    chosen = {spec.reward.name: spec.reward} if spec.reward else {}
    played = episode.played_turns
    for name, reward in {**spec.named, **chosen}.items():
        asked = (played, episode.won, spec.task.max_score)
        if getattr(reward, "blocking", False):
            values = await asyncio.to_thread(reward.turn_rewards, *asked)
        else:
            values = reward.turn_rewards(*asked)
        for turn, value in zip(played, one_a_turn(f"reward={name}", values, len(played)), strict=True):
            turn.rewards[name] = value
        for turn in episode.turns:
            turn.rewards.setdefault(name, 0.0)  # a summary's
