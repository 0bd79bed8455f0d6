"""The rooms that start in a blink: nothing heavy is imported, not even by way of each other."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "verl", "ray", "transformers", "tensorflow", "vllm", "datasets"}
MODULES = sorted(
    ".".join(("turngrid", *path.relative_to(ROOT).with_suffix("").parts))
    for room in ("envs", "rewards", "rollouts")
    for path in (ROOT / room).rglob("*.py")
    if path.name != "__init__.py"
)


def fresh(code):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    return set(out.stdout.split())


def test_the_light_rooms_import_nothing_heavy():
    assert {"turngrid.envs.hosting.pool", "turngrid.rewards.registry", "turngrid.rollouts.loop"} <= set(MODULES)
    loaded = fresh(f"import sys, {', '.join(MODULES)}\nprint(*sys.modules)")
    assert {"turngrid.envs.textworld.env", "turngrid.rollouts.loop"} <= loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize(
    "module",
    [
        "turngrid.envs.registry",
        "turngrid.envs.games.catalogue",
        "turngrid.envs.hosting.pool",
        "turngrid.envs.textworld.environment",
        "turngrid.rewards.registry",
    ],
)
def test_what_a_driver_imports_leaves_textworld_alone(module):
    """TextWorld takes a second or more to import: only workers and makers pay for it."""
    assert "textworld" not in fresh(f"import sys, {module}\nprint(*sys.modules)")


def test_a_games_address_in_the_cache_is_known_without_textworld():
    """A run whose games are there need not import what makes them."""
    make = "import sys\nfrom turngrid.envs.registry import make_environment\n"
    told = fresh(f"{make}print(make_environment('textworld').version, 'textworld' in sys.modules)")
    assert told == {f"textworld-{metadata.version('textworld')}-2", "False"}


@pytest.mark.parametrize(
    ("name", "calls", "heavy"),
    [
        ("babyai", "env.max_turns('GoToLocal'); env.version", {"minigrid", "pygame"}),
        ("bfcl", "env.seeds(env.parse_task('all'), 'test'); env.version", {"bfcl_eval", "jsonschema"}),
        ("textarena", "env.max_turns('Sokoban-v0')", {"textarena"}),
        (
            "alfworld",
            "env.for_split(env.parse_task('all_types'), 'test'); env.max_turns('one_type'); env.version",
            {"textworld", "fast_downward", "alfworld", "numpy", "tatsu"},
        ),
    ],
)
def test_a_driver_leaves_the_library_of_the_games_alone(name, calls, heavy):
    make = f"import sys\nfrom turngrid.envs.registry import make_environment\nenv = make_environment({name!r})\n"
    assert not heavy & fresh(f"{make}{calls}\nprint(*sys.modules)")
