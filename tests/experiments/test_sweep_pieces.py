"""Sweep files, what they expand to, and the record that a later launch adds to."""

from pathlib import Path

import pytest

from turngrid.experiments.evaluation.result import RunResult, State, state
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import Layout, SweepError, load, names
from turngrid.experiments.sweep.record import Sweep, SweepRun

GOOD = """
title: T
question: Q?
scales:
  laptop:
    seeds: [0]
    axes: {algo: {ppo: [algo=ppo], grpo: [algo=grpo, seed=9]}}
    layout: {rows: {all: {}}, columns: {ppo: {algo: ppo, stage: rl}}}
    takeaways: [{claim: C, higher: {algo: ppo}, lower: {algo: grpo, minus: {stage: base}}}]
"""
BROKEN = {  # what takes the place of a part of it
    "title: T": ("title: T\nROWS: 1", "unknown field `ROWS`"),
    "stage: rl": ("stage: lr", "stage: lr is none of base, sft, rl, last"),
    "{algo: ppo, stage": ("{algoo: ppo, stage", "no axis algoo; use algo"),
    "higher: {algo: ppo}": ("higher: {algo: pppo}", "axis algo has no pppo (values: ppo, grpo)"),
    "stage: rl}}": ("measure: wins}}", "measure: wins is none of success, score"),
}


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("part", BROKEN)
def test_a_broken_file_says_where(part: str, tmp_path: Path) -> None:
    wrong, said = BROKEN[part]
    with pytest.raises(SweepError, match="mine.yaml") as caught:
        load(written(tmp_path, GOOD.replace(part, wrong)))
    assert said in str(caught.value)


def test_an_unknown_sweep_is_answered_with_the_nearest() -> None:
    with pytest.raises(SweepError, match=r"use sweep=table10_algorithms"):
        load("table10_algorithm")
    assert "table9_sft_rl_budget" in names()


def sweep(*runs: SweepRun, extra: tuple[str, ...] = ()) -> Sweep:
    layout = Layout({"all": {}}, {"rl": {"stage": "rl"}})
    return Sweep("s", "laptop", "T", "Q?", None, "", layout, (), list(extra), list(runs))


def run(seed: int, value: str = "ppo", folder: str = "f") -> SweepRun:
    return SweepRun({"algo": value}, seed, [f"algo={value}", f"seed={seed}"], f"{folder}{seed}")


def test_a_new_seed_joins_the_record_and_what_the_sweep_no_longer_has_leaves_it(tmp_path: Path) -> None:
    folder = record.write(sweep(run(0), run(0, "grpo", "g"), run(0, "gone", "x")), tmp_path)
    assert folder == tmp_path / "sweeps" / "s-laptop"
    record.write(sweep(run(1), run(1, "grpo", "g")), tmp_path)
    kept = record.read(folder)
    assert [found.folder for found in kept.runs] == ["f0", "g0", "f1", "g1"]
    record.write(sweep(run(0, folder="new")), tmp_path)
    again = record.read(folder)
    assert again is not None and [found.folder for found in again.runs] == ["new0", "f1"]
    record.write(sweep(run(2, "grpo", "part")), tmp_path, [{"algo": "ppo"}, {"algo": "grpo"}])  # only.algo=grpo
    kept = record.read(folder)
    assert kept is not None and [found.folder for found in kept.runs] == ["new0", "f1", "part2"]


def test_a_run_folder_tells_its_state(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert state(folder) is State.NOT_STARTED
    folder.mkdir()
    (folder / "attempts.jsonl").write_text("{}\n")
    assert state(folder) is State.UNFINISHED
    (folder / "failure.json").write_text('{"message": "no", "ended": 1.0}\n')
    assert state(folder) is State.FAILED
    (folder / "result.json").write_text("{}")  # half of one
    assert state(folder) is State.FAILED
    RunResult("run", str(folder), 0, [], units=0.0).write(folder)
    assert state(folder) is State.FINISHED
