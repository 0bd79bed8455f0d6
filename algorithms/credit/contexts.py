"""Credit for what a turn found out, by log-probs in other contexts: InfoPO and IGPO."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from turngrid.algorithms.contexts import Context, RowView
from turngrid.algorithms.pools import compared, deviations
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import CONTEXTS, GROUPS, Conflict, Method, excludes, number, without, word

THOUGHT = "Now I can answer."
STEPWISE = ("gigpo", "hgpo", "mt_grpo", "graft", "salt")  # give single turns credit of their own


@dataclass(kw_only=True)
class Infopo(Method):
    """``A_t += beta gate(s) (g_t - mean(g)) / (std(g) + 1e-6)``; mean and std over a group's gains.

    ``g_t`` is the mean over the tokens of the next answer of ``log p(token) - log p(token | the
    observation after turn t replaced by placeholder)``; 0 credit if there is no next turn.
    ``gate(s) = 1 / (1 + exp(s / temperature))``, s the standard deviation of the group's scores.
    """

    beta: float = number()
    temperature: float = number(1e-9)
    placeholder: str

    scores = "turns"
    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS, CONTEXTS})
    needs = frozenset({"log_probs"})
    conflicts = (excludes("credit", "igpo", reason="both pay a turn for what it found out", use="credit=[infopo]"),)

    logged: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def contexts(self, row: RowView) -> Sequence[Context]:
        return [context for turn in range(len(row.turns)) for context in self._context(row, turn)]

    def _context(self, row: RowView, turn: int) -> list[Context]:
        """Return the turn's answer after a masked observation; none for an episode's first turn."""
        acts = not row.turns[turn].aside
        answer, trained = row.answer(turn)
        masked = row.with_observation(turn, self.placeholder) if acts and row.first + turn and any(trained) else None
        return [Context([*masked, *answer], [False] * len(masked) + trained, turn)] if masked else []

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.log_prob is not None and turns.scored is not None
        known, masked = turns.mean(turns.log_prob), turns.mean(turns.scored)
        gains = turns.following(known - masked)
        sizes = turns.following(known.abs() + masked.abs())
        there, pool = _with_gains(turns, gains)
        gates = torch.sigmoid(-deviations(turns.score, turns.group, size=turns.score_size) / self.temperature)
        result = advantages.clone()
        result[there] += self.beta * gates[pool] * compared(gains[there], pool, std=True, size=sizes[there])
        own = turns.group.unique()
        self.logged = {"gate": gates[own].mean().item() if len(own) else 0.0, "gains": float(there.sum())}
        return result


def _with_gains(turns: Turns, gains: Tensor) -> tuple[Tensor, Tensor]:
    """Mark the acting turns with a next one and a gain, (E, K); return also the group of each."""
    there = turns.acts & (turns.following(turns.acts.double()) > 0) & ~gains.isnan()
    return there, turns.group.unsqueeze(1).expand(turns.mask.shape)[there]


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
        there, owner = _with_gains(turns, gains)
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
