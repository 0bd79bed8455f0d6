"""docs/budget.md and docs/cost_estimate.md: their examples print what they say, their commands
compose, their tables are whole."""

from dataclasses import fields
from pathlib import Path

from turngrid.config.base import CONF
from turngrid.config.schema import Budget, Demos
from turngrid.experiments.stages.ledger import Entry
from turngrid.records.models.gpus import GPUS

ROOT = Path(__file__).parents[2]
BUDGET, ESTIMATE = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("budget", "cost_estimate"))


def test_every_option_key_and_field_is_on_the_page() -> None:
    options = [path.stem for path in (CONF / "budget").glob("*.yaml")]
    keys = [f"budget.{f.name}" for f in fields(Budget) if f.name not in ("name", "rl_epochs")]
    keys += [f"demos.{f.name}" for f in fields(Demos)]
    named = [*(f"budget={option}" for option in options), *keys, *(f.name for f in fields(Entry))]
    assert [name for name in named if f"`{name}" not in BUDGET] == []
    assert [name for name in GPUS if f"`{name}" not in ESTIMATE] == []
