"""One episode as one function: prompt, act, observe, record.

Training (through verl's agent loop), demonstrations and evaluation all play through it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from envs.types import Observation, StepResult
from rollouts.answers import answered, listed, meaning, message
from rollouts.begin import Session, begin
from rollouts.episode import Episode, Outcome, Turn
from rollouts.policy import Action, Policy, TurnContext
from rollouts.prompts import assistant, user
from rollouts.settling import ended, out_of_context, settle, void
from rollouts.spec import EpisodeSpec
from rollouts.stream import TokenStream
from rollouts.summaries import Summaries
from rollouts.window import View

__all__ = ["EpisodeSpec", "Session", "run_episode"]


async def run_episode(policy: Policy, session: Session, spec: EpisodeSpec, stream: TokenStream | None) -> Episode:
    """Play one episode to its end.

    With ``stream=None`` no token ids are kept (text policies; ``rollouts.tokenise`` fills them in).

    Raises:
        EnvError: the environment failed; nothing of the episode may be trained on.
    """
    opening = await session.reset(spec.task, spec.task.seed)
    played = _open(policy, spec, opening, stream)
    episode = played.episode
    observation = await begin(session, spec, episode, played.view, opening)
    for index in range(len(episode.turns), spec.max_turns):
        action = await played.act(observation)
        if action.out_of_context:
            out_of_context(episode)
            break
        result = await _step(session, episode)
        observation = answered(spec.form, episode.turns[-1].parsed, result)
        if ended(episode, result) or void(episode, spec.void):
            break
        if index + 1 < spec.max_turns and not await played.show(observation):
            out_of_context(episode)
            break
    episode.final_observation = observation.text
    await settle(session, episode, spec)
    return episode


def _open(policy: Policy, spec: EpisodeSpec, observation: Observation, stream: TokenStream | None) -> _Played:
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
    return _Played(policy, spec, episode, view, stream)


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


@dataclass
class _Played:
    """The policy's side of an episode: what it is shown, what it answers."""

    policy: Policy
    spec: EpisodeSpec
    episode: Episode
    view: View
    stream: TokenStream | None

    async def act(self, seen: Observation) -> Action:
        """The next turn, recorded; nothing is where there is no room for an action."""
        episode, view, content = self.episode, self.view, message(self.spec.form, seen)
        if view.full:
            view.slide(content)
        start = time.perf_counter()
        action = await self.policy.act(self._context(seen))
        while action.out_of_context and view.slide(content):
            action = await self.policy.act(self._context(seen))
        if not action.out_of_context:
            turn = self._turn(action, seen)
            turn.act_seconds, turn.prompt_ids = time.perf_counter() - start, view.begins_with(len(episode.turns))
            episode.turns.append(turn)
            episode.messages.append(assistant(turn.said))
            episode.policy_version = action.version
        return action

    async def show(self, seen: Observation) -> bool:
        """What is to be answered next, in a new row where the present one is summed up first. False: that cannot be done."""
        content, turns = message(self.spec.form, seen), self.episode.turns
        self.episode.messages.append(user(content))
        if (rules := self.view.to_be_summed_up) is None or self.stream is None:
            turns[-1].context_ids = self.view.show(content)
            return True
        if not rules.left(turns) or not await self._sum_up(rules, seen, self.stream):
            return False
        self.view.begin_with(rules.told(turns[-1].said), content)
        return True

    async def _sum_up(self, rules: Summaries, seen: Observation, stream: TokenStream) -> bool:
        """Ask for a summary; False: there is no room for it."""
        turns = self.episode.turns
        turns[-1].context_ids = self.view.show(rules.ask(seen.text))
        start = time.perf_counter()
        action = await self.policy.act(self._context(seen, rules.length))
        if action.out_of_context:
            return False
        ids = _ids(action) or stream.encode_action(action.text)
        stream.add_sampled(ids)
        seconds = time.perf_counter() - start
        turns.append(Turn(seen.text, action.text, ids, summary=True, act_seconds=seconds, **_as_sampled(action)))
        self.episode.policy_version = action.version
        return True

    def _context(self, seen: Observation, max_tokens: int | None = None) -> TurnContext:
        spec, view, episode = self.spec, self.view, self.episode
        ids = self.stream.ids if self.stream else []
        place = (spec.task, seen, len(episode.turns), spec.sample, spec.step, spec.group)
        return TurnContext(view.messages, ids, *place, len(view.prompt_ids) - episode.prefix_tokens, max_tokens)

    def _turn(self, action: Action, seen: Observation) -> Turn:
        """What was said, and what it means."""
        form, functions, stream = self.spec.form, self.spec.style.functions, self.stream
        said = form.demonstrate(self.episode.goal, action.plan, functions) if action.plan else action.text
        ids = _ids(action)
        if stream:
            ids = ids or stream.encode_action(said)
            stream.add_sampled(ids)
        told = {**meaning(form, said, functions, ids, stream), **_as_sampled(action)}
        return Turn(seen.text, action_ids=ids, admissible=listed(form, seen), **told)


def _ids(action: Action) -> list[int]:
    return list(action.sample.token_ids) if action.sample else []


def _as_sampled(action: Action) -> dict[str, Any]:
    if (sample := action.sample) is None:
        return {"sampled": False, "versions": [0, 0]}
    return {
        "logprobs": list(sample.logprobs),
        "versions": [sample.version if sample.oldest is None else sample.oldest, sample.version],
        "entropies": list(sample.entropies),
        "full_entropies": list(sample.full_entropies),
    }
