"""Several plays of one game in one context (``rollout_form=attempts``)."""

from dataclasses import replace

from turngrid.envs.types import Observation
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.spec import EpisodeSpec, Session

CUT_OFF = (Outcome.OUT_OF_TURNS, Outcome.OUT_OF_CONTEXT)


async def next_play(
    session: Session, spec: EpisodeSpec, episode: Episode, over: bool
) -> tuple[Observation | None, bool]:
    """Begin another play if the newest one has ended and there is one left.

    Args:
        over: whether the newest play's game is over.

    Returns:
        The first observation of a new play, or None; and whether the episode is over.

    Raises:
        EnvError: the environment failed.
    """
    plays = spec.attempts
    if plays is None or not plays.ended(episode, over):
        return None, over
    if spec.grade_unfinished and episode.outcome in CUT_OFF and len(episode.plays) + 1 < plays.most:
        await grade(session, episode)
    if plays.last(episode):
        return None, True
    episode.plays.append(episode.outcome.value)
    episode.outcome = Outcome.OUT_OF_TURNS
    opening = await session.reset(spec.task, spec.task.seed)
    return replace(opening, text=f"{plays.feedback}\n{opening.text}"), False


async def grade(session: Session, episode: Episode) -> None:
    """Grade the state at the cut; the last turn gets the result."""
    result = await session.finish()
    if result.won:
        episode.outcome = Outcome.WON
    if episode.turns:
        episode.turns[-1].score_delta += result.score_delta
        episode.turns[-1].info |= result.info
