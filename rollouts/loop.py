"""One episode as one function: prompt, act, observe, record.

Training (through verl's agent loop), demonstrations and evaluation all use it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from turngrid.envs.types import Observation, StepResult
from turngrid.rewards.reward import one_a_turn
from turngrid.rollouts.attempts import CUT_OFF, grade, next_play
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.followed import as_shown, follow
from turngrid.rollouts.policy import Policy, Reply, TurnContext
from turngrid.rollouts.prompt_forms.form import answered, listed, meaning, messages
from turngrid.rollouts.retrieval import lines_of, retrieved
from turngrid.rollouts.several import run_actions
from turngrid.rollouts.spec import EpisodeSpec, Session, begin
from turngrid.rollouts.stream import TokenStream, assistant, user
from turngrid.rollouts.window import Summaries, View

__all__ = ["EpisodeSpec", "Session", "run_episode"]


async def run_episode(policy: Policy, session: Session, spec: EpisodeSpec, stream: TokenStream | None) -> Episode:
    """Run one episode to its end.

    Args:
        stream: keeps the token ids; None for text policies (``turngrid.rollouts.tokenise`` adds ids
            later).

    Raises:
        EnvError: the environment failed; the episode must not be trained on.
    """
    opening = await session.reset(spec.task, spec.task.seed)
    run = _open(policy, spec, opening, stream)
    episode = run.episode
    observation = await begin(session, spec, episode, run.view, opening)
    for index in range(len(episode.turns), spec.max_turns):
        reply = await run.act(observation)
        if reply.out_of_context:
            out_of_context(episode)
            break
        result = await _step(session, episode, spec)
        observation = answered(spec.form, episode.turns[-1].parsed or episode.followed, result)
        over = ended(episode, result) or void(episode, spec.void)
        again, over = await next_play(session, spec, episode, over)
        if over or spec.actions_left(episode) == 0:
            break
        observation = again or observation
        if index + 1 < spec.max_turns and not await run.show(observation):
            out_of_context(episode)
            break
    episode.final_observation = observation.text
    await settle(session, episode, spec)
    return episode


def _open(policy: Policy, spec: EpisodeSpec, observation: Observation, stream: TokenStream | None) -> _Run:
    goal = observation.goal or spec.task.goal
    turns: list[Turn] = []
    view = View(spec.form, spec.form.head(spec.style, goal, spec.guidance), turns, spec.window, stream)
    _look_up(view, spec, goal, observation, stream)
    view.open(messages(spec.form, observation))
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
        followed=spec.followed is not None,
        gold=list(observation.gold),
    )
    return _Run(policy, spec, episode, view, stream)


def _look_up(view: View, spec: EpisodeSpec, goal: str, seen: Observation, stream: TokenStream | None) -> None:
    """Get the library's text for the turn that answers this observation."""
    if spec.library is None or stream is None:
        return
    found = retrieved(spec.library, spec.task.key, seen.text, spec.step, stream)
    view.retrieve(found, spec.form.head(spec.style, goal, lines_of(spec.guidance, found.text)))


async def _step(session: Session, episode: Episode, spec: EpisodeSpec) -> StepResult:
    if spec.followed:
        return await follow(session, episode, spec, spec.followed)
    turn = episode.turns[-1]
    turn.ran = 0  # so far, for what is left of the limit
    start = time.perf_counter()
    result, turn.ran = await run_actions(session, spec.form, turn, spec.actions_left(episode))
    turn.env_seconds = time.perf_counter() - start
    turn.parsed &= result.parsed
    turn.valid = result.valid
    turn.score_delta = result.score_delta
    turn.info = dict(result.info)
    return result


