"""The quick way to compile a TextWorld game gives TextWorld's own story file."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from textworld.generator.inform7 import CouldNotCompileGameError, compile_inform7_game, generate_inform7_source
from textworld.generator.inform7.world2inform7 import I7_DEFAULT_PATH

from envs import parent, tw_inform, tw_making
from envs.environment import Rejected
from envs.textworld import TextWorldCustom
from envs.tw_games import TextWorldGames
from envs.tw_inform import compile_story, quick_compiler
from envs.tw_simple import TwSimple

NI = Path(I7_DEFAULT_PATH, "share", "inform7", "Compilers", "ni")
SERIAL = slice(0x12, 0x18)  # the date


def undated(story: Path) -> bytes:
    data = bytearray(story.read_bytes())
    data[SERIAL] = b"000000"
    return bytes(data)


def source_of(environment: TextWorldGames, task: str, folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tw_making, "finish", lambda game, folder: game)
        game = environment.make_game(environment.parse_task(task), 1, folder)
    return generate_inform7_source(game)


@pytest.fixture
def no_copies_in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delattr(os, "memfd_create")
    quick_compiler.cache_clear()
    yield
    quick_compiler.cache_clear()


@pytest.mark.parametrize(
    ("environment", "task"), [(TwSimple(), "tw-simple"), (TextWorldCustom(), "w4-o6-q8")], ids=["tw-simple", "w4-o6-q8"]
)
def test_the_story_is_the_one_that_textworld_compiles(environment: TextWorldGames, task: str, tmp_path: Path) -> None:
    source = source_of(environment, task, tmp_path)
    compile_story(source, tmp_path / "ours.z8")
    compile_inform7_game(source, str(tmp_path / "theirs.z8"))
    assert undated(tmp_path / "ours.z8") == undated(tmp_path / "theirs.z8")
    assert not (tmp_path / "inform").exists()


def test_the_story_is_the_same_where_the_compiler_runs_as_it_is(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = "The Kitchen is a room. The lamp is in the Kitchen."
    compile_story(source, tmp_path / "quick.z8")
    request.getfixturevalue("no_copies_in_memory")
    assert quick_compiler(NI) == (str(NI), ())
    compile_story(source, tmp_path / "slow.z8")
    assert undated(tmp_path / "quick.z8") == undated(tmp_path / "slow.z8")


def test_the_compiler_of_the_wheel_is_known_and_another_one_is_left_as_it_is(tmp_path: Path) -> None:
    command, handed_over = quick_compiler(NI)
    assert handed_over and command == f"/proc/self/fd/{handed_over[0]}"
    other = tmp_path / "ni"
    other.write_bytes(b"another compiler")
    assert quick_compiler(other) == (str(other), ())


def test_a_source_that_is_no_story_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CouldNotCompileGameError, match="find a verb"):
        compile_story("The lamp glorbs the wug.", tmp_path / "game.z8")
    assert not list(tmp_path.iterdir()), "what is left would be published with the seed's rejection"


def test_a_seed_whose_story_takes_too_long_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tw_inform, "LONGEST_S", 0.05)
    before = set(psutil.Process().children())
    with pytest.raises(Rejected, match="does not compile") as rejected:
        TextWorldCustom().make_game({"rooms": 2, "objects": 3, "quest": 4}, 1, tmp_path)
    assert "took more than 0.05 s" in str(rejected.value.__cause__)
    assert set(psutil.Process().children()) <= before, "the compiler has been ended"
    assert not (tmp_path / "inform").exists()


@pytest.mark.parametrize("bound", [True, False], ids=["setpriv", "no setpriv"])
def test_a_compiler_does_not_outlive_a_killed_worker(bound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if bound and not parent.binder():
        pytest.skip("this system's setpriv binds no process to its parent")
    if not bound:
        monkeypatch.setattr(tw_inform, "binder", tuple)
    worker = multiprocessing.get_context("fork").Process(target=tw_inform._run, args=(["sleep", "60"],))
    worker.start()
    compilers: list[psutil.Process] = []
    while [process.name() for process in compilers] != ["sleep"]:
        compilers = psutil.Process(worker.pid).children()
    worker.kill()
    worker.join()
    _, alive = psutil.wait_procs(compilers, timeout=10)
    assert not alive


def test_a_compiler_that_is_not_there_is_no_refused_story(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="inform6 cannot be run"):
        tw_inform._run([str(tmp_path / "inform6")])
