"""Curves of training beside success: which metrics, how they are smoothed, what a run of one step looks like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.evaluation.result import State
from experiments.report import charts
from experiments.report.curve import SHOWN, Curve, curve_of, shown
from experiments.report.runs import Run
from experiments.report.series import Series, Subplot, metric_subplots, one_series
from records.metric_names import FAMILIES, family_name


def run(name: str, seed: int, others: dict[str, dict[int, float]], steps: int = 2) -> Run:
    numbers = tuple(range(1, steps + 1))
    curve = Curve(numbers, tuple(0.5 for _ in numbers), tuple(8 * step for step in numbers), others)
    return Run(Path(f"{name}-s{seed}"), {"algo": name}, seed, State.UNFINISHED, curve=curve)


def test_a_curve_takes_what_is_drawn_and_nothing_else() -> None:
    lines = [
        {"step": 1, "success/train": 0.25, "rollout/episodes": 8.0, "rollout/entropy": 0.5, "timing/step": 3.0},
        {
            "step": 2,
            "success/train": 0.5,
            "rollout/episodes": 8.0,
            "filter/zero_std/dropped_share": 0.25,
            "actor/ppo_kl": None,
        },
        {"step": 3, "rollout/entropy": 9.0},  # of a step without training episodes
    ]
    found = curve_of(lines)
    assert (found.steps, found.shares, found.episodes) == ((1, 2), (0.25, 0.5), (8, 16))
    assert found.others == {"rollout/entropy": {1: 0.5}, "filter/zero_std/dropped_share": {2: 0.25}}


def test_names_of_the_table_are_those_of_the_logs() -> None:
    assert all(family_name(name) == name and name.split("/")[0] in FAMILIES for name in SHOWN)
    assert shown("success/by_type/look_at_obj_in_light") == ("success in look at obj in light", "share")
    assert shown("buffer/self_imitation/age") == ("buffer self imitation age", "")
    assert shown("timing/step") is None


def test_a_panel_is_a_metric_and_a_line_a_setting() -> None:
    entropy = "rollout/entropy"
    runs = [
        run("ppo", 0, {entropy: {1: 1.0, 2: 2.0}, "rollout/unparsed_actions": {1: 0.0, 2: 0.0}}),
        run("ppo", 1, {entropy: {1: 3.0, 2: 2.0}, "success/by_task/w2": {1: 0.5}}),
        run("grpo", 0, {}),
    ]
    found = metric_subplots(runs)
    assert [(subplot.title, subplot.unit) for subplot in found] == [
        ("success in w2", "share"),
        ("entropy", "nats a token"),
    ]
    (line,) = found[1].series  # grpo has none
    assert (line.name, line.seeds) == ("ppo", 2)
    assert (line.mean.tolist(), line.low.tolist(), line.high.tolist()) == ([2.0, 2.0], [1.0, 2.0], [3.0, 2.0])


@pytest.mark.parametrize(("steps", "markers", "thin"), [(1, True, False), (5, False, False), (6, False, True)])
def test_few_steps_are_drawn_as_they_are(steps: int, markers: bool, thin: bool) -> None:
    drawn = charts.curves([Subplot("", "", [one_series("success", [run("ppo", 0, {}, steps)])])], "steps")
    line = drawn.split('id="line2d')  # a tick is a line with a marker too
    curves = [part for part in line if "var(--s0)" in part]
    assert any("<use" in part for part in curves) is markers
    assert ("stroke-opacity: 0.35" in drawn) is thin


def test_zero_has_the_colour_of_the_page() -> None:
    drawn = charts.heat_map(["a"], ["x", "y"], np.array([[0.0, 1.0]]))
    cells = drawn[drawn.index('id="QuadMesh_1"') :].split("<path")[1:3]
    assert "fill: none" in cells[0]
    assert "fill-opacity: 0.75" in cells[1]


def test_panels_are_drawn() -> None:
    line = Series("ppo", 1, np.arange(8), np.arange(8), *[np.linspace(0, 1, 8)] * 3)
    drawn = charts.training([charts.Subplot("entropy", "nats a token", [line])])
    assert "entropy" in drawn and "nats a token" in drawn and drawn.count("var(--s0)") >= 2
