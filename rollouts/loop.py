"""One episode as one function: prompt, act, observe, record.

Training (through verl's agent loop), demonstrations and evaluation all use it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from turngrid.envs.types import EnvError, Observation, StepResult, TaskRef
from turngrid.rollouts.ending import ended, next_play, out_of_context, settle, share_out, void, without_turns
from turngrid.rollouts.episode import SUMMARY, Episode, Turn
from turngrid.rollouts.followed import as_shown, follow
from turngrid.rollouts.policy import SELF, Policy, RandomPolicy, Reply, TurnContext
from turngrid.rollouts.prompt_forms.form import answered, listed, meaning, messages
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.retrieval import lines_of, retrieved
from turngrid.rollouts.roles import ACCEPT, ENVIRONMENT, Roles
from turngrid.rollouts.several import run_actions
from turngrid.rollouts.spec import EpisodeSpec, Session, begin
from turngrid.rollouts.stream import TokenStream, assistant, user
from turngrid.rollouts.window import Summaries, View

SUMMED_UP: dict[str, Any] = {"aside": True, "role": SUMMARY}
__all__ = ["EpisodeSpec", "Session", "run_episode", "run_match"]


async def run_episode(
    policy: Policy,
    session: Session,
    spec: EpisodeSpec,
    stream: TokenStream | None,
    other: TokenStream | None = None,
    seed: int = 0,
    opponent: Policy | None = None,
) -> Episode:
    """Run one episode to its end.

    In a game of two seats, ``spec.opponent`` takes the other seat. If that is the policy itself,
    the episode has the other seat's view among its ``sides``.

    Args:
        stream: keeps the token ids; None for text policies (``tokenise`` adds ids later).
        other: likewise, for the other seat.
        seed: the run's, for a scripted opponent.
        opponent: the other seat's policy, if it is neither the policy itself nor scripted.

    Raises:
        EnvError: the environment failed; the episode must not be trained on.
    """
    sides, itself = {spec.seat: Side(policy, spec, stream)}, spec.opponent == SELF
    if spec.opponent:
        opposite = replace(spec, seat=str(1 - int(spec.seat)))  # seats are "0" and "1"
        scripted = opponent or RandomPolicy(seed, spec.opponent)
        sides[opposite.seat] = Side(policy if itself else scripted, opposite, other)
    episodes = await run_match(sides, session)
    first, *others = [episode for episode in episodes.values() if episode.turns] or episodes.values()
    if itself and spec.both:
        first.sides = others
        return first
    if spec.seat in episodes:
        return episodes[spec.seat]
    return first if itself else without_turns(spec.seat, policy.name, first)


@dataclass(frozen=True)
class Side:
    """Policy of a seat; ``stream`` as in ``run_episode``."""

    policy: Policy
    spec: EpisodeSpec
    stream: TokenStream | None


async def run_match(sides: Mapping[str, Side], session: Session) -> dict[str, Episode]:
    """Run one game, in which each observation names the seat that answers it.

    An episode is one seat's view: its own prompt, turns and outcome. It begins with the seat's
    first observation, so a seat that never had to answer has none. If a seat runs out of turns or
    of context, the match ends.

    Raises:
        EnvError: the environment failed, or no side has the seat.
    """
    task = next(iter(sides.values())).spec.task
    observation, runs, over = await session.reset(task, task.seed), dict[str, _Run](), False
    while not over and ((run := runs.get(observation.seat)) is None or run.left > 0):
        if run is None:
            run = runs[observation.seat] = _open(_side(sides, task, observation.seat), observation)
            observation = await begin(session, run.spec, run.episode, run.view, observation)
            run.left = run.spec.max_turns - len(run.episode.turns)
        elif not await run.show(observation):
            out_of_context(run.episode)
            break
        observation, over = await _advance(session, run, runs, observation)
    for run in runs.values():
        run.episode.final_observation = observation.text
        await settle(session, run.episode, run.spec)
    return {seat: run.episode for seat, run in runs.items()}


async def _advance(session: Session, run: _Run, runs: dict[str, _Run], seen: Observation) -> tuple[Observation, bool]:
    """Run a seat's turn; return the next observation, and whether the match is over."""
    reply = await run.act(seen)
    if reply.out_of_context:
        out_of_context(run.episode)
        return seen, True
    run.left -= 1
    result = await _step(session, run.episode, run.spec)
    following = answered(run.spec.form, run.episode.turns[-1].parsed or run.episode.followed, result)
    share_out({seat: other.episode for seat, other in runs.items()}, result)
    over = ended(run.episode, result) or void(run.episode, run.spec.void)
    again, over = await next_play(session, run.spec, run.episode, over)
    return again or following, over or run.spec.actions_left(run.episode) == 0


def _side(sides: Mapping[str, Side], task: TaskRef, seat: str) -> Side:
    if seat not in sides:
        raise EnvError(f"{task.key}: seat {seat} has to answer, and has no policy; give the episode an opponent")
    return sides[seat]


def _open(side: Side, observation: Observation) -> _Run:
    spec, stream = side.spec, side.stream
    episode = spec.record(side.policy.name, observation.goal or spec.task.goal)
    episode.gold = list(observation.gold)
    view = View(spec.form, spec.form.head(spec.style, episode.goal, spec.guidance), episode.turns, spec.window, stream)
    _look_up(view, spec, episode.goal, observation, stream)
    view.begin_with("", messages(spec.form, observation))
    episode.messages, episode.prompt_ids = list(view.messages), view.prompt_ids
    return _Run(side.policy, spec, episode, view, stream)


