"""An environment with fewer games than the budget would pay: training takes what there is, other
splits say what to set."""

from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import DictConfig

from turngrid.config.compose import compose
from turngrid.envs.types import TaskError
from turngrid.experiments.cost_estimate.amounts import amounts
from turngrid.tasks.budget import allocate_budget
from turngrid.tasks.evaluation_sets import prepare_evaluation_sets
from turngrid.tasks.splits import look_for_plans, prepare_tasks, read_tasks, task_file

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
    asked = allocate_budget(config)
    assert asked.games > 5
    allocation = prepare_tasks(config, asked, tmp_path)
    games = [task.fingerprint for split in ("test", "train") for task in read_tasks(task_file(tmp_path, split))]
    assert len(games) == len(set(games)) == 9
    assert (allocation.games, allocation.steps) == (5, asked.steps)
    assert (allocation.units, allocation.unspent) == (units, 1000 - units)
    note = f"turngrid: note: FrozenLake-v1 has 5 training games, the budget pays for {asked.games}: they are revisited"
    assert note in capfd.readouterr().err.splitlines()


def test_other_splits_say_what_to_set(cache: Path, tmp_path: Path) -> None:
    config = composed(cache, "eval.games=10")
    for prepare in (
        lambda: prepare_tasks(config, allocate_budget(config), tmp_path),
        lambda: prepare_evaluation_sets(config, tmp_path, also_own=True),
    ):
        with pytest.raises(TaskError, match=r"test has 9 games of the 10 .*; set eval.games=9 or fewer"):
            prepare()
    shown = composed(cache, "budget=sft_only", "eval.games=4")
    with pytest.raises(TaskError, match="demonstrations of 5 games at most: lower budget.units or budget.sft_share"):
        prepare_tasks(shown, allocate_budget(shown), tmp_path)
    planless = compose(["env.name=counting_environment:Planless", "env.task=count-2", f"env.cache_dir={cache}"])
    with pytest.raises(TaskError, match="env.task=count-2: .* expert plan; choose budget=rl_only"):
        prepare_tasks(planless, allocate_budget(planless), tmp_path)
    alone = composed(cache, POND, "eval.games=1")
    with pytest.raises(TaskError, match="train has 0 games .*, or choose another task; env.distinct=false"):
        prepare_tasks(alone, allocate_budget(alone), tmp_path)


@pytest.mark.parametrize("form", ["prefix", "tcod", "retry"])
def test_a_form_that_takes_expert_plans_says_so_of_a_game_without_one(form: str, cache: Path, tmp_path: Path) -> None:
    config = composed(cache, "+env.kwargs.is_slippery=true", "eval.games=1", f"rollout_form={form}")
    with pytest.raises(
        TaskError, match=f"400 of 400 training games have no expert plan, which rollout_form={form} needs; use"
    ):
        prepare_tasks(config, allocate_budget(config), tmp_path)


def test_a_few_games_without_a_plan_are_told(cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = composed(cache, "eval.games=4", "rollout_form=retry")
    prepare_tasks(config, allocate_budget(config), tmp_path)
    first, *others = read_tasks(task_file(tmp_path, "train"))
    look_for_plans(config, [replace(first, expert_plan=()), *others])
    said = "1 of 5 training games have no expert plan, which rollout_form=retry needs; groups of such games are dropped"
    assert said in capfd.readouterr().err


def test_the_plan_knows_too(cache: Path, tmp_path: Path) -> None:
    """A split that is listed short is known beforehand; what is drawn is known once it was made."""
    config = composed(cache, POND, "eval.games=1")
    wanted = amounts(config)
    assert wanted.allocation.games == sum(part.wanted for part in wanted.games if part.split == "train") <= 400
