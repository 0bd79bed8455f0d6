"""The published figures: read off the paper's tables, and found by the names that sweeps use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from turngrid.experiments.report import published
from turngrid.experiments.report.published import PublishedError, figure


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("table10_algorithms", "w2-o3-q4/1.5B", "rloo", 0.51),
        ("table4_exploration_budget", "max_turns=6", "ppo", 0.55),
        ("table4_exploration_budget.swegym", "calls=40,context=6k", "grpo", 0.22),
        ("table9_sft_rl_budget", "sft=100,rl=0", "sft_in_domain", 0.95),
        ("table9_sft_rl_budget", "sft=100,rl=0", "sft_ppo_in_domain", None),  # not reported
        ("table11_reward_density", "base", "dense2", 0.29),  # one figure for the untrained model, whatever the reward
        ("table12_swe_reward_source", "GPT-4.1", "base", 0.04),
        ("table5_generalisation", "none", "w2-o12-q4", None),  # a row of ours that the paper does not have
        ("table5_generalisation", "base", None, None),
    ],
)
def test_a_figure_is_found(table: str, row: str, column: str | None, value: float | None) -> None:
    assert figure(table, row, column) == value


def test_a_row_of_settings_is_named_by_them() -> None:
    best, *_, worst = published.rows("table13_hyperparameters")
    assert best == "kl_coef=0.01,temperature=0.7,actor_lr=1e-06,critic_lr=1e-05,gamma=1.0"
    assert figure("table13_hyperparameters", best, "success") == 0.90
    assert figure("table13_hyperparameters", worst, "success") == 0.43
    assert published.columns("table13_hyperparameters") == ["success"]
    assert len(published.rows("table13_hyperparameters")) == 8


@pytest.mark.parametrize("table", published.tables())
def test_every_figure_is_a_share(table: str) -> None:
    cells = [value for row in published.rows(table).values() for value in row.values()]
    assert cells
    assert all(value is None or 0 <= value <= 1 for value in cells)
    assert all(
        figure(table, row, column) == value for row, of in published.rows(table).items() for column, value in of.items()
    )


def test_tables_that_repeat_each_other_agree() -> None:
    """The paper prints some figures twice, so a slip in copying one of them shows."""
    sizes, algorithms = published.rows("table3_model_size"), published.rows("table10_algorithms")
    for row in set(sizes) - {"w2-o3-q4/1.5B"}:  # there table 10 has PPO with 16 turns: 0.88 for 0.80
        assert sizes[row] == {column: algorithms[row][column] for column in ("base", "ppo")}
    for task, row in published.rows("table1_complexity").items():
        if task != "w2-o3-q4":
            assert figure("table5_generalisation", "base", task) == row["base"]
    assert figure("table1_complexity", "w2-o3-q4", "ppo") == figure("table4_exploration_budget", "max_turns=16", "ppo")
    assert figure("table12_swe_reward_source", "verified_ratio", "grpo") == figure(
        "released_recipes", "swegym/Qwen3-8B/grpo", "success"
    )
    for task in ("w8-o3-q4", "w2-o12-q4"):
        assert figure("table5_generalisation", task, task) == figure("table1_complexity", task, "ppo")


def test_every_table_of_the_paper_is_there_under_its_name() -> None:
    names = {published.table_name(table) for table in published.tables()}
    assert names == {*(f"table {number}" for number in range(1, 14)), "released recipes"}
    assert published.table_name("table4_exploration_budget.swegym") == "table 4"
    assert published._data()["source"] == "arXiv 2510.01132v2"
    assert published.protocol("table13_hyperparameters")["epochs"] == 30
    assert "standard error" in published.note("table9_sft_rl_budget")


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("table10_algorithm", "w2-o3-q4/1.5B", "ppo"), "table10_algorithms"),
        (("table4_exploration_budget.swe", "a", "b"), "table4_exploration_budget.swegym"),
        (("table10_algorithms", "w2-o3-q4/1.5b", "ppo"), "w2-o3-q4/1.5B"),
        (("table10_algorithms", "w2-o3-q4/1.5B", "reinforce++"), "reinforce_plus_plus"),
        (("table11_reward_density", "base", "dense3"), "dense2"),
        (("table12_swe_reward_source", "GPT-4", "base"), "GPT-4.1"),
    ],
)
def test_a_typo_is_answered_with_the_nearest(arguments: tuple[str, str, str], nearest: str) -> None:
    with pytest.raises(PublishedError, match="; use ") as refused:
        figure(*arguments)
    assert f"use {nearest}" in str(refused.value)


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, turngrid.experiments.report.published as p; p.tables(); "
        "print([m for m in ('torch', 'verl', 'ray', 'scipy', 'hydra') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300).stdout
    assert shown.strip() == "[]"
