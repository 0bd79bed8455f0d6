"""A worker plays thousands of games; it must not grow with them."""

import gc
import os
import shutil
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from alfworld_stock import one_of_each

from turngrid.envs import registry
from turngrid.envs.alfworld import engine, text
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.types import TaskRef

BLANK = TaskRef("alfworld", "all_types", {}, 0, "train", "", "", "", (), "", 1.0)


def resident_mib():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def copies(tasks, folder, count):
    """The same games under ever new paths, as a training run's worker sees them."""
    for number in range(count):
        task = tasks[number % len(tasks)]
        path = folder / f"{number}" / "game.z8"
        path.parent.mkdir()
        for suffix in (".z8", ".json"):
            shutil.copy(Path(task.game_file).with_suffix(suffix), path.with_suffix(suffix))
        yield replace(task, game_file=str(path))


def grown(env, tasks):
    for task in tasks:
        env.reset(task, 0)
        env.step("look")
    return resident_mib()


def test_resets_of_new_games_do_not_grow_the_process(custom_games, tmp_path):
    """Loading one game over another, as TextWorld does, leaks 0.4 MiB a time: 40 MiB here."""
    env = registry.make_environment("textworld").env()
    games = list(copies(custom_games, tmp_path, 150))
    before = grown(env, games[:50])
    assert grown(env, games[50:]) - before < 10
    env.close()


# ALFWorld


def resets(env, tasks, count):
    for number in range(count):
        task = tasks[number % len(tasks)]
        env.reset(task, 0)
        env.step(task.expert_plan[0])
    return resident_mib()


@pytest.fixture(scope="module")
def tasks(game_cache):
    return list(one_of_each(game_cache).values())


def test_envs_hand_their_library_on(tasks):
    """Each library loaded anew would keep 2.5 MiB: 250 MiB here."""
    before = resident_mib()
    for _ in range(100):
        env = registry.make_environment("alfworld").env()
        env.reset(tasks[0], 0)
        env.close()
    assert resident_mib() - before < 30


def test_caches_are_bounded(tasks):
    env = registry.make_environment("alfworld").env()
    resets(env, tasks, 12)
    env.close()
    assert engine.translate.cache_info().maxsize <= 16
    for cache in (text._parse, text._symbols, text._code, text._query):
        assert cache.cache_info().maxsize <= 1024


def test_hundreds_of_resets_do_not_grow_the_process(tasks):
    env = registry.make_environment("alfworld").env()
    before = resets(env, tasks, 30)
    assert resets(env, tasks, 500) < 1.1 * before
    env.close()
    assert engine._FREE_LIBRARIES


@pytest.mark.slow
def test_many_games_in_one_worker_leave_its_memory_flat(tmp_path):
    """80 games made and 240 loaded, many more than are kept in memory."""
    environment = registry.make_environment("alfworld")
    params = environment.for_split(environment.parse_task("all_types"), "train")
    tasks = []
    for number in range(80):
        folder = tmp_path / str(number)
        folder.mkdir()
        record = environment.make_game(params, number, folder)
        path, sha256 = str(folder / record.file), environment.game_sha256(folder / record.file)
        tasks.append(replace(BLANK, game_file=path, sha256=sha256, expert_plan=record.expert_plan))
        if number == 30:
            made = resident_mib()
    assert resident_mib() < 1.1 * made
    env = environment.env()
    before = resets(env, tasks, 40)
    assert resets(env, tasks, 200) < 1.1 * before
    env.close()


# Others

GAMES = {
    "babyai": "GoToLocal",
    "bfcl": "long_context",
    "crafting": "d2",
    "scienceworld": "find-non-living-thing",
    "search": "h1-4",
    "sokoban": "s6-b1",
    "textworldexpress": "coin",
    "webshop": "a2-o2",
}


def sizes(env, games, count):
    """MiB of this process, then of its JVM if it has one, after so many resets."""
    for number in range(count):
        task = games[number % len(games)]
        env.reset(task, 0)
        env.step(task.expert_plan[0])
        if number % 50 == 49:
            gc.collect()  # beside pytest's own objects Python does so rarely
    java = [child for child in psutil.Process().children() if child.name() == "java"]
    return [process.memory_info().rss / 2**20 for process in (psutil.Process(), *java)]


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_a_thousand_resets_do_not_grow_the_process_nor_its_jvm(name, game_cache):
    if name in ("scienceworld", "textworldexpress") and shutil.which("java") is None:
        pytest.skip("there is no java on the PATH")
    environment = registry.make_environment(name)
    games = Catalogue(environment, game_cache).tasks(GAMES[name], "test", 5, workers=1, progress=False)
    env = environment.new_env()
    before, *java = sizes(env, games, 300)
    after, *java_after = sizes(env, games, 1000)
    assert after < before + 10
    assert all(then < now + 60 and then < 800 for now, then in zip(java, java_after, strict=True))  # a bounded heap
