"""MT-GRPO: a reward of single turns is compared between the episodes of a group, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from algorithms.pools import compared, pools
from algorithms.slots import in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, OWN_TURNS, Conflict, Requires

REWARDS = ("valid", "parsed", "reward")  # of a turn
OUTCOME = ("reward", "won")  # of an episode
SCOPES = ("own", "first")


@dataclass
class MtGrpo:
    """``A_t += weight * z(turn reward)`` (MT-GRPO, arXiv 2505.11821), ``z = (r - mean) / (std + 1e-6)`` among the members of the group
    that have such a turn; 0 for one alone, or where all are equal. The released code adds 1e-4.

    Attributes:
        turn: whose reward: ``valid`` or ``parsed`` (1 or 0 a turn), or ``reward``, the trained one.
        outcome: ``reward``: the estimator's advantages stay; ``won``: its place is taken by z of having won.
        scope: ``own``: turn t is compared with the others' turn t (assumed for episodes of many turns); ``first``: the first turn
            alone has such a term, as published for two turns. ``own`` is biased where the policy decides when to stop: a reward
            that only a longer episode has is not compared with the episodes that stopped before (docs/methods.md).
        weight: of the turn's term.

    Raises:
        ValueError: ``turn``, ``outcome`` or ``scope`` is something else.
    """

    turn: str = "valid"
    outcome: str = "reward"
    scope: str = "own"
    weight: float = 1.0

    grains: ClassVar[frozenset[str]] = frozenset({"episode"})
    requires: ClassVar[Requires] = frozenset({GROUPS, OWN_TURNS})
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("agent stops",),
            lambda credit, stops: stops and (credit.outcome, credit.scope) == ("won", "own"),
            "turn t is compared with other turns t alone, so what only longer episodes earn is not credited",
            "credit.mt_grpo.outcome=reward",
            warns=True,
        ),
    )

    def __post_init__(self) -> None:
        in_range(weight=self.weight)
        for name, known in (("turn", REWARDS), ("outcome", OUTCOME), ("scope", SCOPES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)} must be one of: {', '.join(known)}")

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        found = advantages.clone()
        if self.outcome == "won":
            found[:] = compared(turns.won.double(), turns.group, std=True).unsqueeze(1)
        at = turns.acting()
        number = turns.acted_before[at]
        term = compared(getattr(turns, self.turn)[at].double(), pools(turns.group[at[0]], number), std=True)
        found[at] += self.weight * (term if self.scope == "own" else term * (number == 0))
        return found
