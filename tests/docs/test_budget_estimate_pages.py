"""docs/budget.md and docs/cost_estimate.md: their examples print what they say, their commands
compose, their tables are whole."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from turngrid.config.base import CONF
from turngrid.config.checks.check import CHECKS
from turngrid.config.compose import Composer
from turngrid.config.schema import Budget, Demos
from turngrid.experiments.stages.ledger import Entry
from turngrid.records.models.gpus import GPUS

ROOT = Path(__file__).parents[2]
BUDGET, ESTIMATE = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("budget", "cost_estimate"))
# sweeps are composed by test_sweep_files.py
COMMAND = re.compile(r"^python -m train (?!-m sweep=)([^#\n]+)", re.MULTILINE)
SHARES = "0,0.2,0.4,0.6,0.8,1"
NOT_HERE = {"bad_model", "bad_demonstrations"}  # rules that look for the run folders that the pages call NAME


def test_the_commands_compose_and_are_not_refused(composed: Composer) -> None:
    commands = COMMAND.findall(BUDGET + ESTIMATE)
    assert len(commands) == 10
    rules = [rule for rule in CHECKS if rule.__name__ not in NOT_HERE]
    for words in commands:
        one = words.replace("-m ", "").replace("seed=0,1,2", "seed=2")
        for share in ("0", "0.6", "1") if SHARES in one else ("",):
            config = composed(one.replace(SHARES, share).split())
            assert [problem for rule in rules for problem in rule(config)] == []


def test_every_option_key_and_field_is_on_the_page() -> None:
    options = [path.stem for path in (CONF / "budget").glob("*.yaml")]
    keys = [f"budget.{f.name}" for f in fields(Budget) if f.name not in ("name", "rl_epochs")]
    keys += [f"demos.{f.name}" for f in fields(Demos)]
    named = [*(f"budget={option}" for option in options), *keys, *(f.name for f in fields(Entry))]
    assert [name for name in named if f"`{name}" not in BUDGET] == []
    assert [name for name in GPUS if f"`{name}" not in ESTIMATE] == []
