"""docs/prompt.md: its commands are accepted, its example works, its tables name what exists."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from config.checks.check import check
from config.compose import compose
from config.schema import Prompt
from rollouts.prompt_forms.registry import PROMPTS, prompt_class, prompt_form

PAGE = (Path(__file__).parents[2] / "docs" / "prompt.md").read_text(encoding="utf-8")


def test_the_commands_are_accepted() -> None:
    commands = re.findall(r"^python -m train (.*)$", PAGE.replace("\\\n", " "), re.MULTILINE)
    for command in commands:
        check(compose(shlex.split(command)))
    assert commands


def test_the_tables_name_every_form_and_key() -> None:
    title = PAGE.splitlines()[0]
    assert set(re.search(r"prompt=([\w|]+)", title)[1].split("|")) == set(PROMPTS)  # type: ignore[index]
    assert set(re.findall(r"^\| `prompt=(\w+)`", PAGE, re.MULTILINE)) == set(PROMPTS)
    keys = {field.name for kind in (Prompt, *map(prompt_class, PROMPTS)) for field in fields(kind)} - {"name"}
    rows = re.findall(r"^\| (`prompt\.\w+`[^|]*) \|", PAGE, re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"prompt\.(\w+)", row)} == keys


def test_the_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "last_line_form.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = compose(["prompt.name=last_line_form:LastLine", "prompt.history=2"])
    check(config)
    form = prompt_form(config.prompt)
    assert form.history == 2
    answer = form.read(form.demonstrate("win", ["go east", "look"]))
    assert (answer.action, answer.thought) == ("go east", "My plan is to go east, then look.")
    assert form.read(text := "a\nb\ngo").begins == text.rindex("go")
    sys.modules.pop("last_line_form")
