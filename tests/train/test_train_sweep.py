"""``-m sweep=NAME`` as a user meets it: what is refused, listed, launched, launched again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small
from finished_run import finish

from benchmarks.synthetic_runs import make_run
from turngrid.config.base import ROOT
from turngrid.config.compose import compose
from turngrid.experiments.report.__main__ import text
from turngrid.experiments.report.gather import subjects
from turngrid.experiments.sweep import record
from turngrid.records.process.exit_codes import Refusal
from turngrid.train.app import main
from turngrid.train.launch import one_run
from turngrid.train.launch.sweep import prepare_launch

MINE = """
title: Mine
question: Which share?
scales:
  laptop:
    seeds: [0]
    overrides: [env=textworld, model=tiny, eval.games=2]
    axes: {budget: {rl: [budget=rl_only, budget.rl_steps=1], both: [budget=sft_rl, budget.rl_steps=1]}}
    layout: {rows: {all: {}}, columns: {rl: {budget: rl}, both: {budget: both}}}
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    return f"sweep={path}"


def test_the_seeds_and_axes_of_the_command_line(mine: str, tmp_path: Path) -> None:
    words = ["seed=3,4", "algo=ppo,grpo", "cluster=cpu", "cluster.trainer_threads=1"]
    launch = prepare_launch([mine, *words, f"output_dir={tmp_path}"])
    sweep = launch.sweep
    assert [run.label for run in sweep.runs[:2]] == ["budget=rl algo=ppo seed=3", "budget=rl algo=grpo seed=3"]
    assert len(sweep.runs) == 8
    assert [config.algo.name for config in launch.configs[:2]] == ["ppo", "grpo"]
    assert [config.seed for config in launch.configs] == [3] * 4 + [4] * 4
    assert sweep.extra == ["algo=ppo,grpo"]  # where it computes and where it writes make no other sweep
    assert sweep.runs[0].overrides[-2:] == ["tracking.group='mine'", "tracking.run_name='budget=rl algo=ppo seed=3'"]


