"""The rewards of ``reward=NAME``, and those that methods read. A new one is one more line here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from turngrid.envs.environment import NoSettings
from turngrid.envs.extensions import load, path_of, shipped
from turngrid.rewards.reward import Reward, ScoredTurn

PLAN_SHARE = "plan_share"  # in ``Turn.info``, and by this name among the rewards
REWARDS: dict[str, str] = {
    "sparse": "turngrid.rewards.scores:Sparse",
    "balanced": "turngrid.rewards.scores:Dense",  # its games are made to score at milestones only
    "dense": "turngrid.rewards.scores:Dense",
    "binary": "turngrid.rewards.repair:Binary",
    "ratio": "turngrid.rewards.repair:Ratio",
    "pass_ratio_reference": "turngrid.rewards.repair:PassRatioReference",
    "f1": "turngrid.rewards.scores:F1",
    "zero_sum": "turngrid.rewards.scores:ZeroSum",
    "judge": "turngrid.rewards.repair:Judge",
}


def reward(name: str, settings: Mapping[str, Any] | None = None) -> Reward:
    """Return the reward of a name, an entry point of another package or ``module:Class``.

    Args:
        settings: override those of the reward's YAML; other keys are ignored, so a whole
            ``turn_reward`` node will do.

    Raises:
        ValueError: no such reward; the message names the nearest one.
    """
    cls, settings_cls = reward_class(name), settings_class(name)
    known = {**shipped("reward", name), **(settings or {})}
    given = {field.name: known[field.name] for field in fields(settings_cls) if field.name in known}
    return cls(settings_cls(**given)) if given else cls()


def settings_class(name: str) -> type[Any]:
    return getattr(reward_class(name), "Settings", NoSettings)


def reward_class(name: str) -> Any:
    """Return the reward's class; its ``name`` is the one by which it is chosen."""
    cls = load(path_of("reward", name, REWARDS))
    if getattr(cls, "name", None) == name:
        return cls
    return type(cls.__name__, (cls,), {"name": name, "__module__": cls.__module__})  # errors name that module's line


@dataclass
class Flag:
    """1 for a turn whose attribute ``name`` is true, else 0."""

    name: str

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        return [float(getattr(turn, self.name)) for turn in turns]


@dataclass
class PlanShare:
    """1 / L for a turn whose action is the expert's, L the plan's actions, if the plan judges turns
    (``rollout_form=semi_online``); else 0."""

    name: str = PLAN_SHARE

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        return [float(turn.info.get(PLAN_SHARE, 0.0)) for turn in turns]


# Rewards that methods may read besides: a win, an understood action, a readable one, the expert's
NAMED: dict[str, Reward] = {
    "outcome": reward("sparse"),
    "valid": Flag("valid"),
    "parsed": Flag("parsed"),
    PLAN_SHARE: PlanShare(),
}


def named_reward(name: str) -> Reward:
    """Return a reward that a method reads."""
    if name in NAMED:
        return NAMED[name]
    path_of("reward", name, {**dict.fromkeys(NAMED, ""), **REWARDS})
    return reward(name)
