"""A worker plays thousands of games; it must not grow with them."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from turngrid.envs import registry


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


@pytest.mark.slow
def test_a_long_run_of_resets_does_not_grow_the_process(custom_games, tmp_path):
    env = registry.make_environment("textworld").env()
    games = list(copies(custom_games, tmp_path, 500))
    before = grown(env, games[:100])
    assert grown(env, games[100:] * 4) - before < 20
    env.close()
