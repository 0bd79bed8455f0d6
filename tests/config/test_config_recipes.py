"""Every recipe composes, is not refused, and says which figure it should reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngrid.config.base import ROOT
from turngrid.config.checks.check import check
from turngrid.config.compose import compose

RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_can_be_launched(path: Path) -> None:
    assert check(compose([f"recipe={path.stem}"])) == []


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_names_its_figure(path: Path) -> None:
    """In the comment at its head: success in %, games, seeds."""
    head = path.read_text(encoding="utf-8").split("defaults:")[0]
    assert all(word in head for word in ("%", "games", "seed")), head


def test_there_are_recipes() -> None:
    assert RECIPES
