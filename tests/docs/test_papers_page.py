"""docs/papers.md: what it tells a reader to type is accepted, and no method is missing."""

import re

import pytest

from benchmarks.pages import PAPERS, file_of, head_of, of_papers
from turngrid.algorithms.registry import ALGO, ESTIMATORS, SLOTS, words
from turngrid.config.checks.check import CHECKS
from turngrid.config.compose import Composer
from turngrid.tasks.run import Run

ROWS = {name: (built, entry) for built, names in of_papers().items() for name, entry in names.items()}
TYPED = sorted({entry["type"] for _, entry in ROWS.values() if "type" in entry})
WORDS = {f"{ALGO}={word}" for word in words()}  # tests/config/test_config_verl_validates.py composes them
RULES = [rule for rule in CHECKS if rule.__name__ != "bad_model"]  # it asks the hub


@pytest.mark.parametrize("typed", [typed for typed in TYPED if typed not in WORDS])
def test_what_a_reader_is_told_to_type_is_accepted(composed: Composer, typed: str) -> None:
    config = composed(typed.split(" "))
    assert re.search("=[A-Z]+$", typed) or [problem for rule in RULES for problem in rule(Run(config))] == []


def test_every_method_has_a_row() -> None:
    """Every ``algo=`` word, and every method that a paper describes, is typed by a built one, by
    itself or in an ``algo=`` word."""
    typed = {entry["type"].split(" ")[0] for built, entry in ROWS.values() if built != "no"}
    assert WORDS - typed == set()
    page = PAPERS.read_text(encoding="utf-8")
    kinds = [(slot, name) for slot in SLOTS for name in SLOTS[slot]] + [(ALGO, name) for name in ESTIMATORS]
    for slot, name in kinds:
        numbers = re.findall(r"\d{4}\.\d{5}", head_of(file_of(slot, name))["from"])
        assert all(f"| {number}" in page or f", {number}" in page for number in numbers), (slot, name)


def test_nothing_that_is_refused_exists() -> None:
    names = {name.lower() for slot in SLOTS.values() for name in slot} | {*words()}
    rows = [name.lower() for name, (built, _) in ROWS.items() if built == "no"]
    refused = {part.replace("-", "_") for name in rows for part in re.findall(r"[\w-]+", name)}
    assert refused & names == {"epo"}  # two papers have this name
