"""Retries of episodes that failed in the environment or lost their model's server.

An episode that keeps failing is not trained on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from turngrid.envs.types import EnvError, GameStuck
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.sampling import SampleLost
from turngrid.rollouts.spec import EpisodeSpec, Session

MAX_RETRIES = 3


class EpisodeFailed(EnvError):
    """Every attempt failed; the message ends with the last cause."""


async def run_with_retries(
    open_session: Callable[[], Awaitable[Session]],
    play: Callable[[Session], Awaitable[Episode]],
    retries: int = MAX_RETRIES,
) -> Episode:
    """Run an episode; on ``EnvError`` or ``SampleLost`` run it again, up to ``retries`` times.

    Seeds depend on the request only, so a retried episode repeats its actions. Hence an episode
    whose action killed two workers (``GameStuck``) is not retried.

    Raises:
        EpisodeFailed: every attempt failed.
    """
    cause: EnvError | SampleLost | None = None
    for attempt in range(retries + 1):
        session = await open_session()
        try:
            episode = await play(session)
        except GameStuck as error:
            raise EpisodeFailed(f"not retried: {error}") from error
        except (EnvError, SampleLost) as error:
            cause = error
            continue
        finally:
            await session.close()
        episode.retries = attempt
        return episode
    raise EpisodeFailed(f"failed {retries + 1} times, last: {cause}") from cause


def failed_episode(spec: EpisodeSpec, policy: str, error: EpisodeFailed) -> Episode:
    """Return the record of a failed episode; an evaluation counts these separately."""
    return replace(spec.record(policy, spec.task.goal), outcome=Outcome.ERROR, error=str(error))
