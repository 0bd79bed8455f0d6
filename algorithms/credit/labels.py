"""Credit by the tag of a turn's thought (RLVMR), or by the role that answers (Dr. MAS)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import FIRST, GROUPS, WHOLE_STEP, Card, Conflict, Method, number, word

ROLE, GROUP, TURN, EPISODE = "role", "group", "turn", "episode"


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
    card = Card(
        paper="2507.22844",
        source="a note",
        result="91.4 seen, 91.8 unseen (7B)",
        ours="the rules ([below](#hiper-and-rlvmr))",
    )

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
    """Mark turns that led to a new state; (E, K) bool. Turn by turn, to hold no (E, K, K)."""
    columns = [
        (turns.state[:, : turn + 1] != turns.after[:, turn : turn + 1]).all(dim=1)
        for turn in range(turns.mask.shape[1])
    ]
    return torch.stack(columns, dim=1) if columns else turns.mask


@dataclass(kw_only=True)
class RoleNorm(Method):
    """``A = (R - mean) / (std + 1e-6)`` over the answers of one role in the group.

    R is the score of the answer's episode. It replaces the advantage. A role with one answer in the
    group, or with equal scores, has A = 0.
    """

    per: str = word(ROLE, GROUP)
    count: str = word(TURN, EPISODE)
    std: bool

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        Conflict(("roles",), lambda _, roles: not roles, "an episode has one role", "roles=[planner,actor]"),
        FIRST,
    )
    card = Card(
        paper="2602.08847",
        source="code",
        needs="`roles=[...]`",
        ours="0 for a role with one answer in the group, where the code has its score",
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        episode, turn = turns.flat()
        role = torch.zeros_like(turn) if turns.role is None or self.per == GROUP else turns.role[episode, turn]
        pool = pools(turns.group[episode], role)
        counted = pools(episode, pool) if self.count == EPISODE else torch.arange(len(pool))
        first = torch.zeros(int(counted.max()) + 1 if len(counted) else 0, dtype=torch.int64)
        first[counted] = torch.arange(len(counted))  # an answer for each of what counts; they are equal
        scores, sizes = turns.score[episode][first], turns.score_size[episode][first]
        result = torch.zeros_like(advantages)
        result[episode, turn] = compared(scores, pool[first], self.std, size=sizes)[counted].to(result.dtype)
        return result
