"""docs/prompt.md: its commands are accepted, its examples work."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_modules import page_modules
from usual import form_of as usual_form

from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.prompts import form_of
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ExpertPolicy
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.prompt_forms.registry import prompt_form

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "prompt.md").read_text(encoding="utf-8")


@pytest.fixture
def examples(tmp_path: Path) -> Iterator[Path]:
    """The page's modules, and extending.md's lamps."""
    with page_modules(tmp_path, "prompt.md", "extending.md"):
        yield tmp_path


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


def expert_game(
    runner: asyncio.Runner, name: str, task: str, folder: Path, form: PromptForm | None = None
) -> tuple[Episode, TaskRef]:
    """A game of the expert, in the environment's own process."""
    environment = make_environment(name)
    (game,) = Catalogue(environment, str(folder / "cache")).tasks(task, "train", 1, progress=False)
    spec = EpisodeSpec(game, environment.prompt, 6, reward("dense"), form=form or usual_form("tool_call"))

    async def play() -> Episode:
        async with EnvPool(name, 1, 60.0) as pool:
            return await run_episode(ExpertPolicy(), await pool.open(), spec, None)

    return runner.run(play()), game


def test_an_answer_has_several_actions(runner: asyncio.Runner, tmp_path: Path) -> None:
    """The page's transcript is that of a real game."""
    command = re.search(r"^python -m train (env=crafting prompt.max_actions.*)$", PAGE, re.MULTILINE)
    config = compose(shlex.split(command[1]))  # type: ignore[index]
    episode, task = expert_game(runner, "crafting", "d2", tmp_path, form_of(config))
    assert episode.won and (len(task.expert_plan), len(episode.turns)) == (6, 3)
    assert f"`{form_of(config).several}`" in PAGE and form_of(config).several in episode.messages[0]["content"]
    assert "\n\n".join(message["content"] for message in episode.messages[1:5]) in PAGE
    assert [turn.received for turn in episode.turns] == [
        list(task.expert_plan[place : place + 2]) for place in (0, 2, 4)
    ]


def test_fruit_is_packed_by_several_calls(examples: Path, runner: asyncio.Runner) -> None:
    episode, task = expert_game(runner, "pantry:Pantry", "pantry", examples)
    assert episode.won and episode.score == 1.0
    assert [turn.action for turn in episode.turns] == list(task.expert_plan)
    assert [turn.rewards["dense"] for turn in episode.turns] == pytest.approx([1 / 3, 2 / 3])
    head, answer, *results = episode.messages[:4]
    assert 'pack(fruit: "apple"|"pear"|"plum", count?: integer): put fruit into the box; count: 1' in head["content"]
    assert answer["content"].endswith(task.expert_plan[0])
    assert [message["role"] for message in results] == ["tool", "tool"]
    assert results[0]["content"] == "In the box: {'apple': 0, 'pear': 0, 'plum': 0}."


def test_lamps_are_lit_by_calls(examples: Path, runner: asyncio.Runner) -> None:
    """The expert's commands as calls."""
    [(name, number)] = re.findall(r"^python -m train env.name=(called_lamps\S+) env.task=(\S+)", PAGE, re.MULTILINE)
    assert Catalogue(make_environment(name), str(examples)).listings(number, {"test": 200, "demonstrations": 60})
    episode, task = expert_game(runner, name, number, examples)
    assert episode.won and [turn.action for turn in episode.turns] == list(task.expert_plan)
    calls = [json.loads(turn.response) for turn in episode.turns]
    lamps = [action.removeprefix("light ") for action in task.expert_plan]
    assert calls == [{"name": "light", "arguments": {"lamp": lamp}} for lamp in lamps]
    assert "\nlight(lamp): light the lamp of that number\n" in episode.messages[0]["content"]