def test_a_part_of_a_sweep(mine: str) -> None:
    words = [mine, "seed=0,1", "algo=ppo,grpo,rloo"]
    launch = prepare_launch([*words, "only.budget=rl", "only.algo=ppo,rloo"])
    assert [run.label for run in launch.sweep.runs] == [
        f"budget=rl algo={algo} seed={seed}" for seed in (0, 1) for algo in ("ppo", "rloo")
    ]
    assert len(launch.whole) == 12
    assert launch.sweep.folder_name == prepare_launch([*words, "only.algo=grpo", "only.budget=both"]).sweep.folder_name
    assert [config.algo.name for config in launch.configs] == ["ppo", "rloo"] * 2


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["only.budgt=rl"], "no axis budgt; use budget (choices: budget)"),
        (["only.budget=bth"], "no value of budget bth; use both (choices: rl, both)"),
        (["scale=papr"], "no scale=papr (choices: laptop)"),
        (["seed=one"], "seeds are whole numbers"),
        (["dry_run=maybe"], "dry_run=maybe must be true or false"),
        (["only.budget=rl", "budget=sft_rl"], "budget=sft_rl: this sweep's axis budget sets it"),
        (["budget.rl_steps=2"], "budget.rl_steps=2: this sweep's axis budget sets it; use only.budget=VALUE"),
        (["fresh=perhaps"], "fresh=perhaps must be true or false"),
        (["algo=pppo"], "budget=rl seed=0: unknown option algo=pppo; use algo=ppo"),
        (["actor_rollout_ref.rollout.n=1"], "budget=rl seed=0: "),
    ],
)
def test_refused_before_anything_starts(words: list[str], answer: str, mine: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        prepare_launch([mine, f"output_dir={tmp_path / 'runs'}", *words])
    assert answer in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_the_laboratory_has_the_name_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(one_run, "call", lambda arguments, own: started.append([*arguments, own["PYTHONPATH"]]) or 0)
    assert main(["-m", "sweep=mismatch_laptop", "scale=laptop", "turns=[4]"]) == 0
    (words,) = started
    assert words[-3:-1] == ["benchmarks.mismatch", "turns=[4]"] and words[-1].startswith(f"{ROOT}{os.pathsep}")
    assert main(["-m", "sweep=mismatch_laptop", "dry_run=true"]) == 2 and len(started) == 1


def test_a_dry_run_lists_and_starts_nothing(mine: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = [mine, f"output_dir={tmp_path / 'runs'}"]
    first, _ = prepare_launch(words).sweep.runs
    finish(tmp_path / "runs" / first.folder)
    assert main(["-m", *words, "dry_run=true"]) == 0
    out = capfd.readouterr().out
    assert "2 runs: 1 finished, 1 not started" in out
    assert "to run: 128 RL episodes" in out
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [first.folder]


def test_a_grid_is_listed_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["-m", "algo=grpo,rloo", "seed=0,1", "budget.rl_steps=2", f"output_dir={tmp_path / 'runs'}"]
    assert main([*words, "dry_run=true"]) == 0
    out = capfd.readouterr().out
    assert all(f"algo={algo} seed={seed} " in out for algo in ("grpo", "rloo") for seed in (0, 1))
    assert "4 runs: 4 not started" in out and "to run: 1,024 RL episodes" in out and "budget.rl_steps" not in out
    assert main([*words, "actor_rollout_ref.rollout.n=1"]) == 2
    assert "compares the samples of a prompt" in capfd.readouterr().err
    scores = ["turn_reward.name=sparse,turngrid.rewards.scores:Dense", f"output_dir={tmp_path / 'runs'}"]
    assert main(["-m", *scores, "dry_run=true"]) == 0
    assert "turn_reward.name=turngrid.rewards.scores:Dense " in capfd.readouterr().out, "without Hydra's backslashes"
    assert not (tmp_path / "runs").exists()


def test_a_grid_ends_with_its_own_table_and_is_one_group(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """grpo wins 4 of 20 games, gigpo 12. A second launch with another seed joins the first."""
    groups: set[str] = set()

    def child(command: list[str]) -> int:
        arguments = command[3:]
        if arguments[0] == "turngrid.train":
            groups.update(text for text in arguments if text.startswith("tracking.group="))
            return 0
        assert arguments[0] == "turngrid.experiments.report"
        for run in record.read(Path(arguments[1])).runs:
            won = {"gigpo": 12, "grpo": 4}[run.coordinates["algo"]]
            if not (tmp_path / run.folder).exists():
                make_run(tmp_path / run.folder, {"rl": {"near": [1] * won + [0] * (20 - won)}}, run.seed)
        print(text(*subjects([Path(arguments[1])])))
        return 0

    monkeypatch.setattr(one_run, "call", child)
    shared = ["-m", "algo=grpo,gigpo", "budget=rl_only", f"output_dir={tmp_path}"]
    assert main([*shared, "seed=0,1"]) == 0
    out = capfd.readouterr().out
    (folder,) = (tmp_path / "multirun").iterdir()
    assert groups == {f"tracking.group='{folder.name}'"}
    assert {path.name for path in folder.iterdir()} == {"sweep.json"}
    assert "20.0 [5.0, 40.0], 2 seeds" in out and "gigpo − grpo" in out and "+40.0 [" in out
    assert main([*shared, "seed=2"]) == 0
    assert "3 seeds" in capfd.readouterr().out and len(groups) == 1


def test_settings_that_share_a_run_are_one_run_of_the_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["cluster.trainer_threads=1,2", "budget.rl_steps=2", f"output_dir={tmp_path}", "dry_run=true"]
    assert main(["-m", *words]) == 0
    out = capfd.readouterr().out
    assert "1 runs: 1 not started" in out and " 256 RL episodes" in out


def test_a_grids_name_in_trackers_is_what_was_typed_whatever_signs_it_has() -> None:
    launch = prepare_launch([r"tracking.tags=[a],['it\'s ${seed}']", "seed=1"])
    composed = [compose(run.overrides) for run in launch.sweep.runs]
    assert [config.tracking.run_name for config in composed] == launch.labels


def test_fresh_puts_aside_once_and_not_in_the_runs(mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [mine, f"output_dir={tmp_path / 'runs'}", "fresh=true"]
    folder = tmp_path / "runs" / prepare_launch(words).sweep.runs[0].folder
    finish(folder)
    started: list[list[str]] = []
    monkeypatch.setattr(one_run, "call", lambda arguments: started.append(arguments) or 0)
    assert main(["-m", *words]) == 0
    assert not folder.exists()
    assert (tmp_path / "runs" / ".old" / f"{folder.name}.000" / "result.json").exists()
    assert len(started) == 3 and not any("fresh=true" in arguments for arguments in started)


def test_what_is_finished_is_not_repeated_and_what_failed_is_tried_again(mine: str, tmp_path: Path) -> None:
    """One run is finished; the other fails again, whatever modules the folder has."""
    home = small.somebody_elses(tmp_path / "home")
    before = {path.name for path in home.iterdir()}
    words = [mine, f"output_dir={tmp_path / 'runs'}", "trainer.project_name=p"]
    launch = prepare_launch(words)
    folders = [tmp_path / "runs" / run.folder for run in launch.sweep.runs]
    finish(folders[0])
    folders[1].mkdir()
    (folders[1] / "tasks").write_text("a file where the stage needs a folder")
    with pytest.raises(FileExistsError):
        main([*launch.sweep.runs[1].overrides, *words[1:]])
    assert len((folders[1] / "attempts.jsonl").read_text().splitlines()) == 1
    command = [sys.executable, "-m", "turngrid.train", "-m", *words]
    done = subprocess.run(command, check=False, cwd=home, capture_output=True, text=True, timeout=500)
    assert done.returncode == 1
    assert "1 runs to go, 1 finished" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("turngrid: failed: ")
    assert "this is not turngrid" not in done.stderr and {path.name for path in home.iterdir()} == before
    assert "tasks" in json.loads((folders[1] / "failure.json").read_text())["message"]
    assert len((folders[1] / "attempts.jsonl").read_text().splitlines()) == 2
    (place,) = (tmp_path / "runs" / "sweeps").iterdir()
    assert str(place / "report.html") in done.stdout and "1 finished" in done.stdout
    sweep = record.read(place)
    assert sweep is not None and [run.folder for run in sweep.runs] == [folder.name for folder in folders]
