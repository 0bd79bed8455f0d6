"""Several actions of one answer (``prompt.max_actions``), as one step of the episode."""

from dataclasses import replace
from typing import Protocol

from turngrid.envs.types import StepResult
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.prompt_forms.form import PromptForm

NOT_RUN = "(the other actions did not run)"


class Steps(Protocol):
    async def step(self, action: str) -> StepResult: ...


async def run_actions(session: Steps, form: PromptForm, turn: Turn, most: int | None = None) -> tuple[StepResult, int]:
    """Run the actions of an answer in order, at most ``most``.

    It stops at the end of the game and, with ``stop_at_invalid``, at the first action that the
    environment does not understand.

    Returns:
        The result of all actions together, and how many ran.
    """
    actions, done = turn.actions or [turn.action], list[StepResult]()
    for action in actions[:most]:
        done.append(await session.step(action))
        if done[-1].over or (form.stop_at_invalid and not done[-1].valid):
            break
    texts = [f"[{number}] {step.observation.text}" for number, step in enumerate(done, 1)]
    result = StepResult.together(done, "\n".join(texts)) if len(actions) > 1 else done[0]
    if result.over or not (turn.dropped or len(done) < len(actions)):
        return result, len(done)
    many = f"{NOT_RUN[:-1]}: an answer may have {form.max_actions})"
    return _with_note(result, many if turn.dropped else NOT_RUN, valid=result.valid and not turn.dropped), len(done)


def _with_note(result: StepResult, note: str, valid: bool) -> StepResult:
    seen = result.observation
    results = (*seen.results[:-1], f"{seen.results[-1]}\n{note}") if seen.results else ()
    return replace(result, observation=replace(seen, text=f"{seen.text}\n{note}", results=results), valid=valid)
