"""A run of which a process hangs: it ends, says in which phase, leaves stacks, and goes on."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest
import small

from turngrid.records.process.exit_codes import FAILED
from turngrid.verl_plugin.training.watchdog import BETWEEN

WORDS = ("budget=rl_only", "budget.sft_share=0", "budget.rl_steps=2", "eval.games=1", "cluster.hung_after_s=15")


def process_of(run: subprocess.Popen[str], name: str) -> psutil.Process:
    family = psutil.Process(run.pid).children(recursive=True)
    return next(process for process in family if any(name in word for word in process.cmdline()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "phases"),
    [("ray::TransformersServer", {"gen", BETWEEN}), ("ray::WorkerDict", {"checkpoint", "update_actor", BETWEEN})],
)
def test_it_ends_with_stacks_and_the_same_command_goes_on(name: str, phases: set[str], tmp_path: Path) -> None:
    """The process is stopped when the first step is over."""
    run = small.launch(tmp_path, *WORDS)
    small.wait_for(lambda: bool(list(tmp_path.glob("*/rl/metrics.jsonl"))), 400)
    process_of(run, name).suspend()
    assert run.wait(timeout=400) == FAILED
    folder = small.run_folder(tmp_path)
    message = json.loads((folder / "failure.json").read_text())["message"]
    assert any(f"{phase}: it has not ended in 60 s" in message for phase in phases), message
    stacks = [file.read_text() for file in (folder / "logs" / "stacks").iterdir()]
    assert len(stacks) > 2 and any("trainer.py" in text for text in stacks), message
    assert small.finish(tmp_path, *WORDS) == folder
    assert [line["step"] for line in small.lines(folder / "rl" / "metrics.jsonl")] == [1, 2]
