"""Checks of the nodes ``budget`` and ``demos``, and of mixtures that leave a task without games."""

from __future__ import annotations

from omegaconf import DictConfig

from turngrid.config.values.values import because
from turngrid.envs.extensions import shipped
from turngrid.tasks.budget import BudgetError, allocate_budget, demonstration_price
from turngrid.tasks.mixture import shares, task_weights
from turngrid.tasks.rejection import DemosError, draw

FREE = "sft_rl"  # the only option whose share may be changed
LEAST_MOVE = 2e-5  # minimum change of a weight by SFT


def share_against_name(config: DictConfig) -> str | None:
    """Refuse a share that contradicts the option's name, which is part of the run folder's name."""
    budget = config.budget
    if budget.name == FREE or budget.sft_share == shipped("budget", budget.name).get("sft_share", budget.sft_share):
        return None
    return (
        f"budget={budget.name} leaves no choice of budget.sft_share={budget.sft_share}: "
        "choose budget=sft_rl to divide the units"
    )


def no_demonstration(config: DictConfig) -> str | None:
    budget = config.budget
    units, price = budget.units * budget.sft_share, float(demonstration_price(budget))
    if budget.sft_share == 0 or units >= price:
        return None
    with_more = f" + budget.experience_cost={budget.experience_cost:g}" if budget.experience_cost else ""
    return (
        f"budget.units x budget.sft_share = {units:g} units cannot pay a demonstration at "
        f"budget.demo_cost={budget.demo_cost:g}{with_more}; raise one, lower the other, or choose budget=rl_only"
    )


def buys_too_little(config: DictConfig) -> str | None:
    try:
        allocate_budget(config)
    except BudgetError as error:
        return str(error)
    return None


def sft_of_nothing(config: DictConfig) -> str | None:
    """Warn if SFT changes next to nothing: Adam moves a weight by about ``lr`` an update."""
    sft, demonstrations = config.model.sft, allocate_budget(config).demonstrations
    updates = sft.epochs * -(-demonstrations // sft.batch_size)
    if not updates or updates * sft.lr >= LEAST_MOVE:
        return None
    return (
        f"SFT of {demonstrations} demonstrations is {updates} updates at model.sft.lr={sft.lr:g}, which change next to "
        "nothing; it is the study's, and model.sft.lr=1e-5 model.sft.epochs=3 is a usual choice"
    )


def no_such_demonstrations(config: DictConfig) -> str | None:
    demos, wanted = config.demos, allocate_budget(config).demonstrations
    if demos.source not in ("expert", "episodes"):
        return f"demos.source={demos.source} must be expert or episodes"
    if demos.source == "expert":
        return f"demos.run={demos.run} needs demos.source=episodes" if demos.run else None
    try:
        draw(config, wanted)
    except DemosError as error:
        return str(error)
    return None


def no_steps(config: DictConfig) -> str | None:
    budget = config.budget
    if budget.count != "games" or budget.sft_share >= 1 or budget.rl_steps >= 1:
        return None
    because_of = because(config, "budget.rl_steps")
    return f"budget.rl_steps={budget.rl_steps} must be at least 1 where the budget has a share for RL{because_of}"


def task_without_games(config: DictConfig) -> str | None:
    """Refuse a mixture in which a task gets no training game, demonstration or test game."""
    allocation, weights = allocate_budget(config), task_weights(config.env)
    drawn = allocation.demonstrations if config.demos.source == "expert" else 0
    counts = {"training games": allocation.games, "demonstrations": drawn, "test games": config.eval.games}
    for what, count in counts.items():
        none = next((task for task, share in shares(weights, count).items() if count and not share), None)
        if none:
            return f"env.tasks: {count} {what} leave none for {none}; raise their number or its weight"
    return None
