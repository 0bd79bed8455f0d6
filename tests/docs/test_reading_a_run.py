"""docs/reading_a_run.md names metrics that exist, and marks those that raise an alarm."""

import re
from pathlib import Path

from turngrid.records.health.rules import RULES
from turngrid.records.metrics import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "reading_a_run.md").read_text(encoding="utf-8")


def test_metrics_belong_to_families() -> None:
    named = {name for name in re.findall(r"`([a-z_]+/[\w/*{},]+)`", PAGE) if not name.startswith("runs/")}
    assert {name.partition("/")[0] for name in named} <= set(FAMILIES)
    assert len(named) > 20


def test_each_alarm_is_marked() -> None:
    marked = {
        name
        for line in PAGE.splitlines()
        if re.match(r"\d\.", line)
        for name in re.findall(r"`([^`]+)`[^`]{0,4} !", line)
    }
    assert {rule.metrics[0] for rule in RULES} == marked
