"""Turn an episode into the rows to train on: one, or one a window."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from turngrid.rollouts.episode import Episode, Turn


@dataclass(frozen=True)
class Row:
    """Token lists of one episode or window; all but ``prompt_ids`` have the response's length T.

    Attributes:
        mask: 1 on sampled tokens, except those of thoughts if these are not trained.
        logprobs: the behaviour policy's, in nats; 0 on other tokens.
        rewards: each turn's reward on its last action token, 0 elsewhere.
    """

    prompt_ids: list[int]
    response_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    rewards: list[float]


def to_rows(episode: Episode, reward: str) -> list[Row]:
    """Concatenate the turns; each turn with ``prompt_ids`` begins a row.

    Args:
        reward: name of the chosen reward (``Turn.trained``).

    Raises:
        ValueError: the episode has no turn, or a turn has no tokens.
    """
    if not episode.turns:
        raise ValueError(f"{episode.task}: an episode without a turn gives no row ({episode.outcome})")
    rows = []
    for first, last in turns_of_rows(episode):
        prompt = episode.turns[first].prompt_ids or episode.prompt_ids
        rows.append(_row(episode, prompt, episode.turns[first:last], reward))
    return rows


def turns_of_rows(episode: Episode) -> list[tuple[int, int]]:
    """Return of each row its first turn and the one after its last."""
    starts = [0, *(number for number, turn in enumerate(episode.turns) if number and turn.prompt_ids)]
    return [*pairwise([*starts, len(episode.turns)])]


def _row(episode: Episode, prompt_ids: Sequence[int], turns: Sequence[Turn], reward: str) -> Row:
    row = Row(list(prompt_ids), [], [], [], [])
    for turn in turns:
        if not turn.action_ids:
            raise ValueError(f"{episode.task}: a turn without tokens gives no row")
        actions, context = len(turn.action_ids), len(turn.context_ids)
        muted = episode.muted(turn)
        row.response_ids.extend(turn.action_ids + turn.context_ids)
        row.mask.extend([0] * muted + [1] * (actions - muted) + [0] * context)
        row.logprobs.extend((turn.logprobs or [0.0] * actions) + [0.0] * context)
        row.rewards.extend([0.0] * (actions - 1) + [turn.trained(reward)] + [0.0] * context)
    return row
