"""The rooms that start in a blink: nothing heavy is imported, not even by way of each other."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

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


def test_a_driver_leaves_the_libraries_of_the_games_alone():
    """TextWorld takes a second or more to import: only workers and makers pay for it; a run whose
    games are in the cache need not import what makes them."""
    told = fresh("""
import sys
import turngrid.envs.games.catalogue, turngrid.envs.hosting.pool, turngrid.rewards.registry
import turngrid.envs.textworld.environment
from turngrid.envs.registry import make_environment
print(make_environment("textworld").version)
make_environment("textarena").max_turns("Sokoban-v0")
babyai = make_environment("babyai")
babyai.max_turns("GoToLocal"), babyai.version
bfcl = make_environment("bfcl")
bfcl.seeds(bfcl.parse_task("all"), "test"), bfcl.version
for name in ("scienceworld", "textworldexpress"):
    java = make_environment(name)
    java.seeds({"tasks": ["boil"]}, "test"), java.version
env = make_environment("alfworld")
env.for_split(env.parse_task("all_types"), "test"), env.max_turns("one_type"), env.version
print(*sys.modules)
""")
    assert f"textworld-{metadata.version('textworld')}-2" in told
    assert not {"textworld", "textarena", "fast_downward", "alfworld", "numpy", "tatsu", "minigrid", "pygame"} & told
    assert not {"bfcl_eval", "jsonschema", "py4j", "scienceworld", "textworld_express"} & told
