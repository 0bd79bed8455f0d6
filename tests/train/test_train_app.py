"""The front door as a user meets it: what is shown, one's own groups, completion."""

from pathlib import Path

import pytest

from turngrid.train.app import main


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


def test_groups_of_ones_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "mine.yaml").write_text("# @package _global_\nbudget: {name: mine, sft_share: 0.25}\n")
    arguments = ["--config-dir", str(tmp_path), "--cfg", "job", "--package", "budget"]
    assert main([*arguments, "budget=mine"]) == 0
    assert "sft_share: 0.25" in capfd.readouterr().out
    assert main(["--help"]) == 0
    assert "reinforce_plus_plus" in capfd.readouterr().out


def test_a_shell_completes_options_and_keys(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for line, offered in (
        ("algo=gi", "algo=gigpo"),
        ("env.ta", "env.task= env.tasks="),
        ("sandbox_fusion.ur", "sandbox_fusion.url="),
    ):
        line = f"turngrid-train {line}"
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        assert not main(["-sc", "query=bash"])
        assert capfd.readouterr().out.split() == offered.split()
