"""docs/play.md: its transcript is what happens."""

import io
import re
import sys
from pathlib import Path

import pytest

from turngrid.train.play.__main__ import main

ROOT = Path(__file__).parents[2]
PLAY = (ROOT / "docs" / "play.md").read_text()
TRANSCRIPT = re.compile(r"```bash\npython -m train\.play ([^#\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_transcript_is_what_happens(
    tmp_path: Path, game_cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ((arguments, transcript),) = TRANSCRIPT.findall(PLAY)
    says = "".join(f"{line}\n" for line in re.findall(r"^> (.*)$", transcript, re.MULTILINE))
    says = says.replace("expert\ndown\n", "expert\n")  # shown by the expert, not typed
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TURNGRID_CACHE", str(game_cache))
    monkeypatch.setattr(sys, "stdin", io.StringIO(says))
    assert main(arguments.split()) == 0
    assert capfd.readouterr().out == transcript
