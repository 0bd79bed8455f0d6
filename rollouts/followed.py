"""Turns that the game's expert plan judges and steps (``rollout_form=semi_online``)."""

import time
from dataclasses import replace

from turngrid.envs.types import StepResult
from turngrid.rewards.registry import PLAN_SHARE
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.prompt_forms.form import meaning
from turngrid.rollouts.spec import EpisodeSpec, Followed, Session
from turngrid.rollouts.stream import TokenStream


async def follow(session: Session, episode: Episode, spec: EpisodeSpec, plan: Followed) -> StepResult:
    """Run the expert's action, and record in the newest turn whether the policy's is the same.

    The episode is lost if the plan does not go on, or if it wins only with patches.
    """
    start, index, turn = time.perf_counter(), len(episode.turns) - 1, episode.turns[-1]
    same = turn.parsed and turn.action.strip() == plan.actions[index].strip()
    tried = await session.step(turn.action) if plan.same_after and turn.parsed and not same else None
    if tried:
        await session.reset(spec.task, spec.task.seed)
        for action in plan.actions[:index]:
            await session.step(action)
    result = await session.step(plan.actions[index])
    same |= tried is not None and (tried.observation.text, tried.won) == (result.observation.text, result.won)
    turn.valid, turn.ran = (tried or result).valid if tried or same else turn.parsed, int(same)
    turn.score_delta = result.score_delta * same
    turn.info = {**(result.info if same else {}), PLAN_SHARE: same / len(plan.actions)}
    if not same and not result.over and plan.left(episode.turns):
        turn.patch = spec.form.demonstrate(episode.goal, plan.actions[index:], spec.style.functions)
    turn.env_seconds = time.perf_counter() - start
    won = result.won and all(own.info[PLAN_SHARE] for own in episode.turns)
    return replace(result, won=won, lost=not won and (result.over or not (same or turn.patch)))


def as_shown(turn: Turn, spec: EpisodeSpec, stream: TokenStream | None) -> Turn:
    """Return a turn as the policy sees it later: with the expert's answer, if that replaces it."""
    if not turn.patch:
        return turn
    ids = stream.encode_action(turn.patch) if stream else []
    return replace(turn, action_ids=ids, **meaning(spec.form, turn.patch, spec.style.functions, ids, stream))
