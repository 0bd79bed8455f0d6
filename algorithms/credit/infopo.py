from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from turngrid.algorithms.contexts import Context, RowView
from turngrid.algorithms.pools import compared, deviations
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import CONTEXTS, GROUPS, Method, excludes, number


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
        there, pool = with_gains(turns, gains)
        gates = torch.sigmoid(-deviations(turns.score, turns.group, size=turns.score_size) / self.temperature)
        result = advantages.clone()
        result[there] += self.beta * gates[pool] * compared(gains[there], pool, std=True, size=sizes[there])
        own = turns.group.unique()
        self.logged = {"gate": gates[own].mean().item() if len(own) else 0.0, "gains": float(there.sum())}
        return result


def with_gains(turns: Turns, gains: Tensor) -> tuple[Tensor, Tensor]:
    """Mark the acting turns with a next one and a gain, (E, K); return also the group of each."""
    there = turns.acts & (turns.following(turns.acts.double()) > 0) & ~gains.isnan()
    return there, turns.group.unsqueeze(1).expand(turns.mask.shape)[there]
