"""The command of docs/evaluation.md prints the table that stands below it, and its Python reads a
run's result."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from finished_run import ONE_OF_TWO

from turngrid.experiments.evaluate import main
from turngrid.experiments.evaluation.result import EvaluationResult, PairedComparison, RunResult

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
COMMAND = re.compile(r"```bash\npython -m experiments.evaluate (expert .*)\n```\n\nprints\n\n```\n(.*?)```", re.DOTALL)
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_command_prints_what_the_page_shows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ((command, shown),) = COMMAND.findall(PAGE)
    assert main([*shlex.split(command), f"output_dir={tmp_path}"]) == 0
    printed = [line.rstrip() for line in capfd.readouterr().out.splitlines()]
    table = [line.rstrip() for line in shown.splitlines()]
    assert printed[: len(table)] == table


def test_the_python_reads_a_result(tmp_path: Path) -> None:
    found = EvaluationResult("base", "textworld", "w2-o3-q4", out_of_reach=0, turns_over_optimal=3.0, **ONE_OF_TWO)
    pair = PairedComparison("base", "rl", "textworld", "w2-o3-q4", 0.4, 2, 0.5, -0.1, 1.0, 1, 0, 1.0)
    RunResult("a run", str(tmp_path), 0, [], 0.0, matrix=[found], comparisons=[pair]).write(tmp_path)
    (example,) = EXAMPLE.findall(PAGE)
    names: dict = {}
    exec(example, names)  # noqa: S102 - the page is ours
    with contextlib.redirect_stdout(io.StringIO()) as out:
        names["matrix"](tmp_path)
    assert out.getvalue() == "base w2-o3-q4 50.0 [10.0, 90.0] 3.0\nrl - base w2-o3-q4 +0.500 p = 1.0000\n"
