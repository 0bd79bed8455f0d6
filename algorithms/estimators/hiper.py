"""GAE on the levels of an answer: whether the subgoal stays, the subgoal, the action."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.slots import Estimate, Head, Tokens
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import Method, number
from turngrid.rewards.shaping.subgoals import KEEP, SWITCH

EPSILON = 1e-8
LABELS = (KEEP, SWITCH)


@dataclass(kw_only=True)
class Hiper(Method):
    """HiPER: separate advantages for switching the subgoal, for subgoals, and for actions.

    A segment is a run of turns with one subgoal. An episode's first turn begins one, and so does
    every SWITCH. V' is V_high of the next segment, 0 after the last. One critic has a head for each
    level:

        low: V_low is read at the first token after the subgoal (if there is none, after the switch;
            else the first). ``delta_t = r_t + gamma V_low,t+1 - V_low,t``, with V' at a segment's
            end; ``A_t = delta_t + gamma lam A_{t+1}`` within it. For the tokens of the action (all
            tokens if the answer lacks its tags).
        term: V_term is read at a turn's first token. ``A_t = U_t - V_term,t``, U_t the discounted
            rewards to the segment's end and V' after it. For the tokens of the switch.
        high: V_high is read at a turn's first token. ``A = U - V_high + gamma^d lam_segment A'``
            for a segment of d turns. For the tokens of a segment's first subgoal.

    Other tokens get none. With ``norm_adv``, each level's advantages are normalised: minus their
    mean, over their biased deviation, both over the turns with such tokens.

    With ``bootstrap_truncated``, an episode that was cut off continues with its last V_low and its
    last segment's V_high. Without it, only values below 0 are used, and only for the advantages.
    """

    gamma: float = number(0, 1)
    lam: float = number(0, 1)
    lam_segment: float = number(0, 1)
    norm_adv: bool
    bootstrap_truncated: bool

    needs = frozenset({"values"})
    heads = 3  # high, low, term
    labels = LABELS
    grain = "token"

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert tokens.value is not None
        begins = _begins(turns)
        first, after = turns.starts(), turns.only(_after_subgoal(turns))
        heads = (tokens.value, *tokens.heads)
        values = [turns.at(where, head) for where, head in zip((first, after, first), heads, strict=True)]
        advantages, learned = (self._advantages(turns, *values, costs_go_on=on) for on in (True, False))
        by_token = torch.zeros(turns.place.shape)
        for matrix, part in zip(advantages, _learned(turns, begins), strict=True):
            used = part & tokens.mask
            by_token += turns.spread(self._normed(matrix, turns.mean(used) > 0).float()) * used
        high, low, term = (matrix + value for matrix, value in zip(learned, values, strict=True))
        first, after = first & tokens.mask, after & tokens.mask
        targets = first & turns.spread(begins)
        return Estimate(by_token, turns.spread(high.float()), targets, (Head(low, after), Head(term, first)))

    def _advantages(
        self, turns: Turns, high: Tensor, low: Tensor, term: Tensor, *, costs_go_on: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return advantages of high (only where a segment begins), low and term; (E, K) each."""
        begins, last = _begins(turns), torch.arange(turns.mask.shape[1]) == turns.last.unsqueeze(1)
        ends = last | (_next(begins.double()) > 0)
        goes_on = (~ends).double()
        cut = turns.cut_off.unsqueeze(1) & last & (self.bootstrap_truncated or costs_go_on)
        most = math.inf if self.bootstrap_truncated else 0.0
        after_high = torch.where(cut, _of_segment(high, begins).clamp(max=most), _next(high))
        after_low = torch.where(cut, low.clamp(max=most), torch.where(ends, _next(high), _next(low)))
        deltas = (turns.reward + self.gamma * after_low - low) * turns.mask
        of_actions = discounted(deltas, self.gamma * self.lam * goes_on)
        inside = discounted(turns.reward * turns.mask + self.gamma * after_high * ends, self.gamma * goes_on)
        a_segment = self.gamma * (goes_on + self.lam_segment * ends)
        of_segments = discounted((inside - high) * begins, a_segment)
        return of_segments * begins, of_actions, inside - term

    def _normed(self, advantages: Tensor, has: Tensor) -> Tensor:
        if not self.norm_adv or not has.any():
            return advantages
        some = advantages[has]
        return (advantages - some.mean()) / (some.std(correction=0) + EPSILON)


def _begins(turns: Turns) -> Tensor:
    """Mark the turns with which a segment begins; (E, K) bool."""
    assert turns.label is not None
    first = torch.arange(turns.mask.shape[1]) == 0
    return turns.mask & (first | (turns.label == LABELS.index(SWITCH) + 1))


def _next(matrix: Tensor) -> Tensor:
    """Return the next turn's number, 0 after the last; (E, K)."""
    return torch.nn.functional.pad(matrix, (0, 1))[:, 1:]


def _of_segment(matrix: Tensor, begins: Tensor) -> Tensor:
    """Return the number of the first turn of each turn's segment; (E, K)."""
    number = torch.arange(matrix.shape[1]).expand(matrix.shape)
    return matrix.gather(1, number.where(begins, 0).cummax(dim=1).values) if matrix.numel() else matrix


def _after_subgoal(turns: Turns) -> Tensor:
    """Return the index in each turn of the first token after the subgoal; (E, K) int64."""
    switch, subgoal = turns.spans["switch"], turns.spans["subgoal"]
    after = torch.where(subgoal[1] > subgoal[0], subgoal[1], switch[1])
    return after.minimum((turns.tokens - 1).clamp(min=0))


def _learned(turns: Turns, begins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mark tokens that get the high, the low and the term advantage; (B, T) bool each."""
    switch, subgoal, action = (turns.spans[part] for part in ("switch", "subgoal", "action"))
    whole = torch.stack([torch.zeros_like(turns.tokens), turns.tokens])
    action = action.where(action[1] > action[0], whole)
    return turns.inside(subgoal) & turns.spread(begins), turns.inside(action), turns.inside(switch)
