"""Compare turns by state (GiGPO), recent states (HGPO), transition (SALT) or index (MT-GRPO)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import EPSILON, compared, means, pools
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import FIRST, GROUPS, OWN_TURNS, Conflict, Method, excludes, number, word

LOSES_KL = Conflict(  # of a method that replaces the estimator's advantages
    ("algorithm.use_kl_in_reward",),
    lambda method, on: on and not getattr(method, "base", False),
    "the advantages that it replaces had the KL",
    "algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true",
    warns=True,
)


@dataclass(kw_only=True)
class Gigpo(Method):
    """``A_t += weight * A^S_t``.

    ``R_t = sum over k >= t of gamma^(k-t) r_k``. The turns of a group that answered equal states
    form a step group, repeats within an episode included. ``A^S = (R_t - mean) / (std + 1e-6)``
    there; 0 for a turn alone, or if all R are equal.

    With ``by_turns``, the mean and deviation of the *episode* term are over the group's turns, so
    that longer episodes weigh more. That term replaces the estimator's.
    """

    gamma: float = number(0, 1)
    weight: float = number()
    std: bool
    by_turns: bool
    costs_go_on: bool

    grains = frozenset({"episode"})  # an estimator over turns whitens, so its scale differs
    requires = frozenset({GROUPS, OWN_TURNS})

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.acting()
        episode = at[0]
        result = advantages.clone()
        if self.by_turns:
            scores, sizes = (numbers[episode] for numbers in (turns.score, turns.score_size))
            own = torch.zeros_like(turns.score)
            own[episode] = compared(scores, turns.group[episode], self.std, size=sizes)
            result[:] = own.unsqueeze(1)
        returns, size = (numbers[at] for numbers in returns_to_go(turns, self.gamma, self.costs_go_on))
        step_group = pools(turns.group[episode], turns.state[at])
        result[at] += self.weight * compared(returns, step_group, self.std, size=size)
        return result


def returns_to_go(turns: Turns, gamma: float, costs_go_on: bool) -> tuple[Tensor, Tensor]:
    """Return each turn's discounted return, and the same sum of absolute rewards; (E, K) float64.

    Args:
        costs_go_on: extrapolate the costs (rewards below 0) of an episode that was cut off. Each
            turn gets as many later turns as the episode's first turn has. A missing turn costs the
            episode's mean. Otherwise late turns would have fewer costs ahead than early ones that
            answered the same state, so running out of turns would pay.
    """
    reward, step = turns.reward * turns.mask, turns.steps(gamma)
    returns, sizes = discounted(reward, step), discounted(reward.abs(), step)
    if costs_go_on:
        ahead = discounted(turns.acts.double(), step)
        cost = reward.clamp(max=0).sum(dim=1) / turns.acts.sum(dim=1).clamp(min=1) * turns.cut_off
        returns += cost.unsqueeze(1) * (ahead[:, :1] - ahead)
    return returns, sizes


@dataclass(kw_only=True)
class Hgpo(Method):
    """``A_t = sum over k of w_k a^k_t``, in place of the estimator's advantages.

    For k from 1 to ``history + 1``, the turns of a group that answered the same k states in a row
    are compared by their discounted returns, repeats within an episode included: ``a^k = (R_t -
    mean) / (std + 1e-6)``, with the biased deviation; 0 for one alone. ``w_k`` is in proportion to
    ``(k + 1)^alpha`` over the k whose ``a^k`` is not 0. A turn without such a k gets 0. With
    ``base``, the estimator's advantage is the item k = 0.
    """

    gamma: float = number(0, 1)
    history: int = number(0)
    alpha: float = number(0)
    std: bool
    base: bool
    costs_go_on: bool

    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, OWN_TURNS})
    conflicts = (
        excludes("credit", "gigpo", "mt_grpo", "graft", reason="they count the same turns", use="credit=[hgpo]"),
        FIRST,
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.acting()
        total, weights = torch.zeros(len(at[0])).double(), torch.zeros(len(at[0])).double()
        for k, item in self._items(turns, advantages[at]):
            weight = (k + 1) ** self.alpha * (item != 0)
            total, weights = total + weight * item, weights + weight
        result = advantages.clone() if self.base else torch.zeros_like(advantages)
        result[at] = (total / (weights + EPSILON)).to(result.dtype)
        return result

    def _items(self, turns: Turns, base: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield each k with its ``a^k``, (turns,)."""
        if self.base:
            yield 0, base
        at = turns.acting()
        returns, size = (numbers[at] for numbers in returns_to_go(turns, self.gamma, self.costs_go_on))
        own = path = pools(turns.group[at[0]], turns.state[at])
        for k in range(1, self.history + 2):
            has, item = turns.acted_before[at] >= k - 1, torch.zeros_like(returns)
            item[has] = compared(returns[has], path[has], self.std, biased=True, size=size[has])
            yield k, item
            path = pools(path.roll(1), own)  # the key of the turn before, and this turn's state


@dataclass(kw_only=True)
class Salt(Method):
    """Average the advantages of a group's turns with equal (state, action, next state).

    A transition made once keeps its advantage. One that won and lost episodes share nears 0.
    """

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS, OWN_TURNS})

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.flat()
        transition = pools(turns.group[at[0]], turns.state[at], turns.action[at], turns.after[at])
        result = advantages.clone()
        result[at] = means(advantages[at], transition)[transition]
        return result


@dataclass(kw_only=True)
class MtGrpo(Method):
    """``A_t += weight * z(turn reward)``, ``z = (r - mean) / (std + 1e-6)``.

    Mean and deviation are over turn t of the group's episodes. z is 0 for one alone, or if all are
    equal. The released code adds 1e-4. ``scope=first``: only the first turn gets the term.
    ``outcome=won``: the advantage is first replaced by z of winning (1 or 0).
    """

    turn: str = word("valid", "parsed", "reward")
    outcome: str = word("reward", "won")
    scope: str = word("own", "first")
    weight: float = number()

    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, OWN_TURNS})
    conflicts = (
        Conflict(
            ("agent stops",),
            lambda credit, stops: stops and (credit.outcome, credit.scope) == ("won", "own"),
            "turn t is compared with other turns t alone, so what only longer episodes earn is not credited",
            "credit.mt_grpo.outcome=reward",
            warns=True,
        ),
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        result = advantages.clone()
        if self.outcome == "won":
            result[:] = compared(turns.won.double(), turns.group, std=True).unsqueeze(1)
        at = turns.acting()
        turn_number = turns.acted_before[at]
        term = compared(getattr(turns, self.turn)[at].double(), pools(turns.group[at[0]], turn_number), std=True)
        result[at] += self.weight * (term if self.scope == "own" else term * (turn_number == 0))
        return result
