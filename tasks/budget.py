"""The budget: demonstrations and RL episodes have prices in units, and a run never overspends.

There are two ways to count RL (paper, table 9). ``games`` charges each distinct game once, however
often it is revisited, and trains for ``rl_steps``. ``rollouts`` charges every episode and stops
before the first step that would overspend.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from turngrid.records.process.exit_codes import Refusal
from turngrid.tasks.schema import Budget


class BudgetError(Refusal):
    """The budget is too small for the run."""


@dataclass(frozen=True)
class Allocation:
    """Amounts that the budget pays for."""

    demonstrations: int
    games: int  # distinct training games
    steps: int
    episodes_per_step: int
    units: float  # cost of everything
    unspent: float  # units left over, because steps are whole

    @property
    def episodes(self) -> int:
        """RL episodes of all steps, however they are charged."""
        return self.steps * self.episodes_per_step


def allocate_budget(budget: Budget, prompts: int, samples: int) -> Allocation:
    """Return how many demonstrations, games and steps the budget buys.

    Args:
        prompts: of a training step.
        samples: the most episodes of a prompt.

    Raises:
        BudgetError: it buys nothing, or less than one training step.
    """
    demonstrations, affordable = shares(budget)
    if affordable == 0:
        return _sft_only(budget, demonstrations)
    if budget.count == "rollouts":
        games, steps, charged = _rollouts(budget, affordable, prompts, samples)
    else:
        games, steps = _games(budget, affordable, prompts)
        charged = games
    units = demonstrations * demonstration_price(budget) + charged * _exact(budget.episode_cost)
    unspent = _exact(budget.units) - units
    return Allocation(demonstrations, games, steps, prompts * samples, float(units), float(unspent))


def with_games(allocation: Allocation, budget: Budget, games: int) -> Allocation:
    """Return the allocation if the environment has only this many training ``games``.

    They are revisited as often as the steps need; missing games are not charged.
    """
    missing = (allocation.games - games) * _exact(budget.episode_cost) if budget.count == "games" else Fraction(0)
    units, unspent = float(_exact(allocation.units) - missing), float(_exact(allocation.unspent) + missing)
    return replace(allocation, games=games, units=units, unspent=unspent)


def shares(budget: Budget) -> tuple[int, int]:
    """Return how many demonstrations and how many RL episodes (or games) the units buy.

    Units that demonstrations leave over go to RL. The arithmetic is exact in decimals: with floats,
    0.57 of 1,000 units buys 56 demonstrations.
    """
    units, share = _exact(budget.units), _exact(budget.sft_share)
    demonstrations = int(units * share // demonstration_price(budget))
    left = units - demonstrations * demonstration_price(budget) if share < 1 else Fraction(0)
    return demonstrations, int(left // _exact(budget.episode_cost))


def demonstration_price(budget: Budget) -> Fraction:
    """Return the price of a demonstration, early experience (``demos.experience``) included."""
    return _exact(budget.demo_cost) + _exact(budget.experience_cost or 0)


def _exact(number: float) -> Fraction:
    """Return the decimal as typed, not the nearest float."""
    return Fraction(str(number))


def _sft_only(budget: Budget, demonstrations: int) -> Allocation:
    if demonstrations == 0:
        raise BudgetError(f"budget.units={budget.units} buys no demonstration at budget.demo_cost={budget.demo_cost}")
    units = demonstrations * demonstration_price(budget)
    return Allocation(demonstrations, 0, 0, 0, float(units), float(_exact(budget.units) - units))


def _games(budget: Budget, affordable: int, prompts: int) -> tuple[int, int]:
    """Return distinct games and steps."""
    steps = int(budget.rl_steps or 0) or steps_of_epochs(budget, prompts)
    return min(affordable, _visited(budget, steps * prompts)), steps  # only visited games are made and charged


def steps_of_epochs(budget: Budget, prompts: int) -> int:
    """Return the steps of ``rl_epochs`` passes over the training games; 0 without epochs."""
    _, games = shares(budget)
    return int(-(-_exact(budget.rl_epochs or 0) * min(games, budget.games or games) // prompts))


def _rollouts(budget: Budget, affordable: int, prompts: int, samples: int) -> tuple[int, int, int]:
    """Return distinct games, whole steps, and their episodes."""
    steps = affordable // (prompts * samples)
    if steps == 0:
        raise BudgetError(
            f"budget.units leave {affordable} episodes to RL, fewer than one step has: data.train_batch_size x "
            f"actor_rollout_ref.rollout.n = {prompts} x {samples}; raise the one or lower the others"
        )
    steps = min(steps, int(budget.rl_steps)) if budget.rl_steps else steps
    return _visited(budget, steps * prompts), steps, steps * prompts * samples


def _visited(budget: Budget, prompts: int) -> int:
    """Return the number of distinct games among the prompts."""
    return min(prompts, budget.games or prompts)
