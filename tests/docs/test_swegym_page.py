"""The examples of docs/swegym.md and docs/sandbox.md run and print what the pages say."""

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/swegym.md").read_text()
SANDBOX = (ROOT / "docs/sandbox.md").read_text()
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def test_the_episode_goes_as_the_page_tells(output_of: Callable[[str], str]) -> None:
    [(kind, example), (plain, printed)] = BLOCK.findall(PAGE)
    assert (kind, plain) == ("python", "")
    assert output_of(example) == printed


def test_the_sandbox_example_runs(output_of: Callable[[str], str]) -> None:
    [(_, example)] = BLOCK.findall(SANDBOX)
    level, outcome = output_of(example).splitlines()
    assert level in ("bubblewrap", "limits")
    assert outcome.startswith("finished ")
    if level != "limits":
        assert "b'/repo\\n'" in outcome
        assert not Path("/usr/x").exists()
