"""Which games a run is trained and tested on, also where there are too few."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import DictConfig

from turngrid.config.compose import compose
from turngrid.envs.types import TaskError
from turngrid.experiments.stages import pipeline
from turngrid.tasks import evaluation_sets
from turngrid.tasks.evaluation_sets import evaluation_settings, prepare_evaluation_sets, turns_of
from turngrid.tasks.run import Run
from turngrid.tasks.splits import look_for_plans, prepare_tasks, read_tasks, task_file

COUNTING = ["env.name=counting_environment:Counting", "env.task=count-2", "eval.games=5"]


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Overrides for an environment of this folder."""
    monkeypatch.chdir(tmp_path)
    return [*COUNTING, "env.cache_dir=cache", "env.workers=1"]


def test_no_other_split_has_a_game_of_any_evaluation_set(
    counting: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Training seeds begin with the kinds 1, 2, 3, ...; count-2 tests 1 to 5, count-3 11 to 15.
    A run from this one's model that tests 1 to 7 notes that it was trained on 6 and 7."""
    config = compose([*counting, "eval.tasks=[count-3,count-2]", "budget.units=16", "budget.sft_share=0.5", *SMALL])
    run = Run(config, tmp_path)
    assert (run.allocation.demonstrations, run.allocation.games) == (4, 8)
    prepare_tasks(run, avoid=prepare_evaluation_sets(run))
    kinds = {split: [int(task.fingerprint) for task in read_tasks(task_file(tmp_path, split))] for split in SPLITS}
    assert kinds["test"] == [1, 2, 3, 4, 5]
    (file,) = (tmp_path / "tasks" / "evaluation_sets").iterdir()
    assert [int(task.fingerprint) for task in read_tasks(file)] == [11, 12, 13, 14, 15]
    games = Path(run.for_process().env.cache_dir)
    assert games == Path(read_tasks(file)[0].game_file).parents[4] == tmp_path / "cache", "stages work elsewhere"
    assert kinds["demonstrations"] == [6, 7, 8, 9]
    assert kinds["train"] == [10, 16, 17, 18, 19, 20, 21, 22]
    for name in ("attempts.jsonl", "config.json"):
        (tmp_path / name).touch()
    config.model.path, config.eval.games = str(tmp_path), 7
    monkeypatch.setattr(pipeline, "_train", lambda *run: sys.exit())
    with pytest.raises(SystemExit):
        pipeline.execute(Run(config, tmp_path / "next"))
    assert f"note: model.path={tmp_path} was trained on 2 of the 7 games of count-2\n" in capfd.readouterr().err


SMALL = ["budget.demo_cost=2", "budget.rl_steps=2", "data.train_batch_size=4"]
SPLITS = ("test", "demonstrations", "train")


def test_settings_are_evaluation_sets_times_temperatures(counting: list[str], tmp_path: Path) -> None:
    asked = ["eval.tasks=[count-2,count-3]", "eval.temperatures=[0.4,1]", "eval.samples_per_game=2", "env.max_turns=4"]
    config = compose([*counting, *asked])
    run = Run(config, tmp_path)
    prepare_evaluation_sets(run, also_own=True)
    todo = evaluation_settings(run)
    assert [item.label for item in todo] == ["", "count-2-t1", "count-3-t0.4", "count-3-t1"]
    assert [(item.temperature, item.samples_per_game) for item in todo] == [(0.4, 2), (1.0, 2)] * 2
    sets = [item.evaluation_set for item in todo]
    assert [(one.max_turns, one.optimal_turns, one.games) for one in sets] == [(4, 2, 5)] * 2 + [(9, 3, 5)] * 2
    assert len({one.sha256 for one in sets}) == 2 and not any(one.out_of_reach for one in sets)
    config.eval.max_turns = 2
    few = evaluation_settings(run)
    assert [item.evaluation_set.out_of_reach for item in few] == [0, 0, 5, 5], "no plan of count-3 fits"


def test_evaluation_sets_are_the_runs_own_task_unless_others_are_named() -> None:
    """A slash names another environment only where there is one."""
    assert evaluation_sets.tested(Run(compose([]))) == [("textworld", "w2-o3-q4")]
    named = compose(["env=swegym", "eval.tasks=[getmoto/moto,tw_simple/tw-simple]"])
    assert evaluation_sets.tested(Run(named)) == [("swegym", "getmoto/moto"), ("tw_simple", "tw-simple")]


def test_turns_of_an_evaluation_set() -> None:
    run = Run(compose(["env.max_turns=6"]))
    assert turns_of(run, "textworld", "w2-o3-q4") == 6
    assert turns_of(run, "textworld", "w4-o6-q8") == 24
    assert turns_of(run, "tw_simple", "tw-simple") == 24
    assert turns_of(Run(compose(["env.max_turns=6", "eval.max_turns=7"])), "textworld", "w4-o6-q8") == 7


def test_tokens_grow_with_the_turns_up_to_the_models_context() -> None:
    config = compose([])
    assert (config.env.max_turns, config.data.max_prompt_length, config.data.max_response_length) == (12, 512, 1024)
    lengths = [evaluation_sets.response_length(Run(config), turns) for turns in (6, 12, 15, 24)]
    assert lengths == [1024, 1024, 1280, 2048 - 512]


def test_another_environment_has_its_own_settings_and_the_runs_workers() -> None:
    run = Run(compose(["env.workers=1", "env.max_action_tokens=9"]))
    assert run.of_environment("textworld") is run
    node = run.of_environment("gym").config.env
    assert (node.id, node.workers) == ("FrozenLake-v1", 1)
    assert run.of_environment("webshop").config.env.max_action_tokens == 9


# ---- fewer games than the budget would pay


POND = "env.kwargs={desc: [SFF,FHF,FFG]}"  # one start, so one game
LAKE = ["env=gym", "env.kwargs={desc: [SSSS,SSSF,SSHG]}", "budget=rl_only"]  # nine starts


def composed(cache: Path, *overrides: str) -> DictConfig:
    return compose([*LAKE, f"env.cache_dir={cache}", *overrides])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(("count", "units"), [("games", 5.0), ("rollouts", 1000.0 - 1000 % 128)])
def test_training_takes_the_games_that_there_are(
    cache: Path, tmp_path: Path, count: str, units: float, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nine starts less four tested ones; the plan, which the run trains and charges by, follows."""
    config = composed(cache, "eval.games=4", f"budget.count={count}", "actor_rollout_ref.rollout.n=1", "algo=ppo")
    config.data.train_batch_size = config.actor_rollout_ref.actor.ppo_mini_batch_size = 128
    asked = Run(config).allocation
    assert asked.games > 5
    allocation = prepare_tasks(Run(config, tmp_path))
    games = [task.fingerprint for split in ("test", "train") for task in read_tasks(task_file(tmp_path, split))]
    assert len(games) == len(set(games)) == 9
    assert (allocation.games, allocation.steps) == (5, asked.steps)
    assert (allocation.units, allocation.unspent) == (units, 1000 - units)
    note = f"turngrid: note: FrozenLake-v1 has 5 training games, the budget pays for {asked.games}: they are revisited"
    assert note in capfd.readouterr().err.splitlines()


def test_other_splits_say_what_to_set(cache: Path, tmp_path: Path) -> None:
    config = composed(cache, "eval.games=10")
    for prepare in (
        lambda: prepare_tasks(Run(config, tmp_path)),
        lambda: prepare_evaluation_sets(Run(config, tmp_path), also_own=True),
    ):
        with pytest.raises(TaskError, match=r"test has 9 games of the 10 .*; use eval.games=9 or fewer"):
            prepare()
    shown = composed(cache, "budget=sft_only", "eval.games=4")
    with pytest.raises(TaskError, match="5 games .*; use a lower budget.units or budget.sft_share"):
        prepare_tasks(Run(shown, tmp_path))
    planless = compose(["env.name=counting_environment:Planless", "env.task=count-2", f"env.cache_dir={cache}"])
    with pytest.raises(TaskError, match="env.task=count-2: .* expert plan; use budget=rl_only"):
        prepare_tasks(Run(planless, tmp_path))
    alone = composed(cache, POND, "eval.games=1")
    with pytest.raises(TaskError, match="train has 0 games .*; use a lower eval.games, .*; env.distinct=false"):
        prepare_tasks(Run(alone, tmp_path))


@pytest.mark.parametrize("form", ["prefix", "tcod", "retry"])
def test_a_form_that_takes_expert_plans_says_so_of_a_game_without_one(form: str, cache: Path, tmp_path: Path) -> None:
    config = composed(cache, "+env.kwargs.is_slippery=true", "eval.games=1", f"rollout_form={form}")
    with pytest.raises(TaskError, match=f"400 of 400 .* no expert plan, which rollout_form={form} needs; use"):
        prepare_tasks(Run(config, tmp_path))


def test_a_few_games_without_a_plan_are_told(cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = composed(cache, "eval.games=4", "rollout_form=retry")
    prepare_tasks(Run(config, tmp_path))
    first, *others = read_tasks(task_file(tmp_path, "train"))
    look_for_plans(Run(config), [replace(first, expert_plan=()), *others])
    said = "1 of 5 training games have no expert plan, which rollout_form=retry needs; groups of such games are dropped"
    assert said in capfd.readouterr().err
