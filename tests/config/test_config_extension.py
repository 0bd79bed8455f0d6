"""``extend=runs/NAME``: what it takes from that run, what it refuses and what it says, on folders
as a run leaves them."""

import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.config.extension import depends_on_length
from turngrid.records.run_folder import identity, open_run, run_name
from turngrid.tasks.run import Run

WORDS = ("algo=ppo", "seed=3", "budget.rl_steps=6", "env.max_turns=6")
ROLLOUTS = ("budget.count=rollouts", "budget.units=2000", "budget.sft_share=0.36")  # 72 demonstrations, 10 steps


def started(composed: Composer, root: Path, *words: str) -> Path:
    """A run's folder with its config, its record of the command, and 96 games."""
    config = composed([*words, f"output_dir={root}"])
    with open_run(config, root, words) as run:
        (run / "tasks").mkdir()
        (run / "tasks" / "train.jsonl").write_text("{}\n" * 96)
    return run


@pytest.fixture(scope="module")
def run(composed: Composer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return started(composed, tmp_path_factory.mktemp("runs"), *WORDS)


def test_it_has_the_settings_of_the_run_and_more_steps(composed: Composer, run: Path) -> None:
    config = composed([f"extend={run}", "budget.rl_steps=8"])
    assert (config.algo.name, config.seed, config.env.max_turns) == ("ppo", 3, 6)
    assert (Run(config).allocation.steps, Run(config).allocation.games) == (8, 96)
    assert config.output_dir == str(run.parent) and run_name(config) != run.name
    assert check(config) == []
    assert composed([f"extend={run}", "budget.rl_steps=8", "eval.games=5"]).eval.games == 5


def test_the_whole_command_again_and_another_path_to_the_run_make_the_same_run(
    composed: Composer, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = composed([f"extend={run}", "budget.rl_steps=8"])
    monkeypatch.chdir(run.parent)
    long = composed([*WORDS, f"++extend={run.name}", "budget.rl_steps=8", "cluster=gpu1", "tracking=wandb"])
    assert identity(short) == identity(long)
    assert long.trainer.device == "cuda"


def test_an_extended_run_can_be_extended(composed: Composer, run: Path) -> None:
    words = [f"extend={run}", "budget.rl_steps=8"]
    copied = run.parent / run_name(composed(words))
    copied.mkdir()
    shutil.copy(run / "attempts.jsonl", copied)
    longer = started(composed, run.parent, *words)
    assert longer == copied
    with pytest.raises(ConfigError, match="use budget.rl_steps=9"):
        composed([f"extend={longer}", "budget.rl_steps=8"])
    config = composed([f"extend={longer}", "budget.rl_steps=9"])
    assert (config.algo.name, config.seed, config.budget.games) == ("ppo", 3, 96)


def test_epochs_over_more_games_than_there_were_are_no_other_past(composed: Composer, tmp_path: Path) -> None:
    run = started(composed, tmp_path, "budget.rl_steps=null", "curriculum=horizon")  # 400 paid, 96 there
    assert composed([f"extend={run}", "budget.rl_steps=2600"]).curriculum.horizon == {1: 4, 834: 8, 1667: 12}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("algo=grpo budget.rl_steps=8", "algo=grpo: it would change .* use algo=ppo$"),
        ("actor_rollout_ref.rollout.n=4 budget.rl_steps=8", "rollout.n=4: it would change .* use .*rollout.n=8$"),
        ("budget.rl_steps=6", "use budget.rl_steps=7 or more$"),
        ("budget.units=3000 budget.rl_steps=8", "use budget.rl_steps$"),
    ],
)
def test_what_would_change_the_past_is_named(composed: Composer, run: Path, words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        composed([f"extend={run}", *words.split()])


def test_a_run_that_is_not_there(composed: Composer, run: Path) -> None:
    with pytest.raises(ConfigError, match=f"no run lies there; use .*{run.name}"):
        composed([f"extend={run}x", "budget.rl_steps=8"])


def test_units_buy_more_steps_where_rollouts_are_counted(composed: Composer, tmp_path: Path) -> None:
    run = started(composed, tmp_path, *ROLLOUTS, "budget.rl_steps=null")
    with pytest.raises(ConfigError, match="use budget.sft_share=0.24 as well"):
        composed([f"extend={run}", "budget.units=3000"])
    plan = Run(composed([f"extend={run}", "budget.units=3000", "budget.sft_share=0.24"])).allocation
    assert (plan.demonstrations, plan.steps) == (72, 17)


SCHEDULES = ("actor_rollout_ref.actor.optim.lr_scheduler_type", "critic.optim.lr_scheduler_type", "curriculum.horizon")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            [f"{SCHEDULES[0]}=cosine", "critic.optim.lr_warmup_steps_ratio=0.1", "curriculum=horizon", "terms=[epo]"],
            ", ".join([*SCHEDULES, "terms.epo.steps"]),
        ),
        (
            ["terms=[epo]", "terms.epo.steps=50", "terms.epo.weight={linear: [1, 0, ${budget.rl_steps}]}"],
            "terms.epo.weight.linear",
        ),
        (["curriculum=horizon", "curriculum.horizon={1: 2, 4: 6}"], None),
    ],
)
def test_schedules_that_depend_on_the_length_are_named_and_the_curriculum_stays(
    composed: Composer, tmp_path: Path, words: list[str], named: str | None
) -> None:
    run = started(composed, tmp_path, *WORDS, *words)
    config = composed([f"extend={run}", "budget.rl_steps=12"])
    assert config.curriculum.horizon == OmegaConf.load(run / "config.yaml").curriculum.horizon
    said = next(depends_on_length(Run(config)), None)
    assert said is None if named is None else (said or "").startswith(f"{named}: ")
