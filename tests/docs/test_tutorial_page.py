"""docs/tutorial.md: its module gives the numbers that it names, its commands are accepted.

docs/troubleshooting.md: the keys that it names exist, and its symptoms have threads.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from omegaconf import OmegaConf
from page_modules import page_modules

from turngrid.config.compose import Composer
from turngrid.rollouts.episode import Turn

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "algorithms"))

from example_x import example_x

TUTORIAL, TROUBLE = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("tutorial", "troubleshooting"))
KEYS = re.findall(r"`((?:env|eval|budget|cluster|actor_rollout_ref|model|demos)\.[\w.]+)`", TROUBLE)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with page_modules(tmp_path_factory.mktemp("checkout"), "tutorial.md"):
        import mine

        yield mine


def test_its_reward_charges_each_turn(mine: ModuleType) -> None:
    turns = [Turn("", ""), Turn("", ""), Turn("", "")]
    assert mine.Brisk().turn_rewards(turns, True, 1.0) == pytest.approx([-0.02, -0.02, 0.98])
    assert mine.Brisk().turn_rewards(turns, False, 1.0) == pytest.approx([-0.02] * 3)


def test_its_method_gives_the_numbers_of_the_page(mine: ModuleType) -> None:
    turns = example_x()
    credit = mine.Late()(turns, torch.ones(turns.mask.shape))
    longest = int(turns.mask.sum(dim=1).argmax())
    assert "must get 0.5, 0.5, 1" in TUTORIAL and credit[longest].tolist() == [0.5, 0.5, 1.0]


def test_keys_of_the_troubleshooting_page_exist(composed: Composer) -> None:
    config = composed([])
    missing = [key for key in KEYS if OmegaConf.select(config, key, default="none here") == "none here"]
    assert len(KEYS) > 8 and missing == []


def test_symptoms_of_the_troubleshooting_page_have_a_thread() -> None:
    tables, without = TROUBLE.split("## Without a thread")
    rows = [line for line in tables.splitlines() if line.startswith("| ") and not line.startswith("| symptom |")]
    assert [row for row in rows if not re.search(r"\]\(https://[^)]+/(issues|pull)/\d+\) \|$", row)] == []
    assert len(rows) > 30 and "https://" not in without
