"""Alarms of a run: series of metrics that are ill, and their neighbours that are not."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from turngrid.config.compose import compose
from turngrid.experiments.stages.health import RULES, Alarm, Alarms, alarms, watch
from turngrid.records.process.child import StageFailed
from turngrid.records.resume import RlFolder
from turngrid.records.run_folder import run_name
from turngrid.tasks.run import Run

DOCS = Path(__file__).parents[2] / "docs"
LIMITS: dict[str, float] = {
    name: value for name, value in dict(compose([]).health).items() if isinstance(value, int | float)
}
# rule -> (values of its metric that raise it at the last step, values that do not)
SERIES: dict[str, tuple[list[float], list[float]]] = {
    "not_finite": ([1.0, math.nan], [1.0, 1e9]),
    "grad_norm": ([1, 2, 1, 2, 19], [1, 2, 1, 2, 14]),
    "entropy_up": ([0.3] * 3 + [0.9, 0.9, 1.0], [0.3] * 3 + [0.9, 0.9, 0.8]),
    "entropy_down": ([0.3] * 3 + [0.02, 0.02, 0.02], [0.3] * 3 + [0.04, 0.04, 0.02]),
    "policy_kl": ([0.01, 0.11], [0.01, 0.09]),
    "clip_share": ([0.1, 0.31], [0.1, 0.29]),
    "mismatch": ([0.004, 0.011], [0.004, 0.009]),
    "invalid_actions": ([0.08] * 3 + [0.16, 0.17, 0.18], [0.08] * 3 + [0.12, 0.12, 0.12]),
    "unparsed_actions": ([0.0] * 3 + [0.0, 0.1, 0.2], [0.0] * 3 + [0.04, 0.05, 0.05]),
    "out_of_context": ([0.0, 0.06], [0.0, 0.05]),
    "success": ([0.5, 0.6, 0.5, 0.4, 0.3, 0.2], [0.5, 0.6, 0.5, 0.5, 0.4, 0.2]),
}


def lines_of(rule: str, values: list[float]) -> list[dict[str, Any]]:
    (metric,) = {one.metric for one in RULES if one.name == rule}
    return [{"step": step, metric: value} for step, value in enumerate(values, 1)]


def test_every_rule_has_a_limit_and_a_line_in_the_docs():
    page = re.findall(r"^\| `(\w+)` \| `([^`]+)`.*\| ([^|]+) \|$", (DOCS / "health.md").read_text(), re.MULTILINE)
    shown = {name: (metric, limit.split()[0]) for name, metric, limit in page}
    assert {*SERIES} == {*LIMITS} == {*shown}
    for rule in RULES:
        assert shown[rule.name] == (rule.metric, f"{LIMITS[rule.name]:g}")


@pytest.mark.parametrize("rule", SERIES)
def test_an_alarm_is_raised_where_it_begins_and_only_there(rule: str):
    ill, well = (lines_of(rule, values) for values in SERIES[rule])
    raised = [alarm for count in range(1, len(ill) + 1) for alarm in alarms(ill[:count], LIMITS)]
    assert [(alarm.step, alarm.name) for alarm in raised if alarm.name == rule] == [(len(ill), rule)]
    going_on = [*ill, {**ill[-1], "step": len(ill) + 1}]
    assert rule == "grad_norm" or rule not in {alarm.name for alarm in alarms(going_on, LIMITS)}
    assert rule not in {a.name for count in range(1, len(well) + 1) for a in alarms(well[:count], LIMITS)}
    assert not list(alarms(ill, {name: limit for name, limit in LIMITS.items() if name != rule}))


def test_a_resumed_run_does_not_repeat_its_alarms(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rl, lines = RlFolder(tmp_path), lines_of("policy_kl", [0.0, 0.5, 0.0, 0.5])
    Alarms(rl, LIMITS, stops=False)(lines[:2])
    told = capsys.readouterr().err
    assert "alarm: step 2: policy_kl: actor/ppo_kl: 0.5 is above 0.1;" in told and told.count("alarm") == 1
    again = Alarms(rl, LIMITS, stops=False)
    again(lines[:2])
    assert not capsys.readouterr().err
    again(lines)
    assert "step 4" in capsys.readouterr().err
    kept = [Alarm(**json.loads(line)) for line in rl.alarms.read_text().splitlines()]
    assert [(alarm.step, alarm.name) for alarm in kept] == [(2, "policy_kl"), (4, "policy_kl")]


def test_health_says_what_an_alarm_does(tmp_path: Path):
    lines = lines_of("policy_kl", [0.0, 0.5])
    stop, off, mild = (
        Run(compose([word]), tmp_path) for word in ("health=stop", "health=off", "health.policy_kl=null")
    )
    with pytest.raises(StageFailed, match=r"health=stop: step 2: policy_kl: (.|\n)*the same command goes on"):
        watch(stop)(lines)
    watch(stop)(lines)  # told: the run goes on
    for run in (off, mild):
        watch(run)(lines_of("policy_kl", [0.0, 0.5, 0.0, 0.5]))
    assert len((tmp_path / "rl" / "alarms.jsonl").read_text().splitlines()) == 1
    assert run_name(stop.config) == run_name(compose([])), "who watches a run does not change it"
