"""docs/prompt.md: its commands are accepted, its example works, its tables name what exists."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from usual import form_of

from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.schema import Prompt
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ExpertPolicy
from turngrid.rollouts.prompt_forms.registry import PROMPTS, prompt_class, prompt_form

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "prompt.md").read_text(encoding="utf-8")
LAMPS = re.compile(r"```python\n# (lamps/\w+).py\n(.*?)```", re.DOTALL)
LAST_LINE, CALLED_LAMPS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's modules, and extending.md's lamps, where Python finds them; the games' processes
    too."""
    (tmp_path / "lamps").mkdir()
    files = {"last_line_form": LAST_LINE, "called_lamps": CALLED_LAMPS}
    files |= dict(LAMPS.findall((DOCS / "extending.md").read_text(encoding="utf-8")))
    for name, code in files.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    yield tmp_path
    for name in ("last_line_form", "called_lamps", "lamps.environment", "lamps.expert", "lamps"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("examples")
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


@pytest.mark.usefixtures("examples")
def test_the_example_works() -> None:
    config = compose(["prompt=react", "prompt.name=last_line_form:LastLine", "prompt.history=2"])
    check(config)
    form = prompt_form(config.prompt)
    assert form.history == 2
    answer = form.read(form.demonstrate("win", ["go east", "look"]))
    assert (answer.action, answer.thought) == ("go east", "My plan is to go east, then look.")
    assert form.read(text := "a\nb\ngo").begins == text.rindex("go")
    assert form.format_error == "No action could be read in your answer."


def test_lamps_are_lit_by_calls(examples: Path, runner: asyncio.Runner) -> None:
    """The expert's commands as calls, in the environment's own process."""
    name = "called_lamps:CalledLamps"
    environment = make_environment(name)
    (task,) = Catalogue(environment, str(examples / "cache")).tasks("lamps-4", "train", 1, progress=False)
    spec = EpisodeSpec(task, environment.prompt, 4, form=form_of("tool_call"))

    async def play() -> Episode:
        async with EnvPool(name, 1, 60.0) as pool:
            return await run_episode(ExpertPolicy(), await pool.open(), spec, None)

    episode = runner.run(play())
    assert episode.won and [turn.action for turn in episode.turns] == list(task.expert_plan)
    calls = [json.loads(turn.response) for turn in episode.turns]
    lamps = [action.removeprefix("light ") for action in task.expert_plan]
    assert calls == [{"name": "light", "arguments": {"lamp": lamp}} for lamp in lamps]
    assert "\nlight(lamp): light the lamp of that number\n" in episode.messages[0]["content"]
    assert (
        form_of("tool_call").read('{"name": "light", "arguments": {"lamp": 2}}', environment.prompt.functions).action
        == "light 2"
    )
