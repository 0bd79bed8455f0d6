"""RLVMR: rule-based credit by the tag of the thought with which a turn begins."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import WHOLE_STEP, Method, number


@dataclass(kw_only=True)
class Rlvmr(Method):
    """``A_t = alpha A + (1 - alpha) z``, A the episode's advantage, z from the turn's rule reward.

    z is the reward minus the mean over the batch's turns with the same tag, divided by their
    deviation; 0 for a turn without a tag.
    """

    alpha: float = number(0, 1)

    labels = ("planning", "explore", "reflection", "monitor")
    grains = frozenset({"episode"})
    requires = frozenset({WHOLE_STEP})

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.label is not None
        tagged = turns.mask & (turns.label > 0)
        terms = torch.zeros(turns.mask.shape, dtype=torch.float64)
        terms[tagged] = compared(rule_rewards(turns)[tagged], turns.label[tagged], std=True)
        return self.alpha * advantages + (1 - self.alpha) * terms


def rule_rewards(turns: Turns) -> Tensor:
    """Return 1 for each turn that fulfils the rule of its tag, else 0; (E, K) float64.

    Planning: the episode was won. Explore: the action led to a state that was new in the episode.
    Reflection: the action was understood and the one before was not. Monitor has no rule.
    """
    assert turns.label is not None
    failed = torch.nn.functional.pad(turns.mask & ~turns.valid, (1, 0))[:, :-1]
    won = turns.won.unsqueeze(1).expand(turns.mask.shape)
    rules = (won, _new(turns), turns.valid & failed, torch.zeros_like(turns.mask))
    earned = torch.stack([(turns.label == label) & rule for label, rule in enumerate(rules, start=1)])
    return earned.any(dim=0).double()


def _new(turns: Turns) -> Tensor:
    """Mark turns that led to a new state; (E, K) bool.

    One turn at a time avoids an (E, K, K) tensor.
    """
    columns = [
        (turns.state[:, : turn + 1] != turns.after[:, turn : turn + 1]).all(dim=1)
        for turn in range(turns.mask.shape[1])
    ]
    return torch.stack(columns, dim=1) if columns else turns.mask
