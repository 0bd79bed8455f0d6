"""docs/alfworld.md: its examples run, and what its tables name exists."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from turngrid.envs.alfworld.environment import AlfWorldSettings
from turngrid.envs.alfworld.kinds import MIXTURES, TYPES
from turngrid.envs.extensions import shipped

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/alfworld.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(example: str, output_of: Callable[[str], str]) -> None:
    assert output_of(example)


def test_every_setting_is_in_the_yaml_and_on_the_page() -> None:
    listed = shipped("env", "alfworld")
    names = {field.name for field in fields(AlfWorldSettings)}
    assert names | {"task"} == listed.keys()
    assert listed["task"] in MIXTURES
    for name in listed:
        assert f"`env.{name}`" in PAGE


def test_the_page_names_all_tasks_and_types() -> None:
    for name in (*MIXTURES, *TYPES):
        assert f"`{name}`" in PAGE
