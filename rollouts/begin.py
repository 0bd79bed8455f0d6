"""What precedes a policy's first turn: a replayed prefix, or turns shared with another sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from envs.types import EnvError, Observation, StepResult, TaskRef
from rollouts.episode import Episode, Turn
from rollouts.prompt_forms.form import PromptForm, answered, listed, meaning, message
from rollouts.spec import Branch, EpisodeSpec
from rollouts.window import View


class Session(Protocol):
    """One running game of an environment pool."""

    async def reset(self, task: TaskRef, seed: int) -> Observation: ...

    async def step(self, action: str) -> StepResult: ...

    async def finish(self) -> StepResult: ...


async def begin(session: Session, spec: EpisodeSpec, episode: Episode, view: View, opening: Observation) -> Observation:
    """Replay a prefix or a branch, if ``spec`` has one, and return the policy's first observation.

    If the game does not answer a branch's turns as before, the episode starts at the beginning.

    Raises:
        EnvError: the environment failed, or the game ended before the policy had a turn.
    """
    if spec.prefix:
        return await _after_prefix(session, spec, episode, view, opening)
    if spec.branch is None:
        return opening
    episode.parent = spec.branch.parent
    if (seen := await _retraced(session, spec.form, spec.branch, opening)) is None:
        return await session.reset(spec.task, spec.task.seed)
    _take_over(spec.form, spec.branch, seen, episode, view)
    return seen


async def _after_prefix(
    session: Session, spec: EpisodeSpec, episode: Episode, view: View, seen: Observation
) -> Observation:
    for number, action in enumerate(spec.prefix):
        result = await session.step(action)
        if result.over:
            count = f"{len(episode.prefix) + 1} of the {len(spec.prefix)}"
            raise EnvError(f"{episode.task}: the game ended at replayed action {count}: {action}")
        turn = _replayed(spec, episode, number, seen, result)
        seen = answered(spec.form, turn.parsed and result.parsed, result)
        view.replay(turn, message(spec.form, seen))
        episode.prefix.append(turn)
        episode.messages += view.messages[-2:]
    episode.prompt_ids = view.prompt_ids
    return seen


def _replayed(spec: EpisodeSpec, episode: Episode, number: int, seen: Observation, result: StepResult) -> Turn:
    """Return the record of replayed action ``number``."""
    functions = spec.style.functions
    if spec.answers:
        answer = spec.answers[number]
    else:
        answer = spec.form.demonstrate(episode.goal, spec.prefix[number:], functions)
    return Turn(
        seen.text,
        sampled=False,
        valid=result.valid,
        score_delta=result.score_delta,
        info=dict(result.info),
        admissible=listed(spec.form, seen),
        **meaning(spec.form, answer, functions),
    )


async def _retraced(session: Session, form: PromptForm, branch: Branch, seen: Observation) -> Observation | None:
    """Return the observation after the branch's turns, or None if the game answers differently."""
    for turn in branch.turns:
        if seen.text != turn.observation:
            return None
        result = await session.step(turn.action)
        if result.over:
            return None
        seen = answered(form, turn.parsed, result)
    return seen if seen.text == branch.observation else None


def _take_over(form: PromptForm, branch: Branch, seen: Observation, episode: Episode, view: View) -> None:
    """Append copies of the branch's turns, without their times and rewards.

    The window slides where it slid in the parent.
    """
    messages = [*(form.message(turn.observation, turn.admissible) for turn in branch.turns), message(form, seen)]
    for turn, shown, content in zip(branch.turns, messages[:-1], messages[1:], strict=True):
        while turn.prompt_ids and view.prompt_ids != turn.prompt_ids and view.slide(shown):
            pass
        taken = replace(turn, shared=True, rewards={}, info=dict(turn.info), act_seconds=0.0, env_seconds=0.0)
        episode.turns.append(taken)
        taken.context_ids = view.take(taken, content)
        episode.messages += view.messages[-2:]
