"""docs/mixtures.md and docs/curriculum.md: their examples run, their commands compose, their tables
name what exists."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.overrides import parse
from turngrid.config.schema import Curriculum
from turngrid.experiments.sweep.definition import load, points
from turngrid.tasks.budget import allocate_budget
from turngrid.tasks.mixture import shares

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("mixtures", "curriculum")}
ALL = "\n".join(PAGES.values())
BLOCKS = re.findall(r"```bash\n(.*?)```", ALL, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_are_accepted(composed: Composer, command: str) -> None:
    start, *overrides = shlex.split(command, comments=True)[2:]
    assert start == "train"
    if overrides[:2] == ["-m", "sweep=table5_generalisation"]:
        scale = load("table5_generalisation").scales["laptop"]
        runs = points(scale, scale.seeds, overrides[2:], {})
        assert len(runs) == 9  # those of the page
        for run in runs:
            check(composed(list(run.overrides)))
    elif overrides[0] == "-m":
        (sweep,) = parse(overrides[1:])
        overrides = [f"env.tasks={value}" for value in sweep.sweep_string_iterator()]
        assert len(overrides) == 3
        for override in overrides:
            check(composed([override]))
    else:
        check(composed(overrides))


def test_the_studys_mixture_has_its_games(composed: Composer) -> None:
    (overrides,) = [shlex.split(command)[3:] for command in COMMANDS if "w2-o12-q4" in command]
    config = composed(overrides)
    assert shares(config.env.tasks, allocate_budget(config).games) == {"w2-o12-q4": 2500, "w8-o3-q4": 2500}


def test_every_key_is_on_the_page() -> None:
    for field in fields(Curriculum):
        assert field.name == "name" or f"`curriculum.{field.name}`" in PAGES["curriculum"]
    for option in (ROOT / "conf" / "curriculum").glob("*.yaml"):
        assert f"`curriculum={option.stem}`" in PAGES["curriculum"]
