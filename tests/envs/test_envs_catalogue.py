"""Which games a split holds, how they get into the cache, and what a kill leaves behind: whole
games or none, and no process."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from made import gone
from omegaconf import OmegaConf

from turngrid.envs import registry
from turngrid.envs.games.catalogue import SPLITS, Catalogue, games_hash
from turngrid.envs.types import EnvError, TaskError

MAKE = """
from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue, games_hash
environment = registry.make_environment("fragile:Fragile")
print(games_hash(Catalogue(environment, sys.argv[1]).tasks("slow", "test", 8, workers=2, progress=False)), flush=True)
"""


def seeds(tasks):
    return [task.seed for task in tasks]


def run_script(script, *arguments):
    whole = f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n{script}"
    command = [sys.executable, "-c", whole, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def test_the_first_accepted_seeds_are_listed_whatever_the_workers(fragile, tmp_path):
    """Also inside a running event loop, as in a longer list, and, once made, without a process."""

    async def listing(count):
        return fragile.listings("fast", {"test": count}, workers=1, progress=False)["test"]

    listed = asyncio.run(listing(5))
    assert seeds(listed.tasks) == [1, 2, 4, 5, 7]
    assert listed.rejected == [(3, "divisible by three"), (6, "divisible by three")]
    other = Catalogue(registry.make_environment("fragile:Fragile"), tmp_path / "other")
    longer = other.tasks("fast", "test", 8, workers=3, progress=False)
    assert games_hash(longer[:5]) == games_hash(listed.tasks) != games_hash(longer)


def test_what_is_in_the_cache_is_taken_as_it_is_and_leftovers_are_swept(fragile, tmp_path, monkeypatch):
    """New times, same content: nothing is made again but an entry that was cut short."""
    listed = fragile.tasks("fast", "test", 3, progress=False)
    os.utime(listed[0].game_file, (1, 1))
    old = tmp_path / "cache with space" / "building" / "abandoned"
    old.mkdir(parents=True)
    os.utime(old, (1, 1))
    os.truncate(Path(listed[1].game_file).with_name("entry.json"), 0)
    assert fragile.tasks("fast", "test", 3, progress=False) == listed
    monkeypatch.setattr(subprocess, "Popen", None)
    again = Catalogue(registry.make_environment("fragile:Fragile"), tmp_path / "cache with space")
    assert again.tasks("fast", "test", 3, progress=False) == listed
    assert not old.exists()


def test_a_listed_split_keeps_its_order_and_counts_what_is_broken(listed):
    settings = registry.make_environment("fragile:Listed", OmegaConf.create({"numbers": [3], "unknown": 1})).settings
    assert settings.numbers == (3,) and registry.make_environment("fragile:Listed").settings.numbers == []
    listing = listed.listings("", {"train": 9}, progress=False, at_most=["train"])["train"]
    assert [task.seed for task in listing.tasks] == [3, 2, 9]
    assert listing.rejected == [(-1, "a broken file")]
    assert listing.tasks[0].params == {"split": "train"}
    with pytest.raises(TaskError, match="split train has 0 games"):
        listed.listings("", {"test": 3, "train": 1}, progress=False)


def test_splits_of_a_run_share_no_game(fragile):
    """``few`` has four fingerprints; seeds 1, 2, 4 and 7 are the first of theirs."""
    every = fragile.listings("few", {"test": 4}, progress=False)["test"]
    assert seeds(every.tasks) == [1, 2, 4, 7]
    assert (5, "the same game as another seed's") in every.rejected
    made = fragile.listings("few", {"train": 2, "test": 2}, progress=False)
    test, train = ({task.fingerprint for task in made[split].tasks} for split in ("test", "train"))
    assert seeds(made["test"].tasks) == [1, 2] and not test & train
    assert test & {task.fingerprint for task in fragile.tasks("few", "train", 2, progress=False)}
    apart = sorted(SPLITS.values(), key=lambda s: s.start)
    assert all(left.stop <= right.start for left, right in itertools.pairwise(apart))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", "test", 3), "unknown task"),
        (("fast", "tests", 3), "unknown split 'tests'"),
        (("fast", "test", 3, "balanced"), "offers sparse, dense, not 'balanced'"),
        (("never", "test", 250), "never: split test has 0 games .* never"),
        (("few", "test", 5), r"4 games of the 5 asked for; \d+ seeds rejected \(\d+ x "),
    ],
)
def test_what_cannot_be_listed_is_said_in_one_line(fragile, arguments, message):
    with pytest.raises(TaskError, match=message) as caught:
        fragile.tasks(*arguments, progress=False)
    assert "\n" not in str(caught.value)


def test_a_generator_that_kills_its_process_is_an_error(fragile):
    with pytest.raises(EnvError, match="seed 1: worker died"):
        fragile.tasks("crash", "test", 1, progress=False)


def test_killed_while_making_it_leaves_whole_games_or_none(fragile, tmp_path):
    cache = tmp_path / "killed"
    script = run_script(MAKE, cache)
    while not list(cache.glob("games/*/*/*/entry.json")):
        assert script.poll() is None, script.stderr.read()
        time.sleep(0.01)
    os.killpg(script.pid, signal.SIGKILL)
    script.wait()
    for folder in cache.glob("games/*/*/*"):
        entry = json.loads((folder / "entry.json").read_text())
        assert "rejected" in entry or {p.name for p in folder.iterdir()} == {"entry.json", "game.txt", "late.txt"}
    finished = run_script(MAKE, cache)
    whole = fragile.tasks("slow", "test", 8, progress=False)
    assert finished.communicate()[0].decode().strip() == games_hash(whole)


def test_two_processes_share_a_cache(fragile, tmp_path):
    cache = tmp_path / "shared"
    outputs = [script.communicate() for script in [run_script(MAKE, cache), run_script(MAKE, cache)]]
    hashes = {out.decode().strip() for out, _ in outputs}
    assert len(hashes) == 1, outputs
    assert not list((cache / "building").iterdir())


def test_a_cache_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").touch()
    catalogue = Catalogue(registry.make_environment("textworld"), tmp_path / "file")
    with pytest.raises(
        TaskError, match=f"^games cannot be kept in {tmp_path}/file .*; use env.cache_dir=FOLDER or TURNGRID_CACHE="
    ):
        catalogue.tasks("w2-o3-q4", "test", 1, progress=False)


PLAY = """
import asyncio, json
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import TaskRef

async def main():
    async with EnvPool("fragile:Fragile", 1, 600.0) as pool:
        session = await pool.open()
        await session.reset(TaskRef.from_dict(json.loads(sys.argv[1])), 0)
        print(pool.pids[0], flush=True)
        await session.step(sys.argv[2])
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("action", ["add", "sleep"])
def test_no_worker_outlives_a_killed_owner(fragile, action):
    """Not even one whose game hangs and that never reads its socket again."""
    [task] = fragile.tasks("fast", "test", 1, progress=False)
    owner = run_script(PLAY, json.dumps(task.to_dict()), action)
    pid = int(owner.stdout.readline())
    time.sleep(0.3)
    assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    owner.kill()
    owner.wait()
    assert gone(pid)
