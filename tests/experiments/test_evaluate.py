"""``python -m experiments.evaluate``: who plays, what is kept, and what is refused in one line."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small
from finished_run import finish
from omegaconf import DictConfig

from turngrid.config.base import ROOT
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.experiments.evaluate import composed, main
from turngrid.experiments.evaluation.policies import as_trained, policies
from turngrid.experiments.evaluation.stage import Checkpoint, evaluate
from turngrid.records.process.exit_codes import FAILED, Refusal, exit_code
from turngrid.records.provenance import Attempt
from turngrid.records.run_folder import identity
from turngrid.tasks.demonstrations import make_demonstrations
from turngrid.tasks.evaluation_sets import prepare_evaluation_sets, through_servers
from turngrid.tasks.run import Run
from turngrid.tasks.splits import task_file, write_tasks

COUNTING = ["env.name=counting_environment:Counting", "env.task=count-2", "eval.games=5", "env.workers=1"]
Call = Callable[..., tuple[int, str, str]]


def results(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("out/evaluations/*/result.json"))]


def won(result: dict, policy: str) -> list[tuple[str, int, int]]:
    return [
        (evaluation["task"], evaluation["successes"], evaluation["games"])
        for evaluation in result["matrix"]
        if evaluation["policy"] == policy
    ]


# ---- on games that cost nothing


def test_expert_and_random_on_three_tasks_of_two_environments(call: Call, tmp_path: Path) -> None:
    tasks = "eval.tasks=[count-2,count-9,gym/FrozenLake-v1]"
    code, out, _ = call(main, "expert", "random", *COUNTING, tasks, "eval.samples_per_game=2")
    assert code == 0
    (result,) = results(tmp_path)
    assert won(result, "expert") == [("count-2", 10, 5), ("count-9", 10, 5), ("FrozenLake-v1", 10, 5)]
    assert won(result, "random")[1][1] == 0  # nine right words of nine, each one of three
    assert "expert" in out and "10 lost" in out
    assert {row["env"] for row in result["matrix"]} == {"counting_environment:Counting", "gym"}
    assert {comparison["after"] for comparison in result["comparisons"]} == {"random"}
    assert result["matrix"][0]["turns_over_optimal"] == 3


def test_another_policy_is_added_and_only_what_is_damaged_is_played_again(call: Call, tmp_path: Path) -> None:
    call(main, "expert", *COUNTING)
    (file,) = tmp_path.glob("out/evaluations/*/evaluation/expert.jsonl")
    before = file.stat().st_mtime_ns
    code, out, _ = call(main, "expert", "random", *COUNTING)
    assert (code, file.stat().st_mtime_ns) == (0, before)
    (result,) = results(tmp_path)
    assert [row["label"] for row in result["policies"]] == ["expert", "random"]
    assert "random - expert" in out
    file.write_bytes(file.read_bytes()[:-20])
    code, _, told = call(main, "expert", *COUNTING)
    assert code == 0 and won(results(tmp_path)[0], "expert") == won(result, "expert")
    assert "evaluation/expert.jsonl is broken" in told
    assert (file.parents[1] / "discarded/000/evaluation/expert.jsonl").exists()
    before = file.stat().st_mtime_ns
    call(main, "expert", *COUNTING, "fresh=true")
    assert file.stat().st_mtime_ns > before and file.with_name("random.jsonl").exists()


def test_other_games_or_other_rules_have_another_folder(call: Call, tmp_path: Path) -> None:
    for change in ([], ["eval.games=4"], ["eval.max_turns=2"], ["eval.seed=1"], ["env.task=count-3"]):
        assert call(main, "expert", *COUNTING, *change)[0] == 0
    assert call(main, "expert", *COUNTING, "env.workers=2", "seed=5")[0] == 0  # where, and what is trained: no matter
    assert len(results(tmp_path)) == 5


def test_the_base_model_and_a_copy_of_it_play_alike(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two names of one set of weights: the same tokens; and a second command plays nothing. It says
    what the copy's run was trained on."""
    words = ["base", str(tmp_path / "run" / "tiny"), "eval.games=3", f"output_dir={tmp_path / 'out'}"]
    shutil.copytree(ROOT / "assets" / "tiny", words[1])
    (tmp_path / "run" / "attempts.jsonl").touch()
    assert main(words) == 0
    (result,) = results(tmp_path)
    assert [row["label"] for row in result["policies"]] == ["base tiny", "run/tiny"]
    first, second = (tmp_path.glob(f"out/evaluations/*/evaluation/{row['name']}.jsonl") for row in result["policies"])
    assert small.without_clocks(next(first)) == small.without_clocks(next(second))
    comparison = next(comparison for comparison in result["comparisons"] if comparison["after"] == "run/tiny")
    assert (comparison["gained"], comparison["lost"], comparison["p"]) == (0, 0, 1.0)
    assert result["matrix"][0]["tokens_per_turn"] > 1
    assert "turngrid: base tiny computes in float32\n" in capfd.readouterr().err
    (tasks,) = tmp_path.glob("out/evaluations/*/tasks")
    shutil.copytree(tasks, tmp_path / "run" / "tasks")
    (tmp_path / "run" / "tasks" / "test.jsonl").rename(tmp_path / "run" / "tasks" / "train.jsonl")
    assert main(words) == 0
    told = capfd.readouterr().err
    assert "evaluation:" not in told and "note: run/tiny was trained on 3 of the 3 games of w2-o3-q4" in told


