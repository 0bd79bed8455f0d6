"""What stands before a policy's first turn: replayed actions, as part of its prompt, or turns that another sample began with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from envs.types import EnvError, Observation, StepResult, TaskRef
from rollouts.answers import answered, listed, meaning, message
from rollouts.episode import Episode, Turn
from rollouts.prompt_forms.form import PromptForm
from rollouts.spec import Branch, EpisodeSpec
from rollouts.window import View


class Session(Protocol):
    """One game being played somewhere (``envs.pool``)."""

    async def reset(self, task: TaskRef, seed: int) -> Observation: ...

    async def step(self, action: str) -> StepResult: ...

    async def finish(self) -> StepResult: ...


async def begin(session: Session, spec: EpisodeSpec, episode: Episode, view: View, opening: Observation) -> Observation:
    """Bring the game, the episode and what is shown of it to the policy's first turn; what it is to answer there.

    Where a game does not answer the turns before a branch as it did, the episode is played from its start.

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
            raise EnvError(f"{episode.task}: the game ended at action {count} that were replayed: {action}")
        told: dict[str, Any] = {"valid": result.valid, "score_delta": result.score_delta, "info": dict(result.info)}
        telling = spec.form.demonstrate(episode.goal, spec.prefix[number:], spec.style.functions)
        said = spec.said[number] if spec.said else telling
        told |= meaning(spec.form, said, spec.style.functions) | {"admissible": listed(spec.form, seen)}
        turn = Turn(seen.text, sampled=False, **told)
        seen = answered(spec.form, turn.parsed and result.parsed, result)
        view.replay(turn, message(spec.form, seen))
        episode.prefix.append(turn)
        episode.messages += view.messages[-2:]
    episode.prompt_ids = view.prompt_ids
    return seen


async def _retraced(session: Session, form: PromptForm, branch: Branch, seen: Observation) -> Observation | None:
    """What is seen after the branch's turns; None where the game does not answer as it did."""
    for turn in branch.turns:
        if seen.text != turn.observation:
            return None
        result = await session.step(turn.action)
        if result.over:
            return None
        seen = answered(form, turn.parsed, result)
    return seen if seen.text == branch.seen else None


def _take_over(form: PromptForm, branch: Branch, seen: Observation, episode: Episode, view: View) -> None:
    """Copies of the turns, without what they cost and earned there; the window slides where it did there."""
    messages = [*(form.message(turn.observation, turn.admissible) for turn in branch.turns), message(form, seen)]
    for turn, shown, content in zip(branch.turns, messages[:-1], messages[1:], strict=True):
        while turn.prompt_ids and view.prompt_ids != turn.prompt_ids and view.slide(shown):
            pass
        taken = replace(turn, shared=True, rewards={}, info=dict(turn.info), act_seconds=0.0, env_seconds=0.0)
        episode.turns.append(taken)
        taken.context_ids = view.take(taken, content)
        episode.messages += view.messages[-2:]
