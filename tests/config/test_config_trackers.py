"""A run whose trackers could not be told is refused in one line, before it starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from turngrid.config import machine
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.train.app import main


@pytest.fixture
def logged_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    return monkeypatch


def test_wandb_needs_a_key_and_says_where_to_get_it(
    logged_out: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tracking=wandb", f"output_dir={tmp_path / 'runs'}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("turngrid: tracking=wandb: there is no key for https://api.wandb.ai; run `wandb login`")
    assert "tracking=wandb_offline" in line
    assert not (tmp_path / "runs").exists()


def test_a_key_in_the_environment_or_in_netrc_will_do(logged_out: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = compose(["tracking=wandb"])
    (tmp_path / "netrc").write_text(f"machine other.host login user password {'b' * 40}\n")
    with pytest.raises(ConfigError):
        machine.check_trackers(config)
    (tmp_path / "netrc").write_text(f"machine api.wandb.ai login user password {'b' * 40}\n")
    machine.check_trackers(config)
    (tmp_path / "netrc").unlink()
    logged_out.setenv("WANDB_API_KEY", "a" * 40)
    machine.check_trackers(config)


@pytest.mark.parametrize("overrides", [["tracking=wandb_offline"], ["tracking=local"], ["tracking=trackio"]])
def test_without_network_nobody_asks_for_a_key(logged_out: pytest.MonkeyPatch, overrides: list[str]) -> None:
    machine.check_trackers(compose(overrides))
    logged_out.setenv("WANDB_MODE", "offline")
    machine.check_trackers(compose(["tracking=wandb"]))


def test_a_tracker_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    config = compose(["tracking=trackio"])
    with pytest.raises(ConfigError, match=r"trackio is not installed .*pip install 'turngrid\[trackio\]'"):
        machine.check_trackers(config)
