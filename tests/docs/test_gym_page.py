"""The pages of the gymnasium and textarena environments and of playing by hand: what they show is
what happens."""

import io
import re
import sys
from pathlib import Path

import pytest
import yaml

from turngrid.envs.gym.games import GAMES, known
from turngrid.envs.registry import make_environment
from turngrid.envs.textarena.environment import KNOWN

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("gym", "textarena", "play")}
GYM, TEXTARENA, PLAY = (PAGES[name] for name in ("gym", "textarena", "play"))
TRANSCRIPT = re.compile(r"```bash\npython -m train\.play ([^#\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_transcript_is_what_happens(
    tmp_path: Path, game_cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from turngrid.train.play.__main__ import main

    ((arguments, transcript),) = TRANSCRIPT.findall(PLAY)
    says = "".join(f"{line}\n" for line in re.findall(r"^> (.*)$", transcript, re.MULTILINE))
    says = says.replace("expert\ndown\n", "expert\n")  # shown by the expert, not typed
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TURNGRID_CACHE", str(game_cache))
    monkeypatch.setattr(sys, "stdin", io.StringIO(says))
    assert main(arguments.split()) == 0
    assert capfd.readouterr().out == transcript


def test_every_game_with_a_text_is_in_the_table() -> None:
    import gymnasium

    for name in GAMES:
        [full] = [spec for spec in gymnasium.registry if spec.rsplit("-v", 1)[0] == name]
        (row,) = [line for line in GYM.splitlines() if line.startswith("| `") and f"`{full}`" in line.split("|")[1]]
        assert ", ".join(known(full).actions) in row
        assert ("not offered" in row) == (make_environment("gym", {"id": full}).rewards == ("sparse",))
        assert str(make_environment("gym", {"id": full}).max_turns(full)) in GYM


def test_every_game_of_textarena_is_in_its_table() -> None:
    rows = [line.split("|") for line in TEXTARENA.splitlines() if re.match(r"\| `\w+-v0", line)]
    told = {name: int(row[4]) for row in rows for name in re.findall(r"`([^`]+)`", row[1])}
    assert told == KNOWN


@pytest.mark.parametrize("name", ["gym", "textarena"])
def test_the_yaml_holds_every_setting_with_its_default(name: str) -> None:
    node = yaml.safe_load((ROOT / "conf" / "env" / f"{name}.yaml").read_text())["env"]
    environment = make_environment(name)
    defaults = {**vars(environment.settings), "name": name, "task": "${env.id}"}
    assert node == defaults
