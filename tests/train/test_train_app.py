"""The front door as a user meets it: finished runs, several runs, other people's folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import small
from finished_run import finished

from turngrid.config.base import ROOT
from turngrid.train.app import main

TINY = ["budget=rl_only", "eval.games=2"]


def front_door(*arguments: str, cwd: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """As the console script starts it: the working folder is not on the path."""
    command = [
        sys.executable,
        "-P",
        "-c",
        "import sys; from turngrid.train.app import main; sys.exit(main())",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_a_finished_run_prints_its_table_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = [*TINY, f"output_dir={tmp_path}"]
    folder = finished(tmp_path, arguments)
    assert main(arguments) == 0
    out, err = capfd.readouterr()
    assert folder.name in out and "50.0" in out
    assert "fresh=true" in err


def test_cfg_shows_what_the_run_gets_and_leaves_nothing_behind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--cfg", "job", "--package", "env", "env.task=w4-o6-q8"]) == 0
    assert "max_turns: 24" in capfd.readouterr().out
    assert main(["--cfg", "job", "--package", "actor_rollout_ref.rollout", "actor_rollout_ref.rollout.n=5"]) == 0
    assert "\n'n': 5\n" in capfd.readouterr().out
    assert main(["--cfg", "job", "--package", "algo", "algo=ppo", "critic.enable=false"]) == 0
    out, err = capfd.readouterr()
    assert "name: ppo" in out and err.startswith(
        "turngrid: note: this config is only shown; a run of it is refused: critic.enable=false"
    )
    assert list(tmp_path.iterdir()) == []


def test_in_a_multirun_one_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    """ppo is refused, and comes first; grpo is a finished run, which is not started again.
    Modules and configs of the working folder do not stand in for ours; for one run see
    test_whole_run.py."""
    home = small.somebody_elses(tmp_path / "home")
    shared = [*TINY, "critic.enable=false", f"output_dir={tmp_path / 'runs'}"]
    finished(tmp_path / "runs", [*shared, "algo=grpo"])
    before = {path.name for path in home.iterdir()}
    done = front_door("-m", "algo=ppo,grpo", *shared, cwd=home)
    assert done.returncode == 1
    assert "1 runs to go, 1 finished" in done.stderr and "1 finished" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("turngrid: failed: algo=ppo ")
    assert "Traceback" not in done.stderr and "this is not turngrid" not in done.stderr
    assert {path.name for path in home.iterdir()} == before


def test_groups_of_ones_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "mine.yaml").write_text("# @package _global_\nbudget: {name: mine, sft_share: 0.25}\n")
    arguments = ["--config-dir", str(tmp_path), "--cfg", "job", "--package", "budget"]
    assert main([*arguments, "budget=mine"]) == 0
    assert "sft_share: 0.25" in capfd.readouterr().out
    assert main(["--help"]) == 0
    assert "reinforce_plus_plus" in capfd.readouterr().out


@pytest.mark.parametrize(("line", "offered"), [("algo=gi", "algo=gigpo"), ("env.ta", "env.task= env.tasks=")])
def test_a_shell_completes_options_and_keys(line: str, offered: str, tmp_path: Path) -> None:
    line = f"turngrid-train {line}"
    code = f"import os, sys; os.environ.update(COMP_LINE={line!r}, COMP_POINT='{len(line)}'); "
    code += "from turngrid.train.app import main; sys.exit(main(['-sc', 'query=bash']))"
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == offered.split()
