"""Which prebuilt wheels of flash-attn are tried, and what happens if none loads. Nothing is
downloaded."""

import subprocess

import pytest
import torch

from turngrid.train import flash_attn


@pytest.mark.parametrize("loads", [True, False])
def test_a_wheel_that_does_not_load_is_not_accepted(
    loads: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next index is asked, and in the end it is compiled."""
    asked: list[list[str]] = []

    def call(command: list[str], **_: object) -> int:
        asked.append(command)
        good = "astral" if loads else "--no-build-isolation"
        return int(command[1] == "-c" and not any(good in word for words in asked for word in words))

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert flash_attn.main([]) == 0
    installs = [words[words.index("install") + 1 :] for words in asked if "install" in words]
    assert [words[-2] for words in installs[:2]] == list(flash_attn.INDEXES)
    assert all("--no-deps" in words for words in installs[:2])
    assert [words[-1] for words in installs[2:]] == ([] if loads else ["psutil", "flash-attn==2.8.3"])
    assert sum("uninstall" in words for words in asked) == (1 if loads else 2)
    assert ("compiling" in capsys.readouterr().err) != loads


def test_no_wheel_is_tried_beside_another_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command, **_: asked.append(command) or 1)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    assert flash_attn.main([]) == 1
    assert "docs/cluster.md" in capsys.readouterr().err
    assert not any("--index-url" in words for words in asked)
