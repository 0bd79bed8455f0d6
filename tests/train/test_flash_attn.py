"""Installing flash-attn: prebuilt wheels first; pip compiles only if none of them loads."""

import sys
from types import SimpleNamespace

import pytest

from turngrid.train import flash_attn

COMPILED = "--no-build-isolation"
VERLS, ASTRALS, _ = SOURCES = (*flash_attn.INDEXES, COMPILED)


@pytest.mark.parametrize(
    ("torch", "loads", "tried"),
    [
        ("2.11.0+cu130", VERLS, [VERLS]),
        ("2.11.0+cu130", ASTRALS, [VERLS, ASTRALS]),
        ("2.11.0+cu130", COMPILED, [VERLS, ASTRALS, COMPILED]),
        ("2.11.0+cu130", "none", [VERLS, ASTRALS, COMPILED]),
        ("2.13.0+cu130", COMPILED, [COMPILED]),
    ],
)
def test_wheels_come_before_compiling(torch: str, loads: str, tried: list[str], monkeypatch: pytest.MonkeyPatch):
    """Only what comes from ``loads`` can be imported."""
    commands: list[list[str]] = []

    def call(command: list[str], **_: object) -> int:
        if "pip" not in command:  # an import
            return int(not commands or loads not in commands[-1])
        commands.append(command)
        return 0

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=torch, version=SimpleNamespace(cuda="13.0")))
    monkeypatch.setattr(flash_attn.subprocess, "call", call)
    monkeypatch.setenv("MAX_JOBS", "8")
    assert (flash_attn.main([]) == 0) == (loads in tried)
    installs = [command for command in commands if "--no-deps" in command]
    assert [source for command in installs for source in SOURCES if source in command] == tried
    assert ["--only-binary" in command for command in installs] == [source != COMPILED for source in tried]
    assert sum("uninstall" in command for command in commands) == len(tried) - (loads in tried)
