"""``python -m experiments.check_env``: all of our environments pass it, flawed ones do not."""

import asyncio
import shutil
from pathlib import Path

import pytest

from turngrid.config.compose import Composer
from turngrid.envs import registry
from turngrid.experiments.check_env import __main__ as command
from turngrid.experiments.check_env import rollouts
from turngrid.experiments.check_env.__main__ import FAIL, NOTE, OK, Options, check, main
from turngrid.tasks.run import Run

NEEDS_DATA = {"swegym", "openenv", "tau2"}  # instances, a server or a clone of the user's
NEEDS_JAVA = {"scienceworld", "textworldexpress"}
# Their games take seconds to make, so only those that other tests use are played
SLOW_TO_MAKE = {"scienceworld", "textworld", "tw_simple", "alfworld", "textarena", "repo_repair"}
NO_EXPERT = ("expert", "reward for winning", "prompt")
NO_WIN = dict.fromkeys((*NO_EXPERT, "random", "pays for winning", "memory"), "-")
FLAWS = {  # environment and reward -> what its lines say, apart from "ok"
    "Letters": {},
    "Remembering": {"repeats": FAIL},
    "Talking": {"repeats": NOTE},
    "Paying": {"pays for winning": FAIL},
    "Telling": {"prompt": FAIL},
    "Growing": {"memory": FAIL},
    "Doubled": {"splits": FAIL},
    "Easy": {"random": NOTE, "hostile actions": FAIL, **dict.fromkeys((*NO_EXPERT, "pays for winning"), "-")},
    "Raffle": {"repeats": FAIL, "no errors": FAIL, "hostile actions": NOTE, **NO_WIN},
    "Hopeless": {"reward": NOTE, **dict.fromkeys(NO_EXPERT, "-")},
    "Silent": {**NO_WIN, **dict.fromkeys(("repeats", "reward", "speed"), "-")},
    "Letters turn_reward.name=flawed_environments:Hourly": {"reward for winning": FAIL},
}


@pytest.mark.parametrize("name", [name for name in registry.ENVIRONMENTS if name not in NEEDS_DATA])
def test_our_environments_pass(composed: Composer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEEDS_JAVA and shutil.which("java") is None:
        pytest.skip("there is no java on the PATH")
    monkeypatch.setattr(rollouts, "RESETS", 5)
    monkeypatch.setattr(command, "GROWTH", 60e6)  # a JVM grows by 13 MB in the first ten
    if name in SLOW_TO_MAKE:
        monkeypatch.setattr(command, "SPLITS", ("test", "train"))
    found = asyncio.run(check(Run(composed([f"env={name}"]), tmp_path), Options(games=1, turns=10)))
    assert [finding for finding in found if finding.verdict == FAIL] == []
    assert len(found) == 12


@pytest.mark.parametrize("name", FLAWS)
def test_a_flaw_is_named(composed: Composer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "RESETS", 40)
    words = [*f"env.name=flawed_environments:{name}".split(), "env.task=letters", f"env.cache_dir={tmp_path}"]
    findings = asyncio.run(check(Run(composed(words), tmp_path), Options(games=4, turns=20)))
    found = {one.check: one.verdict for one in findings}
    assert {name: verdict for name, verdict in found.items() if verdict != OK} == FLAWS[name]


def test_the_exit_code_tells(
    composed: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(command, "composed", lambda _, overrides: composed(overrides))
    monkeypatch.setattr(rollouts, "RESETS", 5)
    assert main(["crafting", "games=1"]) == 0
    out = capsys.readouterr().out
    assert "won 1 of 1 games" in out and "won 3 of 4 episodes [0%, 100%]" in out, "over games"
    assert main(["flawed_environments:Raffle", "env.task=letters", f"env.cache_dir={tmp_path}"]) == 1
    assert " [/x]'" in capsys.readouterr().out
