"""What a run may spend: a demonstration costs so many units, an RL episode so many, and no run spends more.

Two ways to count an RL episode (design and paper, table 9): ``games`` charges each distinct game once, however often it
is revisited, and trains for ``rl_steps``; ``rollouts`` charges every episode played and stops before the first step
that would overspend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite
from typing import Any

from omegaconf import DictConfig

from algorithms.chosen import Chosen, slots_of
from algorithms.registry import FORM
from records.process.exit_codes import Refusal


class BudgetError(Refusal):
    """The budget cannot buy what the run asks for."""


@dataclass(frozen=True)
class Allocation:
    """``demonstrations`` to learn from, distinct ``games`` to train on, ``steps`` of ``episodes_per_step`` episodes.

    ``units`` is what all of it costs; ``unspent`` is what the step size leaves over.
    """

    demonstrations: int
    games: int
    steps: int
    episodes_per_step: int
    units: float
    unspent: float

    @property
    def episodes(self) -> int:
        """RL episodes played, whichever way they are charged."""
        return self.steps * self.episodes_per_step


def allocate_budget(config: DictConfig) -> Allocation:
    """Turn the budget into numbers of things.

    Raises:
        BudgetError: nothing can be bought, or less than one training step.
    """
    budget = config.budget
    demonstrations, affordable = shares(budget)
    if affordable == 0:
        return _sft_only(budget, demonstrations)
    prompts, samples = int(config.data.train_batch_size), samples_played(config)
    games, steps, charged = _rl(config, affordable, prompts, samples)
    units = demonstrations * demonstration_price(budget) + charged * _exact(budget.episode_cost)
    unspent = _exact(budget.units) - units
    return Allocation(demonstrations, games, steps, prompts * samples, float(units), float(unspent))


def samples_played(config: DictConfig) -> int:
    """Episodes of a prompt, at most: as many as are learned from, unless the rollout form plays more."""
    samples = int(config.actor_rollout_ref.rollout.n)
    return max((form.episodes(samples) for form in rollout_forms(config).values()), default=samples)


def rollout_forms(config: DictConfig) -> dict[str, Any]:
    """The chosen one by name, with the numbers of its first step."""
    return Chosen(slots_of(config, (FORM,))).of(FORM, 1)


def with_games(allocation: Allocation, budget: DictConfig, games: int) -> Allocation:
    """The plan where the environment has fewer training ``games`` than the budget would pay: they are revisited as
    often as the steps need, and those that there are not are not charged."""
    missing = (allocation.games - games) * _exact(budget.episode_cost) if budget.count == "games" else Fraction(0)
    units, unspent = float(_exact(allocation.units) - missing), float(_exact(allocation.unspent) + missing)
    return replace(allocation, games=games, units=units, unspent=unspent)


def shares(budget: DictConfig) -> tuple[int, int]:
    """(demonstrations, RL episodes or games) that the units buy; what demonstrations leave over goes to RL.

    Exact in decimals: as floats, 0.57 of 1,000 units buys 56 demonstrations and 0.8 leaves RL 199 games. Prices that are
    no prices buy nothing.
    """
    if not all(isfinite(price) and price > 0 for price in (budget.units, budget.demo_cost, budget.episode_cost)):
        return 0, 0
    units, share = _exact(budget.units), _exact(budget.sft_share)
    demonstrations = int(units * share // demonstration_price(budget))
    left = units - demonstrations * demonstration_price(budget) if share < 1 else Fraction(0)
    return demonstrations, int(left // _exact(budget.episode_cost))


def demonstration_price(budget: DictConfig) -> Fraction:
    """With what the model's own actions at its states cost, where there are any (``demos.experience``)."""
    return _exact(budget.demo_cost) + _exact(budget.get("experience_cost") or 0)


def _exact(number: float) -> Fraction:
    """The decimal that was written, not the nearest float."""
    return Fraction(str(number))


def _sft_only(budget: DictConfig, demonstrations: int) -> Allocation:
    if demonstrations == 0:
        raise BudgetError(f"budget.units={budget.units} buys no demonstration at budget.demo_cost={budget.demo_cost}")
    units = demonstrations * demonstration_price(budget)
    return Allocation(demonstrations, 0, 0, 0, float(units), float(_exact(budget.units) - units))


def _rl(config: DictConfig, affordable: int, prompts: int, samples: int) -> tuple[int, int, int]:
    """(distinct games, steps, games or episodes that are charged)."""
    if config.budget.count == "rollouts":
        return _rollouts(config.budget, affordable, prompts, samples)
    if affordable < prompts and not config.trainer.v1.sampler.sync_refill_failed_groups:
        raise BudgetError(
            f"the units buy {affordable} games, fewer than data.train_batch_size={prompts}, which needs "
            "trainer.v1.sampler.sync_refill_failed_groups=true (games one by one)"
        )
    steps = int(config.budget.rl_steps or 0) or steps_of_epochs(config.budget, prompts)
    games = min(affordable, _visited(config.budget, steps * prompts))  # others are neither made nor charged
    return games, steps, games


def steps_of_epochs(budget: DictConfig, prompts: int) -> int:
    """Steps of ``prompts`` games in ``rl_epochs`` passes over the games that the units buy; 0 without epochs."""
    _, games = shares(budget)
    return int(-(-_exact(budget.rl_epochs or 0) * games // prompts))


def _rollouts(budget: DictConfig, affordable: int, prompts: int, samples: int) -> tuple[int, int, int]:
    """Whole steps only: the first one that would overspend is not begun."""
    steps = affordable // (prompts * samples)
    if steps == 0:
        raise BudgetError(
            f"budget.units leave {affordable} episodes to RL, fewer than one step has: data.train_batch_size x "
            f"actor_rollout_ref.rollout.n = {prompts} x {samples}; raise the one or lower the others"
        )
    steps = min(steps, int(budget.rl_steps)) if budget.rl_steps else steps
    return _visited(budget, steps * prompts), steps, steps * prompts * samples


def _visited(budget: DictConfig, prompts: int) -> int:
    """Distinct games in so many prompts."""
    return min(prompts, budget.get("games") or prompts)
