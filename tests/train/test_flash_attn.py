"""Installing flash-attn: prebuilt wheels first; pip compiles only if none of them loads."""

import sys
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from turngrid.train import flash_attn

VERLS, ASTRALS = flash_attn.INDEXES
COMPILED = "--no-build-isolation"


@pytest.mark.parametrize(
    ("torch", "loads", "tried"),
    [
        ("2.11.0+cu130", VERLS, [VERLS]),
        ("2.11.0+cu130", ASTRALS, [VERLS, ASTRALS]),
        ("2.11.0+cu130", COMPILED, [VERLS, ASTRALS, COMPILED]),
        ("2.11.0+cu130", None, [VERLS, ASTRALS, COMPILED]),
        ("2.13.0+cu130", COMPILED, [COMPILED]),
    ],
)
def test_wheels_come_before_compiling(
    torch: str, loads: str | None, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each install succeeds, and only one from ``loads`` can be imported; others are removed."""
    commands: list[Sequence[str]] = []

    def call(command: Sequence[str], **_: object) -> int:
        if "pip" not in command:  # an import
            return 0 if commands and loads in commands[-1] else 1
        commands.append(command[command.index("pip") + 2 :])
        return 0

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=torch, version=SimpleNamespace(cuda="13.0")))
    monkeypatch.setattr(flash_attn.subprocess, "call", call)
    monkeypatch.setenv("MAX_JOBS", "8")
    assert (flash_attn.main([]) == 0) == (loads is not None)
    installs = [command for command in commands if command[0] == "install" and "--no-deps" in command]
    assert [next(one for one in (*flash_attn.INDEXES, COMPILED) if one in command) for command in installs] == tried
    assert all(("--only-binary" in command) == (COMPILED not in command) for command in installs)
    removed = [command for command in commands if command[0] == "uninstall"]
    assert len(removed) == len(tried) - (loads is not None)
