"""Examples and commands of pages run, and print what the page shows."""

import io
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from finished_run import ONE_OF_TWO

from turngrid.config.checks.check import CHECKS, check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.jvm.machine import close_all
from turngrid.envs.registry import make_environment
from turngrid.envs.types import Observation
from turngrid.experiments import evaluate
from turngrid.experiments.evaluation.result import EvaluationResult, PairedComparison, RunResult
from turngrid.rollouts.episode import Turn
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks, read_tasks, task_file
from turngrid.train.play import __main__ as play

sys.path.append(str(Path(__file__).parents[1] / "envs"))
from openenv_servers import dial_module, served

DOCS = Path(__file__).parents[2] / "docs"
EVALUATION, OPENENV, PLAY, ROLES = (
    (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("evaluation", "openenv", "play", "roles")
)
TABLE = re.compile(r"```bash\npython -m experiments.evaluate (expert .*)\n```\n\nprints\n\n```\n(.*?)```", re.DOTALL)
TRANSCRIPT = re.compile(r"```bash\npython -m train\.play ([^#\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)
NAMES = ("alfworld", "env", "reward", "repo_repair", "swegym", "sokoban", "crafting", "search", "webshop", "babyai")
NAMES += ("bfcl", "scienceworld", "textworldexpress")
# Code that does not begin with the name of a file; the output that follows it, or in comments
EXAMPLE = re.compile(r"```python\n((?!# \S+/).*?)```(?:\n\n(?:prints|printed)\n\n```(?:text)?\n(.*?)```)?", re.DOTALL)
PAGES = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in NAMES}


def marks(page: str) -> list[pytest.MarkDecorator]:
    without = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java on the PATH")
    return [pytest.mark.slow, without] if "needs a JRE" in PAGES[page] else []


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page)) for page in NAMES])
def test_examples_print_what_the_page_shows(page: str, output_of: Callable[[str], str]) -> None:
    examples = EXAMPLE.findall(PAGES[page])
    assert examples
    for code, shown in examples:
        printed = output_of(code)
        close_all()
        wanted = shown.splitlines() or re.findall(r"# (\[.*\])$", code, re.MULTILINE)
        assert printed and (not wanted or list(map(str.rstrip, printed.splitlines())) == list(map(str.rstrip, wanted)))


def test_the_sandbox_example_runs(output_of: Callable[[str], str]) -> None:
    """What it prints differs between machines."""
    [(example, _)] = EXAMPLE.findall((DOCS / "sandbox.md").read_text(encoding="utf-8"))
    level, outcome = output_of(example).splitlines()
    assert level in ("bubblewrap", "limits")
    assert outcome.startswith("finished ")
    if level != "limits":
        assert "b'/repo\\n'" in outcome
        assert not Path("/usr/x").exists()


# ---- pages with one command or example


def test_an_evaluation_prints_what_the_page_shows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ((command, shown),) = TABLE.findall(EVALUATION)
    assert evaluate.main([*shlex.split(command), f"output_dir={tmp_path}"]) == 0
    printed = [line.rstrip() for line in capfd.readouterr().out.splitlines()]
    table = [line.rstrip() for line in shown.splitlines()]
    assert printed[: len(table)] == table


def test_the_python_reads_a_result(tmp_path: Path, output_of: Callable[[str], str]) -> None:
    found = EvaluationResult("base", "textworld", "w2-o3-q4", out_of_reach=0, turns_over_optimal=3.0, **ONE_OF_TWO)
    pair = PairedComparison("base", "rl", "textworld", "w2-o3-q4", 0.4, 2, 0.5, -0.1, 1.0, 1, 0, 1.0)
    RunResult("a run", str(tmp_path), 0, [], 0.0, matrix=[found], comparisons=[pair]).write(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", EVALUATION, re.DOTALL)
    printed = output_of(f"{example}\nmatrix(Path({str(tmp_path)!r}))")
    assert printed == "base w2-o3-q4 50.0 [10.0, 90.0] 3.0\nrl - base w2-o3-q4 +0.500 p = 1.0000\n"


def test_the_command_trains_on_the_pages_server(tmp_path: Path) -> None:
    command = re.findall(r"^python -m train (.*)$", OPENENV.replace("\\\n", " "), re.MULTILINE)[0]
    words = [*shlex.split(command), f"output_dir={tmp_path}", f"env.cache_dir={tmp_path}"]
    with dial_module(tmp_path) as dial, served(dial.app) as url:
        words = [word.replace("http://127.0.0.1:8000", url) for word in words]
        config = compose([*words, "budget.rl_steps=1", "eval.games=2"])
        check(config)
        prepare_tasks(Run(config, tmp_path))
        games = read_tasks(task_file(tmp_path, "train"))
        assert games and all(game.max_score == 0.9 and game.task == "dial" for game in games)
        env = make_environment("openenv", config.env).new_env(legal=True)
        opening = env.reset(games[0], 0)
        assert opening.text.startswith("The dial is at ") and opening.legal == ("left", "right", "open")
        assert Run(config, tmp_path).spec(games[0], 12).task.goal == "Turn the dial to the mark, then open."
        with pytest.raises(ConfigError, match="env.action_field=mov: .* use env.action_field=move"):
            check(compose([*words, "env.action_field=mov"]))


@pytest.mark.usefixtures("empty_folder")
def test_the_transcript_is_what_happens(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    ((arguments, transcript),) = TRANSCRIPT.findall(PLAY)
    says = "".join(f"{line}\n" for line in re.findall(r"^> (.*)$", transcript, re.MULTILINE))
    says = says.replace("expert\ndown\n", "expert\n")  # shown by the expert, not typed
    monkeypatch.setattr(sys, "stdin", io.StringIO(says))
    assert play.main(arguments.split()) == 0
    assert capfd.readouterr().out == transcript


def test_a_role_of_a_users_folder_answers(tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (example,) = re.findall(r"```yaml\n(# @package roles.critic\n.*?)```", ROLES, re.DOTALL)
    (tmp_path / "roles" / "critic.yaml").write_text(example, encoding="utf-8")
    config = compose(["algo=dr_mas", "roles=[critic,planner,actor]"], str(tmp_path))
    assert [problem for rule in CHECKS for problem in rule(Run(config))] == []
    run = Run(config, tmp_path)
    roles, turns = run.roles, [Turn("A room.", "look", role="actor"), Turn("A door.", "no", role="critic", aside=True)]
    assert roles and [*roles] == ["critic", "planner", "actor"] and run.several_rows
    assert roles.opening(turns) == "critic" and roles.following(turns) == "planner"
    shown = roles.prompt("critic", run.prompt, run.environment.prompt, "Win.", turns[:1], Observation("A hall."), 4)
    assert shown.endswith("Goal: Win.\nSo far:\nA room.\nactor: look\nNow:\nYour answer:")
