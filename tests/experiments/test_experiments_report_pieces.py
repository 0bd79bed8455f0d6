"""The result file, the run summary and the learning curve."""

from dataclasses import replace
from pathlib import Path

import pytest

from turngrid.experiments.evaluation.result import DamagedResult, RunResult, StageResult
from turngrid.experiments.evaluation.tables import summary_table
from turngrid.experiments.stages.pipeline import learning_curve
from turngrid.records.statistics import summarise
from turngrid.rollouts.episode import Episode, Outcome, Turn

NAME = "textworld-w2-o3-q4-grpo-sparse-sft_rl-tiny-s0-1a2b3c4d"


def stage(name: str, successes: int, low: float, high: float, **costs: float) -> StageResult:
    return StageResult(
        name=name,
        successes=successes,
        games=200,
        low=low,
        high=high,
        mean_turns_to_success=6.25 if successes else None,
        invalid_share=0.125,
        outcomes={"out_of_turns": 200 - successes, "won": successes},
        temperature=0.4,
        max_turns=12,
        checkpoint=f"/runs/{name}",
        games_hash="f" * 64,
        **costs,
    )


@pytest.fixture
def result() -> RunResult:
    stages = [
        stage("base", 20, 0.0657, 0.1494),
        stage("sft", 50, 0.1952, 0.3143, units=600, seconds=11.6),
        stage("rl", 80, 0.3346, 0.4692, units=400, tokens=123456, seconds=321.4),
    ]
    folder = f"/somewhere with a space/{NAME}"
    return RunResult(NAME, folder, 0, stages, units=1000, units_left=0, seconds=401, plot="learning_curve.png")


def episode(outcome: Outcome, *valid: bool) -> Episode:
    turns = [Turn("a door.", "open door", valid=is_valid) for is_valid in valid]
    return Episode("doors/1", 1, "test", "leave", [], [], turns, outcome)


def test_episodes_summarised_by_hand() -> None:
    """Won in 2 and in 4 turns, lost in 1, out of turns in 3: 10 actions, of which 4 were not
    understood, 1 not even read."""
    played = [
        episode(Outcome.WON, True, False),
        episode(Outcome.LOST, True),
        episode(Outcome.WON, True, True, False, True),
        episode(Outcome.OUT_OF_TURNS, True, True, False),
    ]
    played[1].turns[0].valid = played[1].turns[0].parsed = False
    summary = summarise(played)
    assert (summary["successes"], summary["games"]) == (2, 4)
    assert summary["mean_turns_to_success"] == 3
    assert (summary["invalid_share"], summary["unparsed_share"]) == pytest.approx((0.4, 0.1))
    assert summary["outcomes"] == {"lost": 1, "out_of_turns": 1, "won": 2}
    assert (summary["low"], summary["high"]) == pytest.approx((0.1500, 0.8500), abs=5e-5)
    assert summarise([episode(Outcome.LOST)])["mean_turns_to_success"] is None


def test_result_survives_the_disk(result: RunResult, tmp_path: Path) -> None:
    assert RunResult.read(tmp_path) is None
    result.write(tmp_path)
    again = RunResult.read(tmp_path)
    assert again == result
    assert again is not None and again.stage("rl") == result.stages[2]
    assert again.stage("nothing") is None
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    path = tmp_path / "result.json"
    path.write_text(path.read_text().replace('"successes"', '"success_rate"'))
    with pytest.raises(DamagedResult, match="cannot be read"):
        RunResult.read(tmp_path)


def test_closing_table(result: RunResult) -> None:
    text = summary_table(result)
    (row,) = [line.split("│") for line in text.splitlines() if "after RL" in line]
    evaluations = ["after RL", "40.0", "33.5 to 46.9", "200", "6.2", "400", "123,456", "321"]
    assert [evaluation.strip() for evaluation in row[1:-1]] == evaluations
    assert f"run folder:     {result.folder}\n" in text
    assert f"learning curve: {result.folder}/learning_curve.png\n" in text
    assert "temperature 0.4, at most 12 turns" in text
    assert "1000 units spent, 0 left; 401 s in all" in text
    assert NAME in text
    sums = {"units_by_games": 1000.0, "units_by_rollouts": 3800.0}
    text = summary_table(replace(result, notes={"spent": sums, "no_signal": "in steps 1 to 3 ..."}))
    assert "1000 units spent, 0 left (1000 counting games, 3800 counting rollouts); 401 s in all" in text
    assert text.endswith("\nno signal:      in steps 1 to 3 ...\n")


def test_table_of_a_model_that_never_wins(result: RunResult) -> None:
    text = summary_table(replace(result, stages=[stage("base", 0, 0.0, 0.0188)], plot=""))
    (row,) = [line.split("│") for line in text.splitlines() if "base model" in line]
    assert [evaluation.strip() for evaluation in row[2:6]] == ["0.0", "0.0 to 1.9", "200", "-"]
    assert "learning curve" not in text


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def test_learning_curve_is_drawn(result: RunResult, tmp_path: Path) -> None:
    metrics = [{"step": step, "success/train": step / 100} for step in range(1, 31)]
    path = learning_curve(result, metrics, tmp_path / "learning_curve.png")
    assert png_size(path) == (1350, 675)
    assert [entry.name for entry in tmp_path.iterdir()] == ["learning_curve.png"]
    empty = learning_curve(replace(result, stages=result.stages[:2]), [], tmp_path / "no_rl.png")
    assert png_size(empty) == (1350, 675)
    assert empty.read_bytes() != path.read_bytes()
    metrics[9] |= {"success/validation": 0.3, "success/validation/low": 0.2, "success/validation/high": 0.4}
    validated = learning_curve(result, metrics, tmp_path / "validated.png")
    assert png_size(validated) == (1350, 675) and validated.read_bytes() != path.read_bytes()
