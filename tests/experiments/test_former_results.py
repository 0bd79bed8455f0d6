"""The config that an earlier version left in a run's folder: read by today's names."""

from pathlib import Path

from report_sweep import SweepMaker, wins

from experiments.report.runs import read_run

GAMES = {"base": {"near": wins(4), "far": wins(2)}, "rl": {"near": wins(12), "far": wins(8)}}


def test_a_run_of_an_earlier_version_is_read_by_the_names_of_its_keys(tmp_path: Path) -> None:
    folder = SweepMaker(tmp_path).run(GAMES, seed=0, algo="ppo")
    (folder / "config.yaml").write_text("eval: {plays: 3}\ncurriculum: {name: stages}\nseed: 0\n")
    run = read_run(folder)
    assert (run.settings["eval.samples_per_game"], run.settings["curriculum.name"]) == (3, "phases")
    assert [evaluation.policy for evaluation in run.evaluations] == ["base", "rl"] * 2
