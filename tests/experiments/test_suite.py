"""The suite: its sweep can be launched, its table shows what was played."""

import re
from pathlib import Path

import pytest

from turngrid.config.checks.check import check
from turngrid.config.compose import composer
from turngrid.config.errors import ConfigError
from turngrid.envs.babyai.environment import BabyAI
from turngrid.experiments.suite.__main__ import main
from turngrid.experiments.suite.extras import lacking
from turngrid.experiments.sweep.definition import load, points
from turngrid.tasks.budget import allocate_budget
from turngrid.train.launch.sweep import playable, prepare_launch

SUITE = load("suite_laptop")
RUNS = points(SUITE.scales["laptop"], [0], [], {})


def test_every_run_can_be_launched_without_a_warning() -> None:
    with composer() as composed:
        gym = [run for run in RUNS if run.coordinates["env"] == "gym"]
        configs = {run.label: composed([*run.overrides, "fresh=true"]) for run in gym}
        configs |= {run.label: composed(run.overrides) for run in RUNS if run.coordinates["training"] == "25"}
    assert [warning for config in configs.values() for warning in check(config)] == []
    bought = {label: allocate_budget(config) for label, config in configs.items()}
    of_gym = [(each.demonstrations, each.steps) for label, each in bought.items() if "env=gym" in label]
    assert of_gym == [(25, 0), (50, 0), (100, 0), (200, 0), (100, 20)]


def test_an_environment_without_its_extra_is_skipped_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(BabyAI, "modules", ("no_such_module",))
    assert 'pip install "turngrid[babyai]"' in lacking(["env=babyai"])
    assert lacking(["env=crafting", "env.task=d2"]) == ""
    left = playable(RUNS)
    assert {run.coordinates["env"] for run in RUNS} - {run.coordinates["env"] for run in left} == {"babyai"}
    assert 'pip install "turngrid[babyai]"' in capsys.readouterr().err
    with pytest.raises(ConfigError, match="no run of this sweep can start: env=babyai needs no-such-module"):
        prepare_launch(["sweep=suite_laptop", "only.env=babyai"])


def test_the_table_shows_expert_and_random(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["only=sokoban,crafting", "eval.games=3", f"output_dir={tmp_path}", f"env.cache_dir={tmp_path / 'cache'}"]
    assert main(words) == 0
    lines = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    rows = {cells[1]: cells[2:-1] for cells in lines if len(cells) > 2 and cells[1]}
    assert list(rows) == ["sokoban s6-b1", "crafting d2"]
    for expert, random, repeated, turns, _, tokens, speed in rows.values():
        assert expert.startswith("100 [") and "[" in random and 0 < int(repeated) <= 100
        assert re.fullmatch(r"\d+\.\d \(\d+ to \d+\)", turns)
        assert int(tokens) > 50 and int(speed.replace(",", "")) > 0
    assert [cells[2:4] for cells in lines if len(cells) > 2 and not cells[1]] == [["3", "3 x 4"]] * 2
    assert main(words) == 0
    assert "game/s" not in capsys.readouterr().err  # nothing is played again


def test_a_launch_ends_with_the_environments_that_it_trained_in() -> None:
    launch = prepare_launch(["sweep=suite_laptop", "only.env=crafting", "only.training=25", "eval.games=3"])
    assert launch.suite == ("only=crafting", "eval.games=3")
