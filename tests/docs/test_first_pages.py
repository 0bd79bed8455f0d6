"""README.md names the options that exist, each page can be found, and tables are tables."""

import re
from pathlib import Path

import pytest

from turngrid.config.base import CONF

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GROUPS = (
    "env",
    "reward",
    "prompt",
    "budget",
    "curriculum",
    "model",
    "cluster",
    "rollout",
    "tracking",
    "correction",
    "health",
)


@pytest.mark.parametrize("group", GROUPS)
def test_the_table_names_only_options(group: str) -> None:
    (row,) = re.findall(rf"^\| `{group}=` \|(.*)\|$", README, re.MULTILINE)
    named = {name for name in re.findall(r"`([\w.]+)`", row) if not name.startswith("env.")}
    options = {path.stem for path in (CONF / group).glob("*.yaml")}
    assert named <= options if group == "budget" else named == options  # the study's splits are "..."


def test_every_page_can_be_found() -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    text = README + "".join(page.read_text(encoding="utf-8") for page in pages)
    assert {page.name for page in pages} - set(re.findall(r"\((?:docs/)?(\w+\.md)", text)) == set()


def test_every_table_is_whole() -> None:
    """Rows after an empty line are no table any more: they need a head and its line of dashes."""
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            lines = table.splitlines()
            assert len(lines) > 2 and set(lines[1]) <= set("|-: "), f"{page.name}: {lines[0]}"
