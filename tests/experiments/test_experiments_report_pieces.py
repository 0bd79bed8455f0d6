"""The result file and the run summary."""

from dataclasses import replace
from pathlib import Path

import pytest
from finished_run import ONE_OF_TWO

from turngrid.experiments.evaluation.result import DamagedResult, RunResult, StageResult
from turngrid.experiments.evaluation.tables import summary_table


def stage(name: str, **own: float | None) -> StageResult:
    return StageResult(name=name, checkpoint=f"/runs/{name}", **{**ONE_OF_TWO, "games": 200, **own})


@pytest.fixture
def result() -> RunResult:
    rl = stage("rl", successes=80, low=0.3346, high=0.4692, units=400, tokens=123456, seconds=321.4)
    stages, folder = [stage("base", successes=20), stage("sft", successes=50), rl], "/somewhere with a space/a-run"
    return RunResult("a-run", folder, 0, stages, units=1000, seconds=401)


def test_result_survives_the_disk(result: RunResult, tmp_path: Path) -> None:
    assert RunResult.read(tmp_path) is None
    path = result.write(tmp_path)
    assert RunResult.read(tmp_path) == result and [*tmp_path.iterdir()] == [path]
    path.write_text(path.read_text().replace('"successes"', '"success_rate"'))
    with pytest.raises(DamagedResult, match="cannot be read"):
        RunResult.read(tmp_path)


def test_the_table_at_the_end(result: RunResult) -> None:
    sums = {"units_by_games": 1000.0, "units_by_rollouts": 3800.0}
    text = summary_table(replace(result, notes={"spent": sums, "no_signal": "in steps 1 to 3 ..."}))
    (row,) = [line.split("│") for line in text.splitlines() if "after RL" in line]
    shown = ["after RL", "40.0", "33.5 to 46.9", "200", "3.0", "400", "123,456", "321"]
    assert [cell.strip() for cell in row[1:-1]] == shown
    assert (
        f"run folder:     {result.folder}\ncurves:         python -m turngrid.experiments.report '{result.folder}'\n"
        in text
    )
    assert "temperature 0.4, at most 12 turns" in text
    assert "1000 units spent, 0 left (1000 counting games, 3800 counting rollouts); 401 s in all" in text
    assert text.endswith("\nno signal:      in steps 1 to 3 ...\n")
    lost = stage("base", successes=0, mean_turns_to_success=None)
    text = summary_table(replace(result, stages=[lost]))
    (row,) = [line.split("│") for line in text.splitlines() if "base model" in line]
    assert row[5].strip() == "-"
