"""The pages of the gymnasium and textarena environments and of playing by hand: what they show is
what happens."""

import contextlib
import io
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from turngrid.envs.gym.games import GAMES, known
from turngrid.envs.jvm.machine import close_all
from turngrid.envs.registry import make_environment
from turngrid.envs.textarena.environment import KNOWN

ROOT = Path(__file__).parents[2]
MADE = ("sokoban", "crafting", "search", "webshop", "babyai", "bfcl", "scienceworld", "textworldexpress")
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("gym", "textarena", *MADE, "play")}
GYM, TEXTARENA, PLAY = (PAGES[name] for name in ("gym", "textarena", "play"))
TRANSCRIPT = re.compile(r"```bash\npython -m train\.play ([^#\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)


def skip_without_java(page: str) -> None:
    if "needs a JRE" in page and shutil.which("java") is None:
        pytest.skip("there is no java on the PATH")


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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if "needs a JRE" in PAGES[name] else name for name in MADE]
)
def test_the_example_prints_what_the_page_shows(name: str, game_cache: Path) -> None:
    skip_without_java(PAGES[name])
    code, shown = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", PAGES[name], re.DOTALL).groups()  # type: ignore[union-attr]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})  # noqa: S102 - the page is ours
    close_all()
    assert out.getvalue() == shown


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
