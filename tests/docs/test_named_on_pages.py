"""Pages name every key of their nodes, and every option, task and outcome that they are about."""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from turngrid.config.base import CONF
from turngrid.config.schema import Budget, Curriculum, Demos, Eval
from turngrid.envs.alfworld.kinds import MIXTURES, TYPES
from turngrid.envs.registry import ENVIRONMENTS, environment_class, spec
from turngrid.envs.sandbox.types import Level, Outcome
from turngrid.experiments.stages.ledger import Entry
from turngrid.records.models.gpus import GPUS

DOCS = Path(__file__).parents[2] / "docs"


def keys(node: str, kind: Any, *without: str) -> list[str]:
    return [f"{node}.{field.name}" for field in fields(kind) if field.name not in ("name", *without)]


def options(group: str) -> list[str]:
    return [f"{group}={file.stem}" for file in (CONF / group).glob("*.yaml")]


NAMED: dict[str, Iterable[str]] = {
    "alfworld": ["env.task", *MIXTURES, *TYPES],
    "budget": [*options("budget"), *keys("budget", Budget, "rl_epochs"), *keys("demos", Demos)],
    "cost_estimate": GPUS,
    "curriculum": [*options("curriculum"), *keys("curriculum", Curriculum)],
    "evaluation": keys("eval", Eval),
    "openenv": ["env.task"],
    "sandbox": [*Outcome, *Level],
}
for name in (name for name in ENVIRONMENTS if (DOCS / f"{name}.md").exists()):
    NAMED[name] = [*NAMED.get(name, ()), *keys("env", environment_class(spec(name)).Settings)]


@pytest.mark.parametrize("page", NAMED)
def test_a_page_names_them_all(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert [name for name in NAMED[page] if f"`{name}" not in text] == []


def test_the_ledgers_fields_are_on_the_page_of_the_budget() -> None:
    text = (DOCS / "budget.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(Entry) if f"`{field.name}" not in text] == []
