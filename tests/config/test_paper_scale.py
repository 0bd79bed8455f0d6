"""``scale=paper`` of an ``algo=`` sets what docs/methods.md says of it."""

import re

import pytest
import yaml
from omegaconf import OmegaConf

from turngrid.algorithms.registry import words
from turngrid.config.base import ROOT
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer

PAGE = (ROOT / "docs" / "methods.md").read_text()
ROW = re.compile(r"^\| ((?:`algo=\w+`(?:, )?)+) \| ((?:`[\w.]+=\S+`(?:, )?)+) \|", re.MULTILINE)
ROWS = [(algo, keys) for names, keys in ROW.findall(PAGE) for algo in re.findall(r"`algo=(\w+)`", names)]


@pytest.mark.parametrize(("algo", "keys"), ROWS)
def test_a_word_has_its_papers_values(composed: Composer, algo: str, keys: str) -> None:
    env = ["env=search"] if algo == "igpo" else []  # it compares with the right answer
    config = composed([f"algo={algo}", "scale=paper", "model.path=asset://tiny", *env])
    check(config)
    wanted = {key: yaml.safe_load(value) for key, value in re.findall(r"`([\w.]+)=(\S+)`", keys)}
    assert {key: OmegaConf.select(config, key) for key in wanted} == wanted


def test_the_page_has_rows_of_words_that_exist() -> None:
    assert len(ROWS) >= 7 and {algo for algo, _ in ROWS} <= set(words())
