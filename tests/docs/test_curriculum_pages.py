"""docs/mixtures.md and docs/curriculum.md: their examples run, their commands compose, their tables
name what exists."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

from turngrid.config.compose import Composer
from turngrid.config.schema import Curriculum
from turngrid.tasks.budget import allocate_budget
from turngrid.tasks.mixture import shares

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("mixtures", "curriculum")}


def test_the_studys_mixture_has_its_games(composed: Composer) -> None:
    (command,) = re.findall("^python -m train (.*w2-o12-q4.*)$", PAGES["mixtures"].replace("\\\n", " "), re.MULTILINE)
    config = composed(shlex.split(command, comments=True))
    assert shares(config.env.tasks, allocate_budget(config).games) == {"w2-o12-q4": 2500, "w8-o3-q4": 2500}


def test_every_key_is_on_the_page() -> None:
    for field in fields(Curriculum):
        assert field.name == "name" or f"`curriculum.{field.name}`" in PAGES["curriculum"]
    for option in (ROOT / "conf" / "curriculum").glob("*.yaml"):
        assert f"`curriculum={option.stem}`" in PAGES["curriculum"]