def _look_up(view: View, spec: EpisodeSpec, goal: str, seen: Observation, stream: TokenStream | None) -> None:
    """Get the library's text for the turn that answers this observation."""
    if spec.library is None or stream is None:
        return
    passage = retrieved(spec.library, spec.task.key, seen.text, spec.step, stream)
    view.retrieve(passage, spec.form.head(spec.style, goal, lines_of(spec.guidance, passage.text)))


async def _step(session: Session, episode: Episode, spec: EpisodeSpec) -> StepResult:
    if spec.followed:
        return await follow(session, episode, spec, spec.followed)
    turn = episode.turns[-1]
    turn.ran = 0  # actions_left below counts it
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
    left: int = 0  # turns

    async def act(self, seen: Observation) -> Reply:
        """Ask the policy and record the turn, unless no room is left for an action."""
        view, shown = self.view, messages(self.spec.form, seen)
        if self.roles:
            reply = await self._ask_roles(self.roles, seen)
        else:
            if view.full:
                view.slide(shown)
            reply = await self._ask(seen)
            while reply.out_of_context and view.slide(shown):
                reply = await self._ask(seen)
        if not reply.out_of_context:
            self.episode.messages.append(assistant(self.episode.turns[-1].response))
        return reply

    @property
    def roles(self) -> Roles | None:
        return self.spec.roles if self.stream else None

    async def _ask_roles(self, roles: Roles, seen: Observation) -> Reply:
        """Ask one role after the other, until an answer goes to the environment."""
        turns, name = self.episode.turns, roles.opening(self.episode.turns)
        while name not in (ENVIRONMENT, ACCEPT):
            reply = await self._ask_role(roles, name, seen)
            if reply.out_of_context:
                return reply
            name = roles.following(turns)
            turns[-1].aside = name not in (ENVIRONMENT, ACCEPT)
        if name == ACCEPT:
            roles.accept(turns)
        return reply

    async def _ask_role(self, roles: Roles, name: str, seen: Observation) -> Reply:
        """Ask a role; while its prompt has no room, with half as many earlier turns."""
        episode, spec, history = self.episode, self.spec, roles[name].history
        while True:
            self.view.begin(roles.prompt(name, spec.form, spec.style, episode.goal, episode.turns, seen, history))
            episode.prompt_ids = episode.prompt_ids if episode.turns else self.view.prompt_ids
            reply = await self._ask(seen, name)
            if not (reply.out_of_context and history):
                return reply
            history //= 2

    async def _ask(self, seen: Observation, role: str = "") -> Reply:
        """Ask the policy, in a role if there are several, and record its answer."""
        episode, start = self.episode, time.perf_counter()
        reply = await self.policy.act(self._context(seen, self.roles[role].max_tokens if self.roles else None))
        if not reply.out_of_context:
            turn = self._turn(reply, seen, role)
            turn.act_seconds, turn.prompt_ids = time.perf_counter() - start, self.view.begins_with(len(episode.turns))
            episode.turns.append(turn)
            episode.policy_version = reply.version
        return reply

    async def show(self, seen: Observation) -> bool:
        """Show the next observation, after a summary if one is due.

        Returns False if no further summary is allowed or has room.
        """
        shown, turns = messages(self.spec.form, seen), self.episode.turns
        _look_up(self.view, self.spec, self.episode.goal, seen, self.stream)
        self.episode.messages += shown
        if self.roles:  # each answer begins a row
            return True
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
        ids = reply.ids or stream.encode_action(reply.text)
        stream.add_sampled(ids)
        seconds = time.perf_counter() - start
        turns.append(Turn(seen.text, reply.text, ids, act_seconds=seconds, **SUMMED_UP, **reply.as_sampled))
        self.episode.policy_version = reply.version
        return True

    def _context(self, seen: Observation, max_tokens: int | None) -> TurnContext:
        spec, view, episode = self.spec, self.view, self.episode
        prompt_ids = episode.prompt_ids if episode.followed else view.prompt_ids
        return TurnContext(
            messages=view.messages,
            token_ids=self.stream.ids if self.stream else [],
            task=spec.task,
            observation=seen,
            turn=len(episode.turns),
            sample=spec.sample,
            step=spec.step,
            prompt=spec.group,
            prompt_length=len(prompt_ids) - episode.prefix_tokens,
            max_tokens=max_tokens,
            acted=episode.actions_run,
        )

    def _turn(self, reply: Reply, seen: Observation, role: str) -> Turn:
        """Return the record of the policy's answer."""
        form, functions, stream = self.spec.form, self.spec.style.functions, self.stream
        apart = self.spec.style.names_one_action
        if self.roles and not self.roles[role].acts:
            form, apart = PLAIN_FORM, False
        goal = self.episode.goal
        answer = form.demonstrate(goal, form.packed(reply.plan), functions) if reply.plan else reply.text
        ids = reply.ids
        if stream:
            ids = ids or stream.encode_action(answer)
            stream.add_sampled(ids)
        fields = {**meaning(form, answer, functions, ids, stream, apart), **reply.as_sampled}
        fields |= {"attempt": len(self.episode.plays), "role": role}
        passage = self.view.retrieved
        fields |= {"retrieved": passage.text, "retrieved_tokens": passage.tokens * self.view.fresh}
        return Turn(seen.text, action_ids=ids, admissible=listed(form, seen), results=list(seen.results), **fields)
