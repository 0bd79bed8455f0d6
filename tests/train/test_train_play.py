"""Playing by hand and watching, as a user does it: commands through a pipe, real workers."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from turngrid.config import base
from turngrid.config.base import ROOT
from turngrid.config.suggest import groups
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.tasks.schema import NODES, Top
from turngrid.train.play.__main__ import Screen, main, split_settings

LAKE = ["env=gym", "env.kwargs={desc: [SFF,FHF,FFG]}"]  # its plan: down, down, right, right
Play = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def play(game_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Play:
    """In this process, which saves a start; the game's workers are processes of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNGRID_CACHE", str(game_cache))

    def played(*arguments: str, says: str = "") -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        monkeypatch.setattr(sys, "stdin", StringIO(says))
        return subprocess.CompletedProcess(arguments, main(arguments), *capfd.readouterr())

    return played


def test_a_game_is_won_by_hand(play: Play, tmp_path: Path) -> None:
    done = play(*LAKE, says="down\ndance\ndown\nRIGHT\nright\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^\[(.*)\]$", done.stdout, re.MULTILINE) == [
        "turn 1 of 16, score 0 of 1",
        "turn 2 of 16, score 0 of 1, sparse reward +0",
        "turn 3 of 16, score 0 of 1, not a valid action, sparse reward +0",
        "turn 4 of 16, score 0 of 1, sparse reward +0",
        "turn 5 of 16, score 0 of 1, sparse reward +0",
        "5 of 16 turns played, score 1 of 1, sparse reward +1",
    ]
    assert done.stdout.endswith("won after 5 of 16 turns\nsparse: 0 0 0 0 1; sum 1\n")
    assert list(tmp_path.iterdir()) == []


def test_our_commands_cost_no_turn(play: Play) -> None:
    says = "?\n\nplan\ndown\nplan\n!plan\nrestart\ndown\ndown\n!quit\nright\nright\nquit\n"
    done = play(*LAKE, says=says)
    out = done.stdout
    assert done.returncode == 0
    assert "The game accepts: left; down; right; up\n" in out
    assert out.count("Goal: Walk over the ice") == 2  # at both starts
    assert "> plan\n  1. down\n  2. down\n  3. right\n  4. right\n" in out
    assert "> !plan\n[turn 3 of 16, score 0 of 1, not a valid action" in out
    assert "> !quit\n[turn 4 of 16, score 0 of 1, not a valid action, sparse reward +0]\n" in out
    assert "won after 5 of 16 turns\n" in out


def test_ctrl_c_ends_it_at_a_prompt(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    after: list[Screen] = []
    monkeypatch.setattr(Screen, "ask", lambda screen: signal.raise_signal(signal.SIGINT) or after.append(screen) or "")
    assert play(*LAKE).returncode == 130 and after == []


def test_the_next_game_is_another_one_and_lost_is_not_won(play: Play) -> None:
    done = play("env=gym", "game=2", "split=train", "env.max_turns=2", says="left\nleft\nnext\nquit\n")
    heads = re.findall(r"^--- gym FrozenLake-v1, game (\d+) of train \(seed (\d+)\)", done.stdout, re.MULTILINE)
    assert [number for number, _ in heads] == ["2", "3"]
    assert heads[0][1] != heads[1][1]
    assert "2 of 2 turns played" in done.stdout
    assert "out of turns after 2 of 2 turns\n" in done.stdout
    lost = play(*LAKE, says="right\ndown\n")
    assert "lost after 2 of 16 turns\nsparse: 0 0; sum 0\n" in lost.stdout


def test_a_game_cannot_steer_the_terminal(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what is typed, which is shown where it came through a pipe."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "envs")  # which is there only if its tests are collected too
    words = ["env.name=fragile:Fragile", "env.task=fast", f"env.cache_dir={tmp_path}"]
    done = play(*words, says="noise \x1b[2J\x07\nscream\n")
    assert done.returncode == 1 and done.stdout.count("before") == 2 and "before" in done.stderr
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]", done.stdout + done.stderr)


def test_an_action_of_several_lines_keeps_its_indents(play: Play, game_cache: Path) -> None:
    """A repair is an edit command with new lines, which compile with their indents only."""
    catalogue = Catalogue(make_environment("repo_repair"), game_cache)
    [task] = catalogue.tasks("lines-easy", "test", 1, "ratio", workers=1, progress=False)
    assert any("\n    " in action for action in task.expert_plan)
    says = "".join(f'"""\n{action}\n"""\n' for action in task.expert_plan)
    done = play("env=repo_repair", says=says)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^won after \d of 12 turns\nratio: .* sum 1$", done.stdout, re.MULTILINE)


def test_a_game_without_a_plan_cannot_be_watched_but_played(play: Play) -> None:
    watched = play("env=gym", "env.id=Blackjack-v1", "watch=true")
    assert watched.returncode != 0 and "use watch=false" in watched.stderr
    played = play("env=gym", "env.id=Blackjack-v1", says="plan\nhit\n")
    assert played.stdout.count("no expert plan") == 1
    assert "[turn 2 of" in played.stdout or " of 12 turns played" in played.stdout
    match = play("env=two_player", "env.id=KuhnPoker-v0", says="[check]\n[call]\n[check]\n[check]\n").stdout
    assert re.findall("card is: '(.)'", match) == ["K", "Q", "K"], "the opponent's are hidden"
    assert "[4 of 9 turns played, score 1 of 1, zero_sum reward +1]" in match


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["game=0"], "game=0 must be a number of 1 or more"),
        (["watch=yes"], "watch=yes must be true or false"),
        (["split=tset"], "unknown split 'tset'; use test (choices: test,"),
        (["gmae=2"], "unknown key gmae; use game"),
        (["env=gym", "env.id=CliffWalking-v1", "reward=dense"], "reward=dense: env=gym does not offer it"),
        (["--multirun", "env=gym"], "takes KEY=VALUE, --config-dir and --help"),
    ],
)
def test_refused_in_one_line(arguments: list[str], answer: str, refused: Callable[..., str]) -> None:
    assert answer in refused(main, arguments)


def test_no_key_of_a_run_is_taken_for_one_of_ours() -> None:
    keys = [*groups(), *NODES, *Top.__dataclass_fields__, *map(str, base.verl_tree())]
    assert split_settings([f"{key}=1" for key in keys])[1] == [f"{key}=1" for key in keys]