# ---- refused in one line, before anything is made

ENDPOINT = ("endpoint=http://localhost:8000/v1", "endpoint_model=parrot")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "which policy?"),
        (["bse"], "no policy bse; use base"),
        (["."], "is neither a model nor a run"),
        (["expert", "expert"], "expert is named twice"),
        (["expert", "--multirun"], "everything else is KEY=VALUE"),
        (["expert", "eval.tasks=[w2-o3-q4,w2-o3-q4]"], "w2-o3-q4 stands there twice"),
        (["expert", "eval.temperatures=[0,0]"], "0.0 stands there twice"),
        (["expert", "evl.samples_per_game=2"], "use eval.samples_per_game"),
        (["expert", "precision=bf16", "cluster=gpu1"], "use precision=auto"),
        (["endpoint_model=parrot"], "belong to endpoint=URL"),
        (["endpoint=localhost:8000", "endpoint_model=parrot"], "must be an address"),
        (["endpoint=http://localhost:8000/v1"], "needs endpoint_model=NAME"),
        ([*ENDPOINT, "key_env=A_KEY_THAT_NOBODY_SETS"], "is not set"),
        ([*ENDPOINT, "endpoint_tools=true"], "add prompt=tool_call"),
        (["endpoint_tools=yes"], "must be true or false"),
        (["expert", "endpoint_tools=true"], "belong to endpoint=URL"),
        (["expert", "prompt=tool_call"], "the actions of env=textworld are phrases"),
        (["expert", "endpoints=http://localhost:8000/v1"], "use endpoint"),
        (["expert", "at_once=none"], "must be a number"),
    ],
)
def test_refused_in_one_line(refused: Callable[..., str], tmp_path: Path, arguments: list[str], words: str) -> None:
    assert words in refused(main, [*arguments, f"output_dir={tmp_path / 'out'}"])
    assert not (tmp_path / "out").exists()


def test_a_prompt_must_suit_only_the_environments_that_are_evaluated() -> None:
    """A run with these settings would train in the other one too."""
    overrides = ["prompt=tool_call", "eval.tasks=[repo_repair/all]"]
    assert composed([], overrides).eval.tasks
    with pytest.raises(ConfigError, match="env=textworld "):
        check(compose(overrides))
    with pytest.raises(ConfigError, match="prompt=tool_call: .*env=textworld.*use prompt=think_action"):
        composed([], ["prompt=tool_call", "eval.tasks=[repo_repair/all,w2-o3-q4]"])


def test_a_run_that_is_not_there_is_no_name_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match="runs/gone does not exist"):
        policies(["runs/gone"], None, Run(compose([])))


