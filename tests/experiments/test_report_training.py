"""Curves of training beside success: which metrics, and alarms on them."""

from dataclasses import replace
from pathlib import Path

from turngrid.experiments.evaluation.result import State
from turngrid.experiments.report.charts import Panel, curves, draw_panels, metric_panels, over_seeds
from turngrid.experiments.report.runs import ReportedRun, curve_of
from turngrid.records.health.alarms import Alarm


def run(name: str, seed: int, others: dict[str, dict[int, float]]) -> ReportedRun:
    """Of two steps."""
    lines = [{"step": step, "success/train": 0.5, "rollout/episodes": 8} for step in (1, 2)]
    for line in lines:
        line |= {metric: values[line["step"]] for metric, values in others.items() if line["step"] in values}
    return ReportedRun(Path(f"{name}-s{seed}"), {"algo": name}, seed, State.UNFINISHED, curve=curve_of(lines))


def test_a_curve_takes_what_is_drawn_and_nothing_else() -> None:
    dropped = "filter/zero_std/dropped_share"
    lines = [
        {"step": 1, "success/train": 0.25, "rollout/episodes": 8.0, "rollout/entropy": 0.5, "timing/step": 3.0},
        {"step": 2, "success/train": 0.5, "rollout/episodes": 8.0, dropped: 0.25, "actor/ppo_kl": None},
        {"step": 3, "rollout/entropy": 9.0},  # of a step without training episodes
        {"step": 2, "success/train": 0.5, "rollout/episodes": 8.0, dropped: 0.75},  # the step was repeated
    ]
    found = curve_of(lines)
    assert {name: column.dropna().to_dict() for name, column in found.items()} == {
        "success/train": {1: 0.25, 2: 0.5},
        "rollout/episodes": {1: 8, 2: 16},
        "rollout/entropy": {1: 0.5},
        dropped: {2: 0.75},
    }
    assert curve_of(lines[2:3]).empty


def test_a_panel_is_a_metric_and_a_line_a_setting() -> None:
    entropy = "rollout/entropy"
    runs = [
        run("ppo", 0, {entropy: {1: 1.0, 2: 2.0}, "rollout/unparsed_actions": {1: 0.0, 2: 0.0}}),
        run("ppo", 1, {entropy: {1: 3.0, 2: 2.0}, "success/by_task/w2": {1: 0.5}}),
        run("grpo", 0, {}),
    ]
    found = metric_panels(runs)
    assert [(panel.title, panel.unit) for panel in found] == [("success in w2", "share"), ("entropy", "nats a token")]
    assert list(found[1].lines) == ["ppo"]  # grpo has no entropy
    line = found[1].lines["ppo"]
    assert line[["mean", "low", "high"]].to_numpy().tolist() == [[2.0, 1.0, 3.0], [2.0, 2.0, 2.0]]


def test_an_alarm_is_a_mark_on_its_metrics_curve_and_on_success() -> None:
    alarm = Alarm(2, "entropy_up", "it grew", "a smaller rate", metric="rollout/entropy")
    ill = replace(run("ppo", 0, {"rollout/entropy": {1: 1.0, 2: 2.0}}), alarms=[alarm])
    runs = [ill, run("ppo", 1, {"rollout/entropy": {1: 1.0, 2: 2.0}})]
    for metric in ("success/train", "rollout/entropy"):
        assert over_seeds(runs, metric)["alarm"].to_dict() == {1: False, 2: True}
        panels = (Panel("", "", {"a": over_seeds(own, metric)}) for own in (runs, runs[1:]))
        marked, plain = (draw_panels("training", [panel]) for panel in panels)
        assert marked.count("<use") == plain.count("<use") + 1
    assert not over_seeds(runs, "rollout/episodes")["alarm"].any()
    assert "Triangles are alarms (docs/health.md): ppo-s0: entropy_up in step 2." in curves(runs)[0].note
