"""Checks of the nodes ``budget`` and ``demos``, and of mixtures that leave a task without games."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from turngrid.config.values.values import because
from turngrid.envs.extensions import shipped
from turngrid.tasks.budget import BudgetError, allocate_budget, demonstration_price
from turngrid.tasks.mixture import shares, task_weights
from turngrid.tasks.rejection import DemosError, draw

FREE = "sft_rl"  # the only option whose share may be changed, since a run's folder has the option's name
LEAST_MOVE = 2e-5  # minimum change of a weight by SFT


def bad_budget(config: DictConfig) -> Iterator[str]:
    budget = config.budget
    if budget.name != FREE and budget.sft_share != shipped("budget", budget.name).get("sft_share", budget.sft_share):
        yield f"budget.sft_share={budget.sft_share}: budget={budget.name} has its own share; use budget={FREE}"
    units, price = budget.units * budget.sft_share, float(demonstration_price(budget))
    if budget.sft_share and units < price:
        yield (
            f"budget.units={budget.units:g}: SFT's share of {units:g} units cannot pay a demonstration of {price:g}; "
            "use a higher budget.units or budget.sft_share, a lower budget.demo_cost or budget.experience_cost, "
            "or budget=rl_only"
        )
    try:
        allocate_budget(config)
    except BudgetError as error:
        yield str(error)


def bad_demonstrations(config: DictConfig) -> Iterator[str]:
    demos = config.demos
    if demos.source not in ("expert", "episodes"):
        yield f"demos.source={demos.source}: unknown; use demos.source=expert or demos.source=episodes"
    if demos.source == "expert" and demos.run:
        yield f"demos.run={demos.run}: experts play no episodes; use demos.source=episodes"
    if demos.source == "episodes":
        try:
            draw(config, allocate_budget(config).demonstrations)
        except DemosError as error:
            yield str(error)


def nothing_left(config: DictConfig) -> Iterator[str]:
    """Refuse RL without a step, and a task without a training game, demonstration or test game."""
    budget, allocation, weights = config.budget, allocate_budget(config), task_weights(config.env)
    if budget.count == "games" and budget.sft_share < 1 and budget.rl_steps < 1:
        reason = f"the budget has a share for RL{because(config, 'budget.rl_steps')}"
        yield f"budget.rl_steps={budget.rl_steps}: {reason}; use budget.rl_steps=1 or more"
    drawn = allocation.demonstrations if config.demos.source == "expert" else 0
    counts = {"training games": allocation.games, "demonstrations": drawn, "test games": config.eval.games}
    for what, count in counts.items():
        if none := next((task for task, share in shares(weights, count).items() if count and not share), None):
            yield f"env.tasks: {count} {what} leave none for {none}; use more of them, or a higher weight"


def sft_of_nothing(config: DictConfig) -> Iterator[str]:
    """Warn if SFT hardly changes the model: Adam moves a weight by about ``lr`` an update."""
    sft, demonstrations = config.model.sft, allocate_budget(config).demonstrations
    updates = sft.epochs * -(-demonstrations // sft.batch_size)
    if updates and updates * sft.lr < LEAST_MOVE:
        yield (
            f"model.sft.lr={sft.lr:g}: {updates} updates on {demonstrations} demonstrations change next to nothing, "
            "which is the study's setting; model.sft.lr=1e-5 model.sft.epochs=3 is a usual choice"
        )
