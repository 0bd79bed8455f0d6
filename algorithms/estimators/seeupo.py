"""Updates turn by turn; an update scales the advantages of turns updated later (SeeUPO)."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from torch import Tensor

from turngrid.algorithms.pools import centred
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, SYNCHRONOUS, WHOLE_STEP, Conflict, Method, number, only, without, word

REVERSE, FORWARD, RANDOM = "reverse", "forward", "random"
LEAST = 1e-6  # deviation of the scores; they are not divided by a smaller one


@dataclass(kw_only=True)
class Seeupo(Method):
    """``A = z M``: z the clamped score of an episode, M a factor of it that follows the updates.

    z is the score less its group's mean, divided by the unbiased deviation of the batch's episodes,
    within ``clamp``. The policy is updated once for each turn number, with the rows of that turn
    alone. M is 1 at first. After an update ``M <- clip(M clip(s))``, s the exponential of the mean
    change of the log-probs of the turn just trained, both clips to ``1 - bound .. 1 + bound``.
    Episodes without the turn keep M.

    Attributes:
        order: of turn numbers: ``reverse``, ``forward``, or ``random``, drawn by ``seed`` and step.
        fewest: rows that a turn number needs for an update.
    """

    order: str = word(REVERSE, FORWARD, RANDOM)
    clamp: float = number(0)
    bound: float = number(0, 1)
    fewest: int = number(1)
    seed: int

    grain = "episode"
    by_turn = True
    requires = frozenset({GROUPS, WHOLE_STEP, SYNCHRONOUS})
    conflicts = (
        Conflict(
            ("prompt.history",),
            lambda _, turns: turns is None,
            "an update has the rows of one turn, and all turns are in one row",
            "prompt.history=10",
        ),
        only("actor_rollout_ref.actor.ppo_epochs", 1, reason="it updates once for each turn number"),
        only("loss", ("step_clip",), reason="it has one ratio a turn, and a mean over turns", use="loss=step_clip"),
        without("buffer", "no turn of a stored episode is updated", "buffer=[]"),
        without("terms", "a term counts one update a step", "terms=[]"),
        without("critic", "it has no values to learn"),
    )

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        scores = centred(turns.score, turns.group, turns.score_size)
        deviation = scores.std() if len(scores) > 1 else scores.new_zeros(())
        scores = scores - scores.mean() if len(scores) else scores
        z = (scores / deviation if deviation > LEAST else scores).clamp(-self.clamp, self.clamp)
        advantages = z.unsqueeze(1) * turns.mask
        return Estimate(advantages, advantages)

    def in_order(self, rows: Mapping[int, int], step: int) -> list[int]:
        """Return the turn numbers to update, in order, given how many rows each has."""
        turns = sorted(turn for turn, count in rows.items() if count >= self.fewest)
        if self.order == RANDOM:
            return Random(f"{self.seed} {step}").sample(turns, len(turns))
        return turns[::-1] if self.order == REVERSE else turns

    def next_factors(self, factors: Tensor, changes: Tensor) -> Tensor:
        """Return M after an update, given each episode's mean change of log-prob, (n,), in nats."""
        low, high = 1 - self.bound, 1 + self.bound
        return (factors * changes.exp().clamp(low, high)).clamp(low, high)
