"""Declarations of a method: ranges of its settings, requirements and conflicts.

``turngrid.config.checks.methods`` reads the declarations and refuses a run before anything starts.
A declaration is an attribute of the class, or a property if it depends on the settings.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

GROUPS = "groups"  # two or more samples a prompt, which are compared
WHOLE_STEP = "whole step"  # all episodes of a step are compared
SYNCHRONOUS = "synchronous steps"  # it counts steps of a synchronous trainer
OWN_TURNS = "own turns"  # turns of a group are compared, so none is replayed or shared
OWN_ROWS = "own rows"  # an episode has one row, which can replace another
GAMES_AGAIN = "games again"  # a game is sampled in several steps
CONTEXTS = "contexts"  # the policy scores other sequences by the weights that sampled
Names = frozenset[str]


@dataclass(frozen=True)
class Conflict:
    """Settings that a method cannot be combined with.

    ``reason`` and ``use`` may contain the method's settings (``{method.share}``) and the keys'
    values (``{0}``), ``use`` also the suggestion of the first fact (``{fact}``).

    Attributes:
        keys: config keys, slots, or facts about a run (``turngrid.config.checks.facts``). A slot's
            value is the names chosen there.
        when: called with the method and the keys' values; returns whether they conflict.
        reason: the reason, which follows ``SLOT=METHOD and KEY=VALUE:``.
        use: what to type instead; by default the suggestion of the first fact.
        warns: if True, the run starts with a warning.
    """

    keys: tuple[str, ...]
    when: Callable[..., bool]
    reason: str
    use: str = "{fact}"
    warns: bool = False


def without(key: str, reason: str, use: str = "{fact}") -> Conflict:
    """Return the conflict with a fact or setting that holds, or with any method of a slot."""
    return Conflict((key,), lambda _, holds: bool(holds), reason, use)


def excludes(slot: str, *names: str, reason: str, use: str = "", warns: bool = False) -> Conflict:
    """Return the conflict with these methods of a slot."""
    return Conflict((slot,), lambda _, chosen: bool({*chosen} & {*names}), reason, use or f"{slot}=[]", warns)


def only(key: str, *values: Any, reason: str, use: str = "", warns: bool = False) -> Conflict:
    """Return the conflict with all other values of a key."""
    return Conflict((key,), lambda _, value: value not in values, reason, use or f"{key}={values[0]}", warns)


def fixed(key: str, reason: str) -> Conflict:
    """Return the conflict with a schedule of one setting."""
    return Conflict((key,), lambda _, value: isinstance(value, Mapping), reason, "one number")


FIRST = without("before", "it replaces what acts before it")
LOSES_KL = Conflict(  # of a method that replaces the estimator's advantages
    ("algorithm.use_kl_in_reward",),
    lambda method, on: on and not getattr(method, "base", False),
    "the advantages that it replaces had the KL",
    "algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true",
    warns=True,
)

LOSES_TURNS = Conflict(  # of a method that reads an episode's other turns
    ("algorithm.rollout_correction.rollout_rs", "several rows"),
    lambda _, rejected, rows: "token" in str(rejected) or bool(rejected and rows),
    "it reads the advantages of other turns, and some would be dropped",
    "algorithm.rollout_correction.rollout_rs=null",
)


def in_range(name: str, value: float, low: float = -math.inf, high: float = math.inf) -> None:
    """Check a numeric setting.

    Raises:
        ValueError: the setting is not in [low, high], or is no finite number.
    """
    if not low <= value <= high or math.isinf(value):
        raise ValueError(f"{name}={value} must lie in [{low:g}, {high:g}]")


def number(low: float = -math.inf, high: float = math.inf) -> Any:
    """Return a field for a finite number from ``low`` to ``high``, both included, or None."""
    return field(metadata={"range": (low, high)})


def word(*choices: str | None) -> Any:
    """Return a field that holds one of some words."""
    return field(metadata={"choices": choices})


@dataclass
class Method:
    """Base class of methods; fields are settings.

    ``conf/SLOT/NAME.yaml`` has their values, and at its head the source and our own choices.

    Attributes:
        requires: names of this module.
        needs: inputs from models: "entropy", "values" (of a critic), "teacher", or "log_probs" (the
            trainer's old ones, not the rollout server's).
        reads: rewards that it reads in ``turns.named``, or in a reward transform's view.
        labels: labels of the prompt form that it needs.
        heads: heads of the critic.
        of_length: settings that follow from the run's number of steps if they are null.

    Raises:
        ValueError: a setting is outside its field's range or choices.
    """

    requires: ClassVar[Names] = frozenset()
    conflicts: ClassVar[tuple[Conflict, ...]] = ()
    needs: ClassVar[Names] = frozenset()
    reads: ClassVar[Names] = frozenset()
    labels: ClassVar[tuple[str, ...]] = ()
    heads: ClassVar[int] = 1
    of_length: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for item in fields(self):
            value, choices = getattr(self, item.name), item.metadata.get("choices")
            if choices and value not in choices:
                raise ValueError(f"{item.name}={value} must be one of: {', '.join(map(str, choices))}")
            if "range" in item.metadata and value is not None:
                in_range(item.name, value, *item.metadata["range"])