def test_an_expert_needs_plans(call: Call) -> None:
    """A slippery lake has no plan that surely wins."""
    code, _, err = call(main, "expert", "env=gym", "env.kwargs={is_slippery: true}", "eval.games=2", "env.workers=1")
    assert code == 2
    assert "expert: 2 of 2 games have no expert plan" in err.splitlines()[-1]


def test_a_run_of_another_environment_plays_only_where_that_is_said(call: Call, tmp_path: Path) -> None:
    folder = finish(tmp_path / "a-run")
    (folder / "sft" / "model").mkdir(parents=True)
    (folder / "sft" / "model" / "config.json").write_text("{}")
    told = ["env.window_turns=4", "env.max_turns=5", "seed=3", "model=smollm2_135m"]
    Attempt(None, False, {}, 0.0, told).record(folder / "attempts.jsonl")
    (folder / "config.yaml").write_text("env: {name: alfworld}\n")
    code, _, err = call(main, str(folder))
    assert code == 2
    assert "was trained on env=alfworld" in err and "env=textworld" in err
    config = composed([str(folder)], ["env=alfworld", "env.window_keep=1"])  # its turns were of another environment
    assert (config.env.window_turns, config.env.max_turns, config.model.context, config.seed) == (4, 24, 8192, 0)
    shutil.copytree(folder, tmp_path / "b")
    Attempt(None, False, {}, 0.0, ["env.window_turns=8"]).record(tmp_path / "b" / "attempts.jsonl")
    assert as_trained([str(folder), str(tmp_path / "b")], ["model=tiny"]) == ["env.max_turns=5", "model=tiny"]


# ---- a stage whose environment fails at every step


def demonstrate(config: DictConfig, folder: Path) -> None:
    catalogue = Catalogue(make_environment(config.env.name), folder / "cache")
    write_tasks(task_file(folder, "demonstrations"), catalogue.tasks(config.env.task, "demonstrations", 1))
    make_demonstrations(Run(config, folder), "")


def evaluate_tiny(config: DictConfig, folder: Path) -> None:
    run = Run(config, folder)
    prepare_evaluation_sets(run, also_own=True)
    evaluate(run, [Checkpoint("base", str(ROOT / "assets" / "tiny"))])


@pytest.mark.parametrize("stage", [demonstrate, pytest.param(evaluate_tiny, marks=pytest.mark.slow)])
def test_a_stage_ends_with_the_cause_and_its_place(
    stage: Callable[[DictConfig, Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["env.name=flaky_environment:Broken", "env.task=count-2", "env.workers=1", "eval.games=1"]
    config = compose([*words, f"env.cache_dir={tmp_path / 'cache'}"])
    assert exit_code(lambda: stage(config, tmp_path)) == FAILED
    *_, cause, resumes = capsys.readouterr().err.strip().splitlines()
    assert re.search(r"KeyError: '.*' at .*/flaky_environment.py:\d+: return super\(\)", cause), cause
    assert resumes.startswith("The same command")


# ---- behind rollout servers


@pytest.mark.parametrize(
    ("words", "served"), [([], False), (["cluster=gpu8"], True), (["cluster=gpu8", "eval.servers=false"], False)]
)
def test_gpus_with_vllm_play_through_servers(words: list[str], served: bool) -> None:
    config = compose(words)
    assert through_servers(Run(config)) is served
    assert identity(config) == identity(compose([]))


def episodes(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("evaluations/*/evaluation/*.jsonl")
    return small.without_clocks(file)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_servers_and_one_process_play_the_same_episodes(tmp_path: Path) -> None:
    """Requests have the same seeds; ids could differ where rounding decides a draw."""
    asked = ["base", "eval.games=8", "env.max_turns=6"]
    for servers in ("false", "true"):
        assert main([*asked, f"eval.servers={servers}", f"output_dir={tmp_path / servers}"]) == 0
    alone, served = episodes(tmp_path / "false"), episodes(tmp_path / "true")
    assert len(alone) == 8
    for one, other in zip(alone, served, strict=True):
        assert one["outcome"] == other["outcome"]
        assert [turn["action_ids"] for turn in one["turns"]] == [turn["action_ids"] for turn in other["turns"]]
