from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.contexts import Context, RowView
from turngrid.algorithms.credit.infopo import with_gains
from turngrid.algorithms.pools import compared
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import CONTEXTS, GROUPS, LOSES_TURNS, Conflict, Method, excludes, number, without, word

THOUGHT = "Now I can answer."
STEPWISE = ("gigpo", "hgpo", "mt_grpo", "graft", "salt")  # give single turns credit of their own


@dataclass(kw_only=True)
class Igpo(Method):
    """``A_t = gamma^(T-t) A + sum over k from t to T-1 of gamma^(k-t) z(gain_k)``.

    T is the last turn and A the episode's advantage. ``gain_t = p_(t+1) - p_t``, and p_t the
    probability of the right answer after what turn t saw: exp of the mean log-prob of its tokens,
    or with ``kind: log`` that mean. z is over the gains of a group; with ``pool: joint`` over its
    gains and scores together, and A is z of the score.
    """

    gamma: float = number(0, 1)
    kind: str = word("prob", "log")
    pool: str = word("separate", "joint")

    scores = "turns"
    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, CONTEXTS})
    conflicts = (
        Conflict(("answering",), lambda _, action: not action, "no observation of it has a right answer", "env=search"),
        LOSES_TURNS,
        without("before", "it is over the episode's advantage"),
        excludes("credit", *STEPWISE, reason="each gives single turns credit of its own", use="credit=[igpo]"),
    )

    def contexts(self, row: RowView) -> Sequence[Context]:
        if not row.gold:
            return []
        answer, scored = row.submitted(row.gold[0], THOUGHT)
        before = {turn: row.before(turn) for turn, one in enumerate(row.turns) if not one.aside}
        return [Context([*ids, *answer], [False] * len(ids) + scored, turn) for turn, ids in before.items()]

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.scored is not None
        known = turns.mean(turns.scored)
        values = known if self.kind == "log" else known.exp()
        gains = turns.following(values) - values
        there, owner = with_gains(turns, gains)
        credit, base = torch.zeros_like(gains), advantages
        size = turns.following(values.abs())[there] + values.abs()[there]
        if self.pool == "joint":
            every = torch.cat([gains[there], turns.score]), torch.cat([owner, turns.group])
            together = compared(*every, std=True, size=torch.cat([size, turns.score_size]))
            credit[there], outcome = together[: len(owner)], together[len(owner) :]
            base = outcome.unsqueeze(1).expand(turns.mask.shape)
        else:
            credit[there] = compared(gains[there], owner, std=True, size=size)
        last = torch.arange(turns.mask.shape[1]) == turns.last.unsqueeze(1)
        return discounted(torch.where(last, base, credit).where(turns.mask, 0), turns.steps(self.gamma))
