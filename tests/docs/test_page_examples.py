"""Python examples of pages run, and print what the page shows."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from turngrid.envs.jvm.machine import close_all

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("alfworld", "env", "reward", "repo_repair", "swegym", "sokoban", "crafting", "search", "webshop", "babyai")
NAMES += ("bfcl", "scienceworld", "textworldexpress")
# Code that does not begin with the name of a file; the output that follows it, or in comments
EXAMPLE = re.compile(r"```python\n((?!# \S+/).*?)```(?:\n\n(?:prints|printed)\n\n```(?:text)?\n(.*?)```)?", re.DOTALL)
PAGES = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in NAMES}


def marks(page: str) -> list[pytest.MarkDecorator]:
    without = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java on the PATH")
    return [pytest.mark.slow, without] if "needs a JRE" in PAGES[page] else []


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page)) for page in NAMES])
def test_examples_print_what_the_page_shows(page: str, output_of: Callable[[str], str]) -> None:
    examples = EXAMPLE.findall(PAGES[page])
    assert examples
    for code, shown in examples:
        printed = output_of(code)
        close_all()
        wanted = shown.splitlines() or re.findall(r"# (\[.*\])$", code, re.MULTILINE)
        assert printed and (not wanted or list(map(str.rstrip, printed.splitlines())) == list(map(str.rstrip, wanted)))


def test_the_sandbox_example_runs(output_of: Callable[[str], str]) -> None:
    """What it prints differs between machines."""
    [(example, _)] = EXAMPLE.findall((DOCS / "sandbox.md").read_text(encoding="utf-8"))
    level, outcome = output_of(example).splitlines()
    assert level in ("bubblewrap", "limits")
    assert outcome.startswith("finished ")
    if level != "limits":
        assert "b'/repo\\n'" in outcome
        assert not Path("/usr/x").exists()
