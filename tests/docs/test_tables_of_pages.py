"""Pages name what exists, and all of it: options, keys, tasks, metrics, games."""

import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from turngrid.algorithms.mutual_information import mutual_information
from turngrid.config.base import CONF
from turngrid.envs.alfworld.kinds import MIXTURES, TYPES
from turngrid.envs.gym.games import GAMES, known
from turngrid.envs.registry import ENVIRONMENTS, environment_class, make_environment, spec
from turngrid.envs.repair.bugs import LINES, SUITES, TESTS, UNSEEN
from turngrid.envs.sandbox.types import Level, Outcome
from turngrid.envs.textarena.environment import KNOWN
from turngrid.experiments.stages.ledger import Entry
from turngrid.records.health.rules import RULES
from turngrid.records.metrics import FAMILIES
from turngrid.records.models.gpus import GPUS
from turngrid.rollouts.prompt_forms.registry import PROMPTS, prompt_class
from turngrid.tasks.schema import Budget, Curriculum, Demos, Eval, Prompt

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
GROUPS = ("env", "reward", "prompt", "budget", "curriculum", "model", "cluster", "rollout", "tracking", "correction")


@cache
def text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("group", [*GROUPS, "health"])
def test_readmes_table_names_only_options(group: str) -> None:
    (row,) = re.findall(rf"^\| `{group}=` \|(.*)\|$", text("../README"), re.MULTILINE)
    named = {name for name in re.findall(r"`([\w.]+)`", row) if not name.startswith("env.")}
    options = {path.stem for path in (CONF / group).glob("*.yaml")}
    assert named <= options if group == "budget" else named == options  # the study's splits are "..."


def test_every_page_can_be_found() -> None:
    links = re.compile(r"\((?:docs/)?(\w+\.md)")
    found = {name for page in PAGES for name in {*links.findall(page.read_text(encoding="utf-8"))} - {page.name}}
    assert {page.name for page in DOCS.glob("*.md")} - found == set()


def outside_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", outside_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    for page in PAGES:
        for file, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([\w-]*)\)", outside_code(page)):
            linked = page.parent / file if file else page
            assert linked.exists(), f"{page.name}: {file}"
            assert not anchor or anchor in anchors(linked), f"{page.name}: {file}#{anchor}"


def test_every_table_is_whole() -> None:
    """Rows after an empty line are no table any more: they need a head and its line of dashes."""
    for page in PAGES:
        for table in re.findall(r"(?:^\|.*\n)+", outside_code(page), re.MULTILINE):
            lines = table.splitlines()
            assert len(lines) > 2 and set(lines[1]) <= set("|-: "), f"{page.name}: {lines[0]}"


# ---- keys and options


def keys(node: str, kind: Any, *without: str) -> list[str]:
    return [f"{node}.{field.name}" for field in fields(kind) if field.name not in ("name", *without)]


def options(group: str) -> list[str]:
    return [f"{group}={file.stem}" for file in (CONF / group).glob("*.yaml")]


NAMED: dict[str, Iterable[str]] = {
    "alfworld": ["env.task", *MIXTURES, *TYPES],
    "budget": [
        *(*options("budget"), *keys("budget", Budget, "rl_epochs"), *keys("demos", Demos)),
        *(field.name for field in fields(Entry)),
    ],
    "cost_estimate": GPUS,
    "curriculum": [*options("curriculum"), *keys("curriculum", Curriculum)],
    "evaluation": keys("eval", Eval),
    "openenv": ["env.task"],
    "sandbox": [*Outcome, *Level],
}
for name in (name for name in ENVIRONMENTS if (DOCS / f"{name}.md").exists()):
    NAMED[name] = [*NAMED.get(name, ()), *keys("env", environment_class(spec(name)).Settings)]


@pytest.mark.parametrize("page", NAMED)
def test_a_page_names_them_all(page: str) -> None:
    assert [name for name in NAMED[page] if f"`{name}" not in text(page)] == []


