"""A real run under Weights & Biases, killed between two checkpoints and started again: the logs
tell of one run."""

from pathlib import Path

import pytest
import small
from wandb_log import WandbRun, read_runs

pytestmark = pytest.mark.slow
OVERRIDES = (
    "budget.rl_steps=5",
    "trainer.save_freq=2",
    "tracking=wandb_offline",
    "tracking.group=a-sweep",
    "tracking.run_name='algo=grpo seed=0'",
)


def steps(output: Path) -> int:
    files = list(output.glob("*/rl/metrics.jsonl"))
    return len(files[0].read_text().splitlines()) if files else 0


def only(folder: Path) -> WandbRun:
    (run,) = read_runs(folder)
    return run


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At step 3 the checkpoint of step 2 is the last: step 3 is played again."""
    output = tmp_path_factory.mktemp("killed")
    process = small.launch(output, *OVERRIDES)
    small.wait_for(lambda: steps(output) >= 3 or process.poll() is not None, 800)
    assert process.poll() is None, (output / "stdout.txt").read_text()[-3000:]
    small.kill(process)
    assert not list(output.glob("*/rl/checkpoints/global_step_4")), "killed too late to show anything"
    assert {line["step"] for line in only(small.run_folder(output)).stage("rl")} <= {1, 2}
    return small.finish(output, *OVERRIDES)


@pytest.mark.timeout(1500)
def test_one_wandb_run_with_each_step_of_each_stage_once(killed: Path) -> None:
    run = only(killed)
    assert (run.group, run.name) == ("a-sweep", "algo=grpo seed=0")
    assert len(run.folders) == 4  # SFT, RL twice, the evaluation
    assert all(run.stage(stage) for stage in ("sft", "rl", "evaluation"))
    logged = small.lines(killed / "rl" / "metrics.jsonl")
    assert [line["step"] for line in run.stage("rl")] == [line["step"] for line in logged] == [1, 2, 3, 4, 5]
    for sent, line in zip(run.stage("rl"), logged, strict=True):
        assert {name: sent[name] for name, value in line.items() if value is not None and name != "step"} == {
            name: value for name, value in line.items() if value is not None and name != "step"
        }


def test_an_evaluation_killed_before_it_told_is_told_once(killed: Path) -> None:
    for left in (killed / "result.json", killed / "evaluation" / ".tracked"):
        left.unlink()
    assert small.finish(killed.parent, *OVERRIDES) == killed
    run = only(killed)
    assert len(run.folders) == 5
    assert [line["policy"] for line in run.stage("evaluation")] == ["base", "sft", "rl"]
