"""From an episode to the row that the trainer learns from."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.episode import Episode


@dataclass(frozen=True)
class Row:
    """Token lists of one episode, all of the response's length T but the prompt.

    ``mask`` is 1 on sampled tokens; ``logprobs`` (nats) are the behaviour policy's, 0 elsewhere; ``rewards`` holds
    each turn's reward on that turn's last action token, 0 elsewhere.
    """

    prompt_ids: list[int]
    response_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    rewards: list[float]


def to_row(episode: Episode, reward: str) -> Row:
    """Lay the turns end to end; ``reward`` names which of the turns' rewards is trained.

    Raises:
        ValueError: no turn was played, or a turn has no tokens, so there is nothing to learn from.
    """
    if not episode.turns:
        raise ValueError(f"{episode.task}: an episode without a turn gives no row ({episode.outcome})")
    row = Row(list(episode.prompt_ids), [], [], [], [])
    for turn in episode.turns:
        if not turn.action_ids:
            raise ValueError(f"{episode.task}: a turn without tokens gives no row")
        actions, context = len(turn.action_ids), len(turn.context_ids)
        row.response_ids.extend(turn.action_ids + turn.context_ids)
        row.mask.extend([1] * actions + [0] * context)
        row.logprobs.extend((turn.logprobs or [0.0] * actions) + [0.0] * context)
        row.rewards.extend([0.0] * (actions - 1) + [turn.rewards.get(reward, 0.0)] + [0.0] * context)
    return row
