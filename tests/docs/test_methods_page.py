"""docs/methods.md: its list of methods has every option of the slots, and only what exists."""

import re
from pathlib import Path

import pytest

from config.base import CONF

PAGE = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
LIST = PAGE.partition("## The methods")[2].partition("### At the paper's scale")[0]
NAMES = " ".join(re.findall(r"^- ((?:`[^`]+`(?:, )?)+)", LIST, re.MULTILINE))
STUDIED = {"grpo", "ppo", "rloo", "reinforce_plus_plus"}  # docs/algo.md has these
PLAIN = {"linear"}  # the default, in the table of slots


@pytest.mark.parametrize("slot", ["algo", "rollout_form", "shaping", "filter", "credit", "loss", "terms", "buffer"])
def test_the_list_has_the_options_of_a_slot(slot: str) -> None:
    cells = re.findall(rf"`{slot}=([^`]*)`", NAMES)
    named = set(re.findall(r"\w+", " ".join(cells)))
    assert named == {path.stem for path in (CONF / slot).glob("*.yaml")} - STUDIED - PLAIN
