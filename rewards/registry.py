"""The rewards that ``reward=NAME`` may name. One of your own is one more line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from envs.extensions import load, path_of
from rewards.reward import NoSettings, Reward

REWARDS: dict[str, str] = {
    "sparse": "rewards.scores:Sparse",
    "balanced": "rewards.scores:Balanced",
    "dense": "rewards.scores:Dense",
    "binary": "rewards.repair:Binary",
    "ratio": "rewards.repair:Ratio",
    "pass_ratio_reference": "rewards.repair:PassRatioReference",
    "judge": "rewards.judge:Judge",
}


def reward(name: str, settings: Mapping[str, Any] | None = None) -> Reward:
    """The reward of that name, of another package's entry point or of ``module:Class``; its module is imported only now.

    ``settings`` may hold more than the reward's own: the whole ``turn_reward`` node of a config is welcome.

    Raises:
        ValueError: no such reward; the message names the nearest one.
    """
    cls = reward_class(name)
    given = settings or {}
    names = [field.name for field in fields(settings_class(name)) if field.name in given]
    return cls(cls.Settings(**{key: given[key] for key in names})) if names else cls()


def settings_class(name: str) -> type:
    """What types the reward's own settings. Raises as ``reward`` does."""
    return getattr(reward_class(name), "Settings", NoSettings)


def reward_class(name: str) -> Any:
    """Under the name that it is chosen by, which episodes and figures have too. Raises as ``reward`` does."""
    cls = load(path_of("reward", name, REWARDS))
    return cls if getattr(cls, "name", None) == name else type(cls.__name__, (cls,), {"name": name})
