"""What the units buy: by hand, exactly, and never more than there are."""

import itertools
import random

import pytest
from omegaconf import DictConfig, OmegaConf

from turngrid.config.base import CONF
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.tasks.budget import Allocation, BudgetError, shares
from turngrid.tasks.run import Run

OTHERS = {"rl_epochs": None, "experience_cost": None, "games": None}


def budget(share: float, prompts: int = 16, samples: int = 8, **other: object) -> DictConfig:
    """The part of a config that decides what can be bought."""
    defaults = {"units": 1000.0, "demo_cost": 10.0, "episode_cost": 1.0, "count": "games", "rl_steps": 25}
    return OmegaConf.create(
        {
            "budget": {**defaults, **OTHERS, "sft_share": share, **other},
            "data": {"train_batch_size": prompts},
            "actor_rollout_ref": {"rollout": {"n": samples}},
        }
    )


@pytest.mark.parametrize(
    ("form", "episodes"),
    [([], 128), (["rollout_form=prefix"], 128), (["rollout_form=retry"], 256), (["algo=arpo"], 128)],
)
def test_a_rollout_form_says_what_a_step_may_cost(composed: Composer, form: list[str], episodes: int) -> None:
    """16 prompts x 8 samples, of which a group without a win is played twice."""
    allocation = Run(composed([*form, "budget=rl_only", "budget.count=rollouts"])).allocation
    steps = 1000 // episodes
    assert (allocation.episodes_per_step, allocation.steps, allocation.units) == (episodes, steps, steps * episodes)
    trees = ["algo=tree_grpo", "rollout_form.tree.nodes=4"]
    assert Run(composed([*trees, "budget.count=rollouts"])).allocation.episodes_per_step == 16 * 2 * (1 + 4)


@pytest.mark.parametrize("row", sorted(file.stem for file in (CONF / "budget").glob("sft[0-9]*_rl*.yaml")))
def test_a_row_of_table_9_buys_what_its_name_says(composed: Composer, row: str) -> None:
    """arXiv 2510.01132: 1,000 units, 10 a demonstration, 1 a game; PPO's 256 prompts a step."""
    config = composed([f"budget={row}", "algo=ppo", "model=qwen2.5_1.5b", "cluster=gpu8"])
    assert all("change next to nothing" in text for text in check(config))  # of the study's SFT
    allocation = Run(config).allocation
    assert f"sft{allocation.demonstrations}_rl{allocation.games}" == row
    assert (allocation.units, allocation.unspent) == (1000, 0)


def test_the_default_by_hand() -> None:
    assert Run(budget(0.6)).allocation == Allocation(60, 400, 25, 128, 1000.0, 0.0)
    assert Run(budget(0.6)).allocation.episodes == 3200
    assert Run(budget(0.6, rl_steps=20)).allocation == Allocation(60, 320, 20, 128, 920.0, 80.0)
    assert Run(budget(0.6, count="rollouts", rl_steps=None)).allocation == Allocation(60, 48, 3, 128, 984.0, 16.0)
    assert Run(budget(1.0)).allocation == Allocation(100, 0, 0, 0, 1000.0, 0.0)
    assert Run(budget(0.6, rl_steps=None, rl_epochs=100, games=100)).allocation.steps == 100 * 100 / 16


def test_a_share_in_per_cent_is_exact() -> None:
    """As floats 1000 * 0.57 is 569.99..., and 1000 * (1 - 0.8) is 199.99..."""
    for percent in range(101):
        assert shares(budget(percent / 100).budget) == (percent, 1000 - 10 * percent)
    assert shares(budget(0.605).budget) == (60, 400), "what demonstrations leave over goes to RL"


def test_a_step_that_cannot_be_paid_is_refused() -> None:
    with pytest.raises(BudgetError, match="127 episodes to RL, fewer than one step has: .* = 16 x 8"):
        _ = Run(budget(0.0, units=127, count="rollouts")).allocation
    assert Run(budget(0.0, units=128, count="rollouts")).allocation.steps == 1


def test_no_plan_overspends_and_no_plan_leaves_a_step_or_a_demonstration_unbought() -> None:
    draw = random.Random(0)
    bought = 0
    for count, _ in itertools.product(("games", "rollouts"), range(150)):
        config = budget(
            round(draw.random(), draw.choice((1, 2, 5))),
            prompts=draw.randint(1, 40),
            samples=draw.randint(1, 8),
            units=round(draw.uniform(1, 3000), 2),
            demo_cost=draw.choice((0.1, 0.3, 7, 10)),
            episode_cost=draw.choice((0.1, 0.7, 1)),
            count=count,
            rl_steps=draw.choice((None, 3)) if count == "rollouts" else 40,
        )
        try:
            allocation = Run(config).allocation
        except BudgetError:
            continue
        bought += 1
        assert 0 <= allocation.units <= config.budget.units
        assert allocation.units + allocation.unspent == pytest.approx(config.budget.units)
        if count == "rollouts" and config.budget.rl_steps is None and allocation.steps:
            assert allocation.unspent < allocation.episodes_per_step * config.budget.episode_cost
    assert bought > 150
