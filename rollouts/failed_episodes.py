"""An episode that fails in the environment, or loses its model's server, is played again on a fresh game; one that
keeps failing is not trained on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from envs.types import EnvError, GameStuck
from rollouts.episode import Episode, Outcome
from rollouts.loop import EpisodeSpec, Session
from rollouts.sampling import SampleLost

MAX_RETRIES = 3


class OpenSession(Session, Protocol):
    """A session that is handed back when its episode has ended."""

    async def close(self) -> None: ...


class EpisodeFailed(EnvError):
    """Environment or server failed at every try; the message ends with the last cause."""


async def run_with_retries(
    open_session: Callable[[], Awaitable[OpenSession]],
    play: Callable[[Session], Awaitable[Episode]],
    retries: int = MAX_RETRIES,
) -> Episode:
    """Play; on ``EnvError`` and ``SampleLost`` again, up to ``retries`` more times. Requests are seeded by what they are for, so a
    retried episode repeats the same actions; hence one whose action brought down two workers is given up at once.

    Raises:
        EpisodeFailed: no try came to an end.
    """
    cause: EnvError | SampleLost | None = None
    for attempt in range(retries + 1):
        session = await open_session()
        try:
            episode = await play(session)
        except GameStuck as error:
            raise EpisodeFailed(f"not tried again: {error}") from error
        except (EnvError, SampleLost) as error:
            cause = error
            continue
        finally:
            await session.close()
        episode.retries = attempt
        return episode
    raise EpisodeFailed(f"failed {retries + 1} times, last: {cause}") from cause


def failed_episode(spec: EpisodeSpec, policy: str, error: EpisodeFailed) -> Episode:
    """The record of an episode that never came to an end: in an evaluation it is shown and counted apart."""
    task = spec.task
    return Episode(
        task=task.key,
        seed=task.seed,
        split=task.split,
        goal=task.goal,
        messages=[],
        prompt_ids=[],
        turns=[],
        outcome=Outcome.ERROR,
        sample=spec.sample,
        step=spec.step,
        policy=policy,
        error=str(error),
    )
