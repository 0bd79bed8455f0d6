"""A whole run, small enough for a test: 4 demonstrations, 3 RL steps of 4 games x 4 samples, 8 test
games."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

OVERRIDES = (
    "budget.units=16",
    "budget.demo_cost=2",
    "budget.sft_share=0.5",
    "budget.rl_steps=3",
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "trainer.save_freq=1",
    "eval.games=8",
    "env.max_turns=6",
)
CLOCKS = ("act_seconds", "env_seconds")


ROOT = Path(__file__).resolve().parents[1]
FRONT_DOOR = (sys.executable, "-m", "turngrid.train")
CONSOLE_SCRIPT = (str(Path(sys.executable).with_name("turngrid-train")),)


def somebody_elses(folder: Path) -> Path:
    """A folder whose modules and configs have the names of ours and would end any process that took
    them for ours."""
    folder.mkdir(parents=True)
    for name in ("train.py", "rewards.py", "envs/__init__.py", "rollouts/__init__.py", "verl_plugin/__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise SystemExit('this is not turngrid')\n", encoding="utf-8")
    (folder / "conf").mkdir()
    (folder / "conf" / "config.yaml").write_text("seed: 13\n", encoding="utf-8")
    return folder


def launch(
    output: Path,
    *overrides: str,
    program: Sequence[str] = FRONT_DOOR,
    folder: Path = ROOT,
    usual: Sequence[str] = OVERRIDES,
) -> subprocess.Popen[str]:
    """Start the front door in a session of its own, as a shell would."""
    output.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [*program, f"output_dir={output}", *usual, *overrides],
        cwd=folder,
        stdout=(output / "stdout.txt").open("w"),
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        start_new_session=True,
    )


def finish(output: Path, *overrides: str, timeout_s: float = 500, **where: Any) -> Path:
    """Run to the end and return the run folder; ``where`` as for ``launch``."""
    return end(launch(output, *overrides, **where), output, timeout_s)


def end(process: subprocess.Popen[str], output: Path, timeout_s: float = 500) -> Path:
    wait_in(process, output, lambda: False, timeout_s, code=0)
    return run_folder(output)


def run_folder(output: Path) -> Path:
    (folder,) = [path.parent for path in output.glob("*/attempts.jsonl")]
    return folder


def kill(process: subprocess.Popen[str]) -> None:
    """As ``kill -9`` does; raises AssertionError if a descendant lives on for more than 30 s."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _gone, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, f"outlived the driver by 30 s: {alive}"


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """None of its processes moves."""
    driver = psutil.Process(process.pid)
    family = [driver, *driver.children(recursive=True)]
    try:
        for member in family:
            with suppress(psutil.NoSuchProcess):  # one that has ended meanwhile
                member.suspend()
        yield
    finally:
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.resume()


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def wait_in(
    process: subprocess.Popen[str], output: Path, done: Callable[[], bool], seconds: float, code: int | None = None
) -> None:
    """Wait for something in a run, or for its end with ``code``; a run in vain is killed."""
    try:
        wait_for(lambda: process.poll() is not None or done(), seconds)
    except BaseException:
        if process.poll() is None:
            kill(process)
        raise
    assert process.poll() == code, (output / "stdout.txt").read_text()[-3000:]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_clocks(path: Path) -> list[dict]:
    """Episodes as they were played, whatever time it took."""
    episodes = lines(path)
    for episode in episodes:
        for turn in episode["turns"]:
            for clock in CLOCKS:
                turn.pop(clock)
    return episodes


def comparable(metrics: Sequence[dict]) -> list[dict]:
    """Metrics that a repetition must reproduce: no times, no memory, no throughput."""
    machine = ("timing", "perf/", "global_seqlen")
    return [{key: value for key, value in line.items() if not any(word in key for word in machine)} for line in metrics]


def assert_same_rl(ours: Path, theirs: Path, steps: int = 3) -> None:
    """The episodes of each step token for token, and its metrics up to rounding."""
    for step in range(1, steps + 1):
        name = f"rl/episodes/{step:06d}.jsonl"
        assert without_clocks(ours / name) == without_clocks(theirs / name), name
    logs = (comparable(lines(run / "rl" / "metrics.jsonl")) for run in (ours, theirs))
    for line, wanted in zip(*logs, strict=True):
        assert line == pytest.approx(wanted, rel=1e-6, abs=1e-6), line["step"]


def assert_sampled_by(model: Any, episode: dict, temperature: float = 0.7, within: float = 1e-4) -> None:
    """The recorded log-probabilities are those of teacher forcing: the recorded ids are those that
    the server saw, in that order and with nothing between."""
    ids, places, recorded = list(episode["prompt_ids"]), [], []
    for turn in episode["turns"]:
        places += range(len(ids), len(ids) + len(turn["action_ids"]))
        recorded += turn["logprobs"]
        ids += [*turn["action_ids"], *turn["context_ids"]]
    with torch.no_grad():
        logprobs = (model(torch.tensor([ids])).logits[0].float() / temperature).log_softmax(-1)
    assert [float(logprobs[at - 1, ids[at]]) for at in places] == pytest.approx(recorded, abs=within)
