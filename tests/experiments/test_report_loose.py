"""Reports on runs that no sweep made, and the command itself."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from report_sweep import BASE, TASK, SweepMaker, wins

from benchmarks.synthetic_runs import begin_run, make_run
from turngrid.experiments.report.__main__ import main, text, write
from turngrid.experiments.report.comparisons import differences
from turngrid.experiments.report.contents import VIEWER, markdown
from turngrid.experiments.report.gather import coordinates, shared_and_varied, subjects
from turngrid.experiments.sweep import record


def config(algo: str, lr: float, seed: int, test: str) -> dict:
    actor = {"optim": {"lr": lr}, "data_loader_seed": seed}
    own = {"tracking": {"name": f"watcher {seed}"}, "extend": f"runs/short-s{seed}"}
    env = {"name": "textworld", "task": test}
    return {"algo": {"name": algo}, "env": env, "eval": {"tasks": [test]}, "actor_rollout_ref": {"actor": actor}, **own}


def run(output: Path, algo: str, lr: float = 1e-4, seed: int = 0, won: int = 10, test: str = TASK) -> Path:
    folder, played = output / f"{test}-{algo}-{lr:g}-s{seed}", {"base": {test: BASE}, "rl": {test: wins(won)}}
    return make_run(folder, played, seed, config(algo, lr, seed, test))


def test_axes_are_what_varies_beside_the_seed(tmp_path: Path) -> None:
    """Nor is a learning rate that follows from the algorithm, nor a tracker, nor ``extend``."""
    for seed in (0, 1):
        run(tmp_path, "ppo", 1e-4, seed)
        run(tmp_path, "grpo", 2e-4, seed)
    (subject,) = subjects([tmp_path])
    assert {tuple(run.coordinates.items()) for run in subject.runs} == {(("algo", "ppo"),), (("algo", "grpo"),)}
    assert list(subject.sweep.layout.rows) == ["grpo", "ppo"]
    assert list(subject.sweep.layout.columns) == ["base", "rl"]
    shared, varied = shared_and_varied(subject.runs)
    assert list(varied) == ["algo.name", "actor_rollout_ref.actor.optim.lr"]
    assert shared["env.name"] == "textworld"
    watched = config("ppo", 1e-4, 0, TASK) | {"health": {"name": "rollback"}}
    make_run(tmp_path / "watched", {"base": {TASK: BASE}, "rl": {TASK: wins(9)}}, 0, watched)
    assert f"several runs of one setting and seed: leave out {tmp_path}/w2-o3" in markdown(*subjects([tmp_path]))


def test_a_setting_that_varies_by_itself_is_an_axis(tmp_path: Path) -> None:
    run(tmp_path, "ppo", 1e-4, 0)
    run(tmp_path, "ppo", 2e-4, 1)
    run(tmp_path, "grpo", 1e-4, 0)
    (subject,) = subjects([tmp_path])
    assert [dict(place) for place in coordinates(subject.runs)] == [
        {"algo": "grpo", "actor_rollout_ref.actor.optim.lr": "0.0001"},
        {"algo": "ppo", "actor_rollout_ref.actor.optim.lr": "0.0001"},
        {"algo": "ppo", "actor_rollout_ref.actor.optim.lr": "0.0002"},
    ]


def test_several_evaluation_sets_are_columns(tmp_path: Path) -> None:
    make_run(tmp_path / "one", {"base": {"near": BASE, "far": BASE}, "rl": {"near": wins(9), "far": wins(3)}})
    (subject,) = subjects([tmp_path / "one"])
    assert list(subject.sweep.layout.columns) == ["base on near", "rl on near", "base on far", "rl on far"]


def test_a_folder_has_a_report_for_each_test_and_names_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        for algo, won in (("grpo", 8), ("ppo", 12)):
            for test in ("near", "far"):
                run(tmp_path, algo, seed=seed, won=won, test=test)
    run(tmp_path, "ppo", test="alone")
    elsewhere = {"env": {"name": "textworld", "task": "trained on", "max_turns": 9}}
    begin_run(tmp_path / "began", 3, config("rloo", 1e-4, 3, "near") | elsewhere)
    begin_run(tmp_path / "unlike", 3, {"env": {"name": "textworld", "task": "other"}})
    found = subjects([tmp_path])
    reports = {str(item.folder.relative_to(tmp_path)): len(item.runs) for item in found}
    assert reports == {"reports/textworld-near": 5, "reports/textworld-far": 4}
    assert len(differences(found[0].runs)) == 1
    assert main([str(tmp_path), "--out", str(tmp_path / "pages")]) == 0
    told = capsys.readouterr()
    assert [line.split(": ")[3] for line in told.err.splitlines()] == ["alone-ppo-0.0001-s0", "unlike"]
    page = (tmp_path / "pages" / "textworld-near" / "report.html").read_text()
    assert "alone-ppo-0.0001-s0: finished, no other tested run" in page and page.count("ppo − grpo") == 1
    assert [len(item.runs) for item in subjects(sorted(tmp_path.glob("near-*")))] == [4]  # named one by one


def test_pairs_are_all_values_of_each_axis_where_all_else_is_equal(tmp_path: Path) -> None:
    maker = SweepMaker(tmp_path)
    for seed in (0, 1):
        for algo, won in (("ppo", 6), ("grpo", 6), ("rloo", 10)):
            maker.run({"rl": wins(won)}, seed, [0.1, won / 20], algo=algo, lr="1e-4")
        maker.run({"rl": wins(14)}, seed, algo="rloo", lr="2e-4")
    folder = maker.write({}, {}, name="grid")
    grid = msgspec.structs.replace(record.read(folder), scale="")
    (subject,) = subjects([record.write(grid, tmp_path)])
    found = {one.name: one.contrast for one in differences(subject.runs)}
    means = {names: contrast.interval.mean for names, contrast in found.items()}
    of_rloo = dict.fromkeys(("rloo − ppo", "rloo − grpo", "lr=2e-4 − lr=1e-4"), 0.2)
    assert means == pytest.approx({"grpo − ppo": 0.0, **of_rloo})
    assert found["grpo − ppo"].p == 1
    lines = [" ".join(line.replace("│", " ").split()) for line in text(subject).splitlines()]
    assert any(line.startswith("rloo lr=2e-4 70.0 [50.0, 90.0], 2 seeds") for line in lines)
    assert any(line.startswith("rloo − ppo +20.0 [") for line in lines)
    write(subject, tmp_path / "page")
    assert "| rloo − ppo | +20.0 [" in (tmp_path / "page" / "report.md").read_text()


def test_sweeps_and_runs_are_told_apart(tmp_path: Path) -> None:
    maker = SweepMaker(tmp_path / "runs")
    maker.run({"rl": wins(10)}, 0, algo="ppo")
    sweep = maker.write({"all": {}}, {"last": {}})
    single = begin_run(tmp_path / "other", seed=3)
    found = subjects([sweep, single])
    assert [(item.loose, len(item.runs), item.folder) for item in found] == [(False, 1, sweep), (True, 1, single)]
    assert found[1].runs[0].reason.startswith("still at work, or killed, before its first RL step; last written 20")


def test_the_command_writes_both_forms_with_links_to_runs_and_their_viewer_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "runs", "ppo", 1e-4, 0)
    (folder / VIEWER).write_text("a page of the viewer")
    assert main([str(folder), "--out", str(tmp_path / "page")]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith(f"{tmp_path}/page/report.html (") and said.endswith("1 run, 1 finished")
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == ["report.html", "report.md"]
    assert "**50.0** [29.9, 70.1], 1 seed, 20 games" in (tmp_path / "page" / "report.md").read_text()
    html = (tmp_path / "page" / "report.html").read_text()
    links = [link for link in re.findall(r'href="([^"#]+)"', html) if link.startswith("..")]
    assert sorted(links) == [f"../runs/{folder.name}", f"../runs/{folder.name}/{VIEWER}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: RUN_OR_SWEEP; use python -m experiments.report"),
        (["x", "--ouT"], "unrecognized arguments: --ouT; use python -m experiments.report"),
        (["runs/sweap"], "runs/sweap does not exist; use sweeps"),
        (["runs/sweeps"], "runs/sweeps is no run folder and holds none"),
        (["runs/broken", "runs/../broken"], "{runs}/broken and {runs}/../broken have one name; name one of them"),
        (["runs/broken"], "{runs}/broken/config.yaml is not YAML; the run's command writes it anew"),
    ],
)
def test_the_command_refuses_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "sweeps").mkdir(parents=True)
    begin_run(tmp_path / "broken", seed=3)
    (begin_run(tmp_path / "runs" / "broken", seed=3) / "config.yaml").write_text("seed: [3")
    assert message.format(runs=tmp_path / "runs") in refused(main, arguments)
