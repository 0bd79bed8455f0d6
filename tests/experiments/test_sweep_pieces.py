"""Sweep files, what they expand to, and the record that a later launch adds to. The suite: its
sweep can be launched, its tables show what was played."""

import json
from pathlib import Path

import pytest
from finished_run import ONE_OF_TWO

from turngrid.config.checks.check import check
from turngrid.config.compose import composer
from turngrid.config.errors import ConfigError
from turngrid.envs.babyai.environment import BabyAI
from turngrid.experiments.evaluation.result import RunResult, StageResult, State, state
from turngrid.experiments.suite.__main__ import JSON, _usual, main
from turngrid.experiments.suite.measures import SAMPLES
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import Layout, lacking, load, points
from turngrid.experiments.sweep.record import Sweep, SweepRun
from turngrid.records.process.exit_codes import Refusal
from turngrid.tasks.run import Run
from turngrid.train.launch.sweep import playable, prepare_launch

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
    with pytest.raises(Refusal, match="mine.yaml") as caught:
        load(written(tmp_path, GOOD.replace(part, wrong)))
    assert said in str(caught.value)


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
    for failure in ('{"message": "no", "ended": 1.0}\n', ""):  # and a damaged one
        (folder / "failure.json").write_text(failure)
        assert state(folder) is State.FAILED
    (folder / "result.json").write_text("{}")  # half of one
    assert state(folder) is State.FAILED
    RunResult("run", str(folder), 0, [], units=0.0).write(folder)
    assert state(folder) is State.FINISHED


# ---- the suite

SUITE = load("suite_laptop")
RUNS = points(SUITE.scales["laptop"], [0], [], {})


def test_every_run_can_be_launched_without_a_warning() -> None:
    with composer() as composed:
        gym = [run for run in RUNS if run.coordinates["env"] == "gym"]
        configs = {run.label: composed([*run.overrides, "fresh=true"]) for run in gym}
        configs |= {run.label: composed(run.overrides) for run in RUNS if run.coordinates["training"] == "25"}
    assert [warning for config in configs.values() for warning in check(config)] == []
    bought = {label: Run(config).allocation for label, config in configs.items()}
    of_gym = [(each.demonstrations, each.steps) for label, each in bought.items() if "env=gym" in label]
    assert of_gym == [(25, 0), (50, 0), (100, 0), (200, 0), (100, 20)]


def test_an_environment_without_its_extra_is_skipped_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(BabyAI, "modules", ("no_such_module",))
    assert 'pip install "turngrid[babyai]"' in lacking(["env=babyai"])
    assert lacking(["env=crafting", "env.task=d2"]) == ""
    left = playable(RUNS)
    assert {run.coordinates["env"] for run in RUNS} - {run.coordinates["env"] for run in left} == {"babyai"}
    assert 'pip install "turngrid[babyai]"' in capsys.readouterr().err
    with pytest.raises(ConfigError, match="no run of this sweep can start: env=babyai needs no-such-module"):
        prepare_launch(["sweep=suite_laptop", "only.env=babyai"])


def test_the_suite_looks_where_its_launch_wrote(tmp_path: Path) -> None:
    words = ["eval.games=3", "env.workers=1", "health=off", "seed=1", f"output_dir={tmp_path}"]
    sweep = prepare_launch(["sweep=suite_laptop", "only.env=crafting", "only.training=25", *words]).sweep
    folder = record.write(sweep, tmp_path)
    found, where = _usual(words)
    assert where == folder and sweep.runs[0] in found.runs


def stage(name: str, wins: int) -> StageResult:
    return StageResult(name=name, checkpoint="", **{**ONE_OF_TWO, "successes": wins, "games": 10, "low": wins / 20})


def test_the_tables_show_expert_random_and_ended_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["only=sokoban,crafting", "eval.games=3", f"output_dir={tmp_path}"]
    assert main([*words, f"env.cache_dir={tmp_path / 'cache'}"]) == 0
    (folder,) = (tmp_path / "sweeps").iterdir()
    for row in json.loads((folder / JSON).read_text())["rows"]:
        scripted = [(row["scripted"][name]["games"], row["scripted"][name]["samples_per_game"]) for name in SAMPLES]
        assert scripted == [(3, 1), (3, 4)] and row["scripted"]["expert"]["successes"] == 3
        assert 0 < row["repeated"] <= 1 and row["steps_per_second"] > 0 and row["tokens"] > 50
        assert row["optimal"][1] <= row["optimal"][0] <= row["optimal"][2] <= row["max_turns"]
        assert row["trained"] == {}
    assert "sokoban s6-b1" in capsys.readouterr().out
    _finished(folder, {"25": [stage("base", 0), stage("sft", 0)], "50": [stage("base", 0), stage("sft", 4)]})
    assert main([str(folder), "only=crafting"]) == 0
    out, err = capsys.readouterr()
    assert "game/s" not in err  # nothing is played again
    (row,) = json.loads((folder / JSON).read_text())["rows"]
    assert {name: success["successes"] for name, success in row["trained"].items()} == {"base": 0, "25": 0, "50": 4}
    (shown,) = [line.split("│") for line in out.splitlines() if "│ crafting d2" in line and "[" in line]
    assert "40 [20, 90]" in shown[6] and shown[-2].strip() == "50"


def _finished(folder: Path, stages: dict[str, list[StageResult]]) -> None:
    """Record a launch of the suite whose runs in crafting have ended."""
    extra = ["eval.games=3", f"env.cache_dir={folder.parents[1] / 'cache'}"]
    of_crafting = {run.coordinates["training"]: run for run in RUNS if run.coordinates["env"] == "crafting"}
    runs = []
    for training, ended in stages.items():
        run, name = of_crafting[training], f"crafting-{training}"
        RunResult(name, name, 0, ended, 250.0).write(folder.parents[1] / name)
        runs.append(SweepRun(run.coordinates, 0, [*run.overrides, *extra], name))
    scale = SUITE.scales["laptop"]
    about = ("suite_laptop", "laptop", SUITE.title, SUITE.question, None, scale.note, scale.layout, ())
    sweep = record.Sweep(*about, extra, runs, {})
    (folder / record.FILE).write_bytes(record.msgspec.json.encode(sweep))
