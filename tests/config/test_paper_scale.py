"""``scale=paper`` of each ``algo=``: what docs/methods.md says of it, and nothing else."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from turngrid.algorithms.registry import ALGORITHMS, base_of, words
from turngrid.config.checks.check import check
from turngrid.config.compose import composer
from turngrid.config.method_settings import PAPER
from turngrid.records.run_folder import flattened

PAGE = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
ROW = re.compile(r"^\| ((?:`algo=\w+`(?:, )?)+) \| ((?:`[\w.]+=\S+`(?:, )?)+) \|", re.MULTILINE)
WORDS = [word for word in words() if base_of(word) in ALGORITHMS and base_of(word) != word]


def told() -> dict[str, dict[str, Any]]:
    """By ``algo=``, what its paper sets, as the page has it."""
    found: dict[str, dict[str, Any]] = {}
    for names, keys in ROW.findall(PAGE):
        pairs = [pair.split("=", 1) for pair in re.findall(r"`([\w.]+=\S+)`", keys)]
        for name in re.findall(r"`algo=(\w+)`", names):
            found[name] = {key: yaml.safe_load(value) for key, value in pairs}
    return found


Flat = Callable[[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def flat() -> Iterator[Flat]:
    """Of an ``algo=`` at a scale, every key; what is refused is refused here."""
    with composer() as compose:

        @cache
        def flat(algo: str, scale: str) -> dict[str, Any]:
            env = ["env=search"] if algo == "igpo" else []  # it compares with the right answer
            config = compose([f"algo={algo}", f"scale={scale}", "model.path=asset://tiny", *env])
            if scale == PAPER:
                check(config)
            return dict(flattened(OmegaConf.to_container(config, resolve=True)))

        yield flat


def apart(flat: Flat, algo: str, scale: str) -> dict[str, Any]:
    """Where the word differs from the algorithm that it is built on."""
    own, base = flat(algo, scale), flat(base_of(algo), scale)
    return {key: value for key, value in own.items() if key not in base or base[key] != value}


FOLLOWING = (
    "ppo_mini_batch_size",
    "micro_batch_size",
    "rollout_n",
    "rl_steps",
    "max_action_tokens",
)  # from sizes and prompt


def test_the_page_has_rows_and_knows_their_words() -> None:
    assert len(told()) >= 7 and set(told()) <= set(WORDS)


@pytest.mark.parametrize(
    "algo", [word if word in told() else pytest.param(word, marks=pytest.mark.slow) for word in WORDS]
)
def test_a_word_at_its_papers_scale_differs_as_the_page_says(flat: Flat, algo: str) -> None:
    here, there = apart(flat, algo, "laptop"), apart(flat, algo, PAPER)
    moved = {key: value for key, value in there.items() if key not in here or here[key] != value}
    chosen = {key: value for key, value in moved.items() if not any(part in key for part in FOLLOWING)}
    assert chosen == told().get(algo, {})
