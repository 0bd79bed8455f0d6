"""The docs' examples, run in the tests' process: one for each would only import."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def empty_folder(tmp_path: Path, game_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNGRID_CACHE", str(game_cache))


@pytest.fixture
def output_of(empty_folder: None, capfd: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """What a script prints that is started in an empty folder."""

    def output(example: str) -> str:
        capfd.readouterr()
        exec(compile(example, "<example>", "exec"), {"__name__": "__main__"})  # noqa: S102 - the page's own words
        return capfd.readouterr().out

    return output