def test_the_tables_of_prompts_name_every_form_and_key() -> None:
    page = text("prompt")
    assert set(re.search(r"prompt=([\w|]+)", page.splitlines()[0])[1].split("|")) == set(PROMPTS)  # type: ignore[index]
    assert set(re.findall(r"^\| `prompt=(\w+)`", page, re.MULTILINE)) == set(PROMPTS)
    known_keys = {field.name for kind in (Prompt, *map(prompt_class, PROMPTS)) for field in fields(kind)} - {"name"}
    rows = re.findall(r"^\| (`prompt\.\w+`[^|]*) \|", page, re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"prompt\.(\w+)", row)} == known_keys
    (refused,) = re.findall(r"^\| `prompt\.admissible` \|(.*)", page, re.MULTILINE)
    unlisted = {name for name in ENVIRONMENTS if not make_environment(name).lists_actions}
    assert {*re.findall(r"`(\w+)`", refused), "two_player"} & set(ENVIRONMENTS) == {*unlisted, "two_player"}


# ---- metrics


def test_reading_a_run_names_metrics_and_marks_those_that_raise_an_alarm() -> None:
    page = text("reading_a_run")
    named = {name for name in re.findall(r"`([a-z_]+/[\w/*{},]+)`", page) if not name.startswith("runs/")}
    assert {name.partition("/")[0] for name in named} == set(FAMILIES)
    lines = "\n".join(re.findall(r"^\d\..*", page, re.MULTILINE))
    assert {rule.metrics[0] for rule in RULES} == set(re.findall(r"`([^`]+)`[^`]{0,4} !", lines))


@pytest.mark.parametrize("page", ["reasoning", "reading_a_run"])
def test_each_metric_of_reasoning_is_explained(page: str) -> None:
    own = mutual_information(*torch.ones(3, 1, 1).unbind())
    assert not [name for name in (*own, "answers", "tokens") if f"`reasoning/{name}`" not in text(page)]
    spread = ("mean", "p10", "p90")
    assert all(f"`credit/group_std/{name}`" in text(page) or f"`{name}`" in text(page) for name in spread)


# ---- games


def test_every_game_with_a_text_is_in_the_table_of_gym() -> None:
    for name in GAMES:
        [full] = [spec for spec in gymnasium.registry if spec.rsplit("-v", 1)[0] == name]
        lines = [line for line in text("gym").splitlines() if line.startswith("| `")]
        (row,) = [line for line in lines if f"`{full}`" in line.split("|")[1]]
        environment = make_environment("gym", {"id": full})
        assert ", ".join(known(full).actions) in row and str(environment.max_turns(full)) in text("gym")
        assert ("not offered" in row) == (environment.rewards == ("sparse",))


def test_every_game_of_textarena_is_in_its_table() -> None:
    rows = [line.split("|") for line in text("textarena").splitlines() if re.match(r"\| `\w+-v0", line)]
    assert {name: int(row[4]) for row in rows for name in re.findall(r"`([^`]+)`", row[1])} == KNOWN


def test_no_line_of_a_yaml_file_is_too_long() -> None:
    for folder in ("conf", "docs", "experiments", "recipes", "sweeps"):
        for file in (DOCS.parent / folder).rglob("*.yaml"):
            assert max(map(len, file.read_text(encoding="utf-8").splitlines())) <= 120, file


def test_the_tables_of_repairs_say_what_the_code_does() -> None:
    lines = text("repo_repair").splitlines()
    for size, (low, high) in LINES.items():
        row = next(line for line in lines if line.startswith(f"| `lines-{size}`"))
        assert f"| {low}-{high} |" in row
        assert row.endswith(f"| {make_environment('repo_repair').max_turns(f'lines-{size}')} |")
    for name, tests in TESTS.items():
        size = next(size for size, (low, high) in SUITES.items() if low <= tests <= high)
        trained_on, held_out = next(line for line in lines if line.startswith(f"| {size} |")).split("|")[2:4]
        assert f"`{name}` {tests}" in (held_out if name in UNSEEN else trained_on)
    defaults = make_environment("repo_repair").settings
    assert f"| {defaults.tests_deadline_s:g}, {defaults.memory_mib} |" in text("repo_repair")
    assert f"| {defaults.show_lines}, {defaults.show_chars} |" in text("repo_repair")