@dataclass
class _Run:
    """An episode under way, seen from the policy: what it is shown, what it answers."""

    policy: Policy
    spec: EpisodeSpec
    episode: Episode
    view: View
    stream: TokenStream | None

    async def act(self, seen: Observation) -> Reply:
        """Ask the policy and record the turn, unless no room is left for an action."""
        episode, view, shown = self.episode, self.view, messages(self.spec.form, seen)
        if view.full:
            view.slide(shown)
        start = time.perf_counter()
        reply = await self.policy.act(self._context(seen))
        while reply.out_of_context and view.slide(shown):
            reply = await self.policy.act(self._context(seen))
        if not reply.out_of_context:
            turn = self._turn(reply, seen)
            turn.act_seconds, turn.prompt_ids = time.perf_counter() - start, view.begins_with(len(episode.turns))
            episode.turns.append(turn)
            episode.messages.append(assistant(turn.response))
            episode.policy_version = reply.version
        return reply

    async def show(self, seen: Observation) -> bool:
        """Show the next observation, after a summary if one is due.

        Returns False if no further summary is allowed or has room.
        """
        shown, turns = messages(self.spec.form, seen), self.episode.turns
        _look_up(self.view, self.spec, self.episode.goal, seen, self.stream)
        self.episode.messages += shown
        if turns[-1].patch:
            self.view.begin_after([as_shown(turn, self.spec, self.stream) for turn in turns], shown)
            return True
        if (rules := self.view.to_be_summed_up) is None or self.stream is None:
            turns[-1].context_ids = self.view.show(self.view.with_retrieved(shown))
            return True
        if not rules.left(turns) or not await self._sum_up(rules, seen, self.stream):
            return False
        self.view.begin_with(rules.heading(turns[-1].response), shown)
        return True

    async def _sum_up(self, rules: Summaries, seen: Observation, stream: TokenStream) -> bool:
        """Ask the policy for a summary; return False if there is no room for it."""
        turns = self.episode.turns
        turns[-1].context_ids = self.view.show([user(rules.ask(seen.text))])
        start = time.perf_counter()
        reply = await self.policy.act(self._context(seen, rules.length))
        if reply.out_of_context:
            return False
        ids = _ids(reply) or stream.encode_action(reply.text)
        stream.add_sampled(ids)
        seconds = time.perf_counter() - start
        turns.append(Turn(seen.text, reply.text, ids, summary=True, act_seconds=seconds, **_as_sampled(reply)))
        self.episode.policy_version = reply.version
        return True

    def _context(self, seen: Observation, max_tokens: int | None = None) -> TurnContext:
        spec, view, episode = self.spec, self.view, self.episode
        ids = self.stream.ids if self.stream else []
        identity = (spec.task, seen, len(episode.turns), spec.sample, spec.step, spec.group)
        prompt_ids = episode.prompt_ids if episode.followed else view.prompt_ids
        prompt_length = len(prompt_ids) - episode.prefix_tokens
        return TurnContext(view.messages, ids, *identity, prompt_length, max_tokens, episode.actions_run)

    def _turn(self, reply: Reply, seen: Observation) -> Turn:
        """Return the record of the policy's answer."""
        form, functions, stream = self.spec.form, self.spec.style.functions, self.stream
        goal = self.episode.goal
        answer = form.demonstrate(goal, form.packed(reply.plan), functions) if reply.plan else reply.text
        ids = _ids(reply)
        if stream:
            ids = ids or stream.encode_action(answer)
            stream.add_sampled(ids)
        fields = {**meaning(form, answer, functions, ids, stream), **_as_sampled(reply)}
        fields["attempt"] = len(self.episode.plays)
        found = self.view.retrieved
        fields |= {"retrieved": found.text, "retrieved_tokens": found.tokens * self.view.fresh}
        return Turn(seen.text, action_ids=ids, admissible=listed(form, seen), results=list(seen.results), **fields)


def _ids(reply: Reply) -> list[int]:
    return list(reply.sample.token_ids) if reply.sample else []


def _as_sampled(reply: Reply) -> dict[str, Any]:
    if (sample := reply.sample) is None:
        return {"sampled": False, "versions": [0, 0]}
    return {
        "logprobs": list(sample.logprobs),
        "versions": [sample.version if sample.oldest is None else sample.oldest, sample.version],
        "entropies": list(sample.entropies),
        "full_entropies": list(sample.full_entropies),
    }


def ended(episode: Episode, result: StepResult) -> bool:
    """Record the outcome of a game that is over, and return whether it is.

    ``terminated`` alone never counts as success.
    """
    if result.won:
        episode.outcome = Outcome.WON
    elif result.lost or result.terminated:
        episode.outcome = Outcome.LOST
    return result.over


def void(episode: Episode, kind: str) -> bool:
    """Return whether the newest turn ends the episode as lost (``EpisodeSpec.void``)."""
    turn = episode.turns[-1]
    if not kind or (turn.parsed and (turn.valid or kind == "unparsed")):
        return False
    episode.outcome = Outcome.LOST
    return True


def out_of_context(episode: Episode) -> None:
    """End the row at the last action: drop an unused summary and the context that had no room."""
    episode.outcome = Outcome.OUT_OF_CONTEXT
    if episode.turns and episode.turns[-1].summary:
        episode.turns.pop()
    if episode.turns:
        episode.turns[-1].context_ids = []


async def settle(session: Session, episode: Episode, spec: EpisodeSpec) -> None:
    """Grade an episode that was cut off, if the environment does that, then score and reward it.

    Raises:
        EnvError: the environment failed.
    """
    oldest, newest = episode.versions()
    if oldest == newest:  # recorded by turn only if they differ
        for turn in episode.turns:
            turn.versions = []
    if spec.grade_unfinished and episode.outcome in CUT_OFF:
        await grade(session, episode)
    newest = episode.turns[-1].attempt if episode.turns else 0
    if spec.attempts and newest == len(episode.plays):
        episode.plays.append(episode.outcome.value)
    if spec.task.max_score > 0:
        earned = sum(turn.score_delta for turn in [*episode.prefix, *episode.turns] if turn.attempt == newest)
        episode.score = min(1.0, max(0.0, earned / spec.task.max_score))  # some games end below 0
    await _reward(episode, spec)


async def _reward(episode: Episode, spec: EpisodeSpec) -> None:
    chosen = {spec.reward.name: spec.reward} if spec.reward else {}
    turns = episode.played_turns
    for name, reward in {**spec.named, **chosen}.items():
        arguments = (turns, episode.won, spec.task.max_score)
        if getattr(reward, "blocking", False):
            values = await asyncio.to_thread(reward.turn_rewards, *arguments)
        else:
            values = reward.turn_rewards(*arguments)
        for turn, value in zip(turns, one_a_turn(f"reward={name}", values, len(turns)), strict=True):
            turn.rewards[name] = value
        for turn in episode.turns:
            turn.rewards.setdefault(name, 0.0)  # summaries earn nothing
