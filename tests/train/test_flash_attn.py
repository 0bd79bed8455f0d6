"""Which prebuilt wheels of flash-attn are tried, and what happens if none loads. Nothing is
downloaded."""

from __future__ import annotations

import subprocess

import pytest
import torch

from turngrid.train import flash_attn


@pytest.mark.parametrize(
    ("python", "torch", "cuda", "machine", "places"),
    [
        ("3.12.3", "2.11.0+cu130", "13.0", "x86_64", ["verl-wheelhouse/cu130/torch2.11", "astral"]),
        ("3.11.9", "2.11.0", "13.0", "aarch64", ["astral"]),
        ("3.14.0", "2.11.0", "13.0", "x86_64", []),
        ("3.12.3", "2.13.0", "13.0", "x86_64", []),
        ("3.12.3", "2.11.0", "12.8", "x86_64", []),
        ("3.12.3", "2.11.0", "", "x86_64", []),
    ],
)
def test_the_choice_of_a_wheel(python: str, torch: str, cuda: str, machine: str, places: list[str]) -> None:
    found = flash_attn.fitting(python, torch, cuda, machine)
    assert len(found) == len(places) and all(place in one.index for place, one in zip(places, found, strict=True))


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
    monkeypatch.setattr(flash_attn.platform, "python_version", lambda: "3.12.3")
    monkeypatch.setattr(flash_attn.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert flash_attn.main([]) == 0
    installs = [words[words.index("install") + 1 :] for words in asked if "install" in words]
    assert [words[-2] for words in installs[:2]] == [wheels.index for wheels in flash_attn.INDEXES]
    assert all("--no-deps" in words for words in installs[:2])
    assert [words[-1] for words in installs[2:]] == ([] if loads else ["psutil", "flash-attn==2.8.3"])
    assert sum("uninstall" in words for words in asked) == (1 if loads else 2)
    assert ("compiling" in capsys.readouterr().err) != loads


def test_why_it_compiles(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(subprocess, "call", lambda command, **_: 1)
    assert flash_attn.main([]) == 1
    err = capsys.readouterr().err
    assert "there are: Python 3.12 with torch 2.11, CUDA 13.0; Python 3.10" in err and "docs/cluster.md" in err
