"""What a process with games takes: nothing heavy is imported, not even by way of each other; and a
worker, which plays thousands of games, does not grow with them."""

import gc
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import psutil
import pytest
from alfworld_stock import one_of_each

from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "verl", "ray", "transformers", "tensorflow", "vllm", "datasets"}
MODULES = sorted(
    ".".join(("turngrid", *path.relative_to(ROOT).with_suffix("").parts))
    for room in ("envs", "rewards", "rollouts")
    for path in (ROOT / room).rglob("*.py")
    if path.name != "__init__.py"
)


def fresh(code):
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    return set(out.stdout.split())


def test_the_light_rooms_import_nothing_heavy():
    assert {"turngrid.envs.hosting.pool", "turngrid.rewards.registry", "turngrid.rollouts.loop"} <= set(MODULES)
    loaded = fresh(f"import sys, {', '.join(MODULES)}\nprint(*sys.modules)")
    assert {"turngrid.envs.textworld.environment", "turngrid.rollouts.loop"} <= loaded
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


# ---- memory


def resets(env, tasks, count):
    """MiB of this process after so many resets."""
    for number in range(count):
        task = tasks[number % len(tasks)]
        env.reset(task, 0)
        env.step(task.expert_plan[0])
        if number % 50 == 49:
            gc.collect()  # beside pytest's own objects Python does so rarely
    return psutil.Process().memory_info().rss / 2**20


def copied(task, folder):
    """The same game under a new path, as a training run's worker sees it."""
    folder.mkdir()
    for suffix in (".z8", ".json"):
        shutil.copy(Path(task.game_file).with_suffix(suffix), folder / f"game{suffix}")
    return replace(task, game_file=str(folder / "game.z8"))


def test_resets_of_new_games_do_not_grow_the_process(custom_games, tmp_path):
    """Loading one game over another, as TextWorld does, leaks 0.4 MiB a time: 40 MiB here."""
    env = registry.make_environment("textworld").env()
    games = [copied(custom_games[number % len(custom_games)], tmp_path / str(number)) for number in range(150)]
    before = resets(env, games[:50], 50)
    assert resets(env, games[50:], 100) - before < 10
    env.close()


def test_envs_of_alfworld_hand_their_library_on_and_do_not_grow(game_cache):
    """Each library loaded anew would keep 2.5 MiB: 250 MiB here."""
    environment, tasks = registry.make_environment("alfworld"), list(one_of_each(game_cache).values())
    env = environment.env()
    before = resets(env, tasks, 0)
    for _ in range(100):
        env.reset(tasks[0], 0)
        env.close()
        env = environment.env()
    assert resets(env, tasks, 0) - before < 30
    before = resets(env, tasks, 30)
    assert resets(env, tasks, 500) < 1.1 * before
    env.close()


GAMES = {
    "alfworld": "all_types",
    "babyai": "GoToLocal",
    "bfcl": "long_context",
    "crafting": "d2",
    "scienceworld": "find-non-living-thing",
    "search": "h1-4",
    "sokoban": "s6-b1",
    "textworldexpress": "coin",
    "webshop": "a2-o2",
}


def java_mib():
    return [one.memory_info().rss / 2**20 for one in psutil.Process().children() if one.name() == "java"]


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_a_thousand_resets_do_not_grow_the_process_nor_its_jvm(name, game_cache):
    if name in ("scienceworld", "textworldexpress") and shutil.which("java") is None:
        pytest.skip("there is no java on the PATH")
    environment = registry.make_environment(name)
    games = Catalogue(environment, game_cache).tasks(GAMES[name], "test", 5, workers=1, progress=False)
    env = environment.new_env()
    before, java = resets(env, games, 300), java_mib()
    assert resets(env, games, 1000) < before + 10
    assert all(then < now + 60 and then < 800 for now, then in zip(java, java_mib(), strict=True))  # a bounded heap
