"""Reward transforms on a finished episode."""

from collections.abc import Mapping

from turngrid.rewards.reward import one_a_turn
from turngrid.rewards.shaping.view import TRAINED, RewardView, Transform
from turngrid.rollouts.episode import Episode


def shape(episode: Episode, reward: str, transforms: Mapping[str, Transform], plan: int = 0) -> None:
    """Apply the transforms to the chosen reward; record the result and each one's share.

    Args:
        episode: holds every reward that the transforms read.
        reward: name of the chosen reward, which is kept unchanged.
        plan: actions of the game's expert plan.

    Raises:
        ValueError: a transform returns the wrong number of rewards or one that is not finite.
    """
    rewards = {name: [turn.rewards[name] for turn in episode.turns] for name in episode.turns[0].rewards}
    rewards[TRAINED] = list(rewards[reward])
    for name, transform in transforms.items():
        view = RewardView(episode, rewards, episode.step, plan)
        results = transform(view).items()
        rewards = rewards | {
            key: one_a_turn(f"shaping={name}, {key}:", values, len(episode.turns)) for key, values in results
        }
        episode.shaping[name] = sum(rewards[TRAINED]) - sum(view.rewards[TRAINED])
        logged = transform.logged(view) if hasattr(transform, "logged") else {}
        episode.shaping |= {f"{name}/{what}": value for what, value in logged.items()}
    for number, turn in enumerate(episode.turns):
        turn.rewards = {name: values[number] for name, values in rewards.items()}
