"""What pages tell a reader to type is composed, and refused by no check."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_modules import page_modules

from turngrid.config.checks.check import CHECKS
from turngrid.config.compose import Composer
from turngrid.config.overrides import parse
from turngrid.experiments.sweep.definition import load
from turngrid.tasks.run import Run
from turngrid.train.play.__main__ import split_settings

ROOT = Path(__file__).parents[2]
GAMES = ("sokoban", "crafting", "search", "webshop", "babyai", "bfcl", "scienceworld", "textworldexpress", "gym")
GAMES += ("textarena",)
PAGES = ("../README", "coming_from", "tutorial", "budget", "cost_estimate", "mixtures", "curriculum", "prompt", "play")
PAGES += ("two_player", "roles", "reasoning", "async")
COMMAND = re.compile(r"^(?:\|.*`)?python -m train(?:\.play)? ([^`#<\n]+)", re.MULTILINE)
RULES = [rule for rule in CHECKS if rule.__name__ not in ("bad_model", "bad_demonstrations")]  # the hub, runs/NAME


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder with the modules and the files that the pages' reader has."""
    here = tmp_path_factory.mktemp("reader")
    for file in ("hotpotqa/train.json", "nq/train.jsonl", "wiki.jsonl"):
        (here / "sets" / file).parent.mkdir(parents=True, exist_ok=True)
        (here / "sets" / file).touch()
    with page_modules(here, "prompt.md", "extending.md", "tutorial.md"), pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        yield


def runs(words: list[str]) -> Iterator[list[str]]:
    """The runs of a grid in which each value of each key comes once."""
    values = [list(o.sweep_string_iterator()) if o.is_sweep_override() else None for o in parse(words)]
    for number in range(max(len(value) for value in values if value) if any(values) else 1):
        yield [
            f"{word.split('=')[0]}={value[number % len(value)]}" if value else word
            for word, value in zip(words, values, strict=True)
        ]


@pytest.mark.parametrize("page", [*PAGES, *(pytest.param(page, marks=pytest.mark.slow) for page in GAMES)])
def test_the_commands_of_a_page_are_accepted(composed: Composer, page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    if "needs a JRE" in text and shutil.which("java") is None:
        pytest.skip("there is no java on the PATH")
    commands = [line for line in COMMAND.findall(text.replace("\\\n", " ")) if "my_package" not in line]
    assert commands
    for command in commands:
        words = split_settings([word for word in shlex.split(command) if "=" in word])[1]
        if sweeps := [word.removeprefix("sweep=") for word in words if word.startswith("sweep=")]:
            assert load(sweeps[0]).scales
            continue
        for run in runs(words):
            config = composed(run)
            assert [problem for rule in RULES for problem in rule(Run(config))] == [], run


def test_what_a_shell_would_take_apart_is_quoted_in_sentences() -> None:
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    typed = [word for text in texts for word in re.findall(r"`([^`=\n]+\.\w+=\[?[{\"][^\"`\n][^`\n]*)`", text)]
    assert typed and [word for word in typed if word[0] != "'" or parse(shlex.split(word))[0].is_sweep_override()] == []
