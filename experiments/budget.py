"""What a run may spend: a demonstration costs so many units, an RL episode so many, and no run spends more.

Two ways to count an RL episode (design and paper, table 9): ``games`` charges each distinct game once, however often it
is revisited, and trains for ``rl_steps``; ``rollouts`` charges every episode played and stops before the first step
that would overspend.
"""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig


class BudgetError(ValueError):
    """The budget cannot buy what the run asks for."""


@dataclass(frozen=True)
class Plan:
    """``demonstrations`` to learn from, distinct ``games`` to train on, ``steps`` of ``episodes_per_step`` episodes.

    ``units`` is what all of it costs; ``unspent`` is what the step size leaves over.
    """

    demonstrations: int
    games: int
    steps: int
    episodes_per_step: int
    units: float
    unspent: float


def plan_budget(config: DictConfig) -> Plan:
    """Turn the budget into numbers of things.

    Raises:
        BudgetError: nothing can be bought, or less than one training step.
    """
    budget = config.budget
    demonstrations = int(budget.units * budget.sft_share // budget.demo_cost)
    left = budget.units - demonstrations * budget.demo_cost if budget.sft_share < 1 else 0.0
    prompts = int(config.data.train_batch_size)
    samples = int(config.actor_rollout_ref.rollout.n)
    if left <= 0:
        return _sft_only(budget, demonstrations)
    games, steps, spent = _rl(budget, left, prompts, samples)
    units = demonstrations * budget.demo_cost + spent
    return Plan(demonstrations, games, steps, prompts * samples, units, budget.units - units)


def _sft_only(budget: DictConfig, demonstrations: int) -> Plan:
    if demonstrations == 0:
        raise BudgetError(f"budget.units={budget.units} buys no demonstration at budget.demo_cost={budget.demo_cost}")
    units = demonstrations * budget.demo_cost
    return Plan(demonstrations, 0, 0, 0, units, budget.units - units)


def _rl(budget: DictConfig, left: float, prompts: int, samples: int) -> tuple[int, int, float]:
    """(distinct games, steps, units spent)."""
    affordable = int(left // budget.episode_cost)
    if budget.count == "games":
        if affordable < prompts:
            raise BudgetError(f"{left:g} units buy {affordable} games, fewer than data.train_batch_size={prompts}")
        return _games(budget, affordable, prompts)
    return _rollouts(budget, affordable, prompts, samples)


def _games(budget: DictConfig, games: int, prompts: int) -> tuple[int, int, float]:
    """The games that the units buy, as far as the training is long enough to see them; no other is made or charged."""
    steps = int(budget.rl_steps) if budget.rl_steps else int(games * budget.rl_epochs // prompts)
    games = min(games, steps * prompts)
    return games, steps, games * budget.episode_cost


def _rollouts(budget: DictConfig, episodes: int, prompts: int, samples: int) -> tuple[int, int, float]:
    """Whole steps only: the last one that would overspend is not begun."""
    steps = episodes // (prompts * samples)
    if steps == 0:
        raise BudgetError(f"the units buy {episodes} episodes, fewer than one step of {prompts} x {samples}")
    steps = min(steps, int(budget.rl_steps)) if budget.rl_steps else steps
    return steps * prompts, steps, steps * prompts * samples * budget.episode_cost
