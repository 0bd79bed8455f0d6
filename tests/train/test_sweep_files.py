"""Every file of ``sweeps/`` can be launched; at paper scale it is arXiv 2510.01132's study."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from omegaconf import DictConfig

from turngrid.config.checks.check import check
from turngrid.config.compose import composer
from turngrid.experiments.report import cells as published
from turngrid.experiments.sweep.definition import Scale, Selector, SweepRun, flattened, load, names, points
from turngrid.tasks.run import Run

SCALES = ("laptop", "paper")
FILES = {name: file for name in names() if (file := load(name)).suite is None}  # test_sweep_pieces.py has the suite
SMALL = {"small": pytest.mark.slow}  # the laptop's axes with another model
SCALED = [(name, scale) for name in FILES for scale in FILES[name].scales]
EACH = [pytest.param(*one, id="-".join(one), marks=SMALL.get(one[1], ())) for one in SCALED]
KEY = "OPENAI_API_KEY"
Composed = Callable[[SweepRun], DictConfig]


@pytest.fixture(scope="module")
def composed() -> Iterator[Composed]:
    """The config of a run, composed once, whatever the seed and what this machine has run."""
    with composer() as compose:
        found = cache(lambda overrides: compose([*overrides, "fresh=true"]))
        yield lambda point: found(tuple(point.overrides))


def runs(scale: Scale) -> list[SweepRun]:
    return points(scale, scale.seeds[:1], [], {})


def selected(scale: Scale, selector: Selector) -> list[SweepRun]:
    """The runs that a selector names."""
    wanted = {axis: value for axis, value in selector.items() if axis in scale.axes}
    return [point for point in runs(scale) if wanted.items() <= point.coordinates.items()]


def fills(config: DictConfig, selector: Selector) -> bool:
    """Whether a run has the stage and the evaluation set that a cell asks for."""
    allocation = Run(config).allocation
    there = {"base": 1, "last": 1, "sft": allocation.demonstrations, "rl": allocation.steps}
    sets = [*config.eval.tasks] or [config.env.task]
    return bool(there[selector.get("stage", "last")]) and selector.get("evaluation_set", sets[0]) in sets


@pytest.mark.parametrize(("name", "scale"), EACH)
def test_every_run_can_be_launched(name: str, scale: str, composed: Composed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "a key")  # of the judge that wants one
    warnings = [warning for point in runs(FILES[name].scales[scale]) for warning in check(composed(point))]
    # on the cluster=cpu of this test; and what the study's learning rate does with demonstrations
    paper = ("takes days on CPUs", "change next to nothing, as in the study")
    expected = paper if scale == "paper" else ("pre-trained on textworld alone",)
    assert all(any(words in warning for words in expected) for warning in warnings), warnings


@pytest.mark.parametrize("name", FILES)
def test_every_name_of_the_layout_is_one_of_the_table(name: str) -> None:
    table = published.table_of(str(FILES[name].published))
    free = {"none", published.BASE} if published.BASE in table.protocol else {"none"}
    columns = {column for cells in table.rows.values() for column in cells}
    for scale in FILES[name].scales.values():
        asked = [frozenset(point.overrides) for point in runs(scale)]
        assert len(set(asked)) == len(asked), "no two runs are the same"
        rows, across = scale.layout.rows.items(), scale.layout.columns.items()
        assert {selector.get("published", row) for row, selector in rows} <= {*table.rows, *free}
        assert {selector.get("published", column) for column, selector in across} <= columns | free


@pytest.mark.parametrize(("name", "scale"), EACH)
def test_every_row_column_and_takeaway_has_its_runs(name: str, scale: str, composed: Composed) -> None:
    chosen = FILES[name].scales[scale]
    cells = {
        (row, column): any(fills(composed(point), {**one, **other}) for point in selected(chosen, {**one, **other}))
        for row, one in chosen.layout.rows.items()
        for column, other in chosen.layout.columns.items()
    }
    assert {row for (row, _), filled in cells.items() if filled} == set(chosen.layout.rows)
    assert {column for (_, column), filled in cells.items() if filled} == set(chosen.layout.columns)
    for takeaway in chosen.takeaways:
        for side in (takeaway.higher, takeaway.lower):
            for selector in flattened(side):
                assert any(fills(composed(point), selector) for point in selected(chosen, selector)), takeaway.claim


def test_every_table_has_a_file_with_both_scales() -> None:
    assert {file.published for file in FILES.values()} == set(published.tables())
    for file in FILES.values():
        assert {*SCALES} <= {*file.scales} <= {*SCALES, "small"}


# The study's protocol: models, training games, epochs (passes over them, one episode each), turns,
# demonstrations. A number in a row's own name (tables 9 and 13, the recipes) is not here.
SMALL, LARGE, SWE = "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-8B"
STUDY: dict[str, tuple[set[str], int, int, set[int], int]] = {
    "table1_complexity": ({SMALL}, 5000, 150, {12}, 0),
    "table3_model_size": ({SMALL, LARGE}, 5000, 150, {12, 24}, 0),
    "table4_exploration_budget": ({SMALL}, 5000, 150, {6, 8, 12, 16}, 0),
    "table5_generalisation": ({SMALL}, 5000, 150, {12}, 0),
    "table7_alfworld_mixing": ({LARGE}, 1000, 90, {24}, 300),
    "table10_algorithms": ({SMALL, LARGE}, 5000, 150, {12, 24}, 0),
    "table11_reward_density": ({LARGE}, 3000, 150, {24}, 0),
    "table13_hyperparameters": ({SMALL}, 5000, 30, {12}, 0),
    "table2_swe_complexity": ({SWE}, 90, 15, {24}, 0),
    "table4_exploration_budget_swe": ({SWE}, 90, 15, {10, 25, 40}, 0),
    "table6_swe_generalisation_lines": ({SWE}, 90, 15, {24}, 0),
    "table6_swe_generalisation_tests": ({SWE}, 90, 15, {24}, 0),
    "table8_swe_mixing": ({SWE}, 90, 15, {24}, 0),
    "table12_swe_reward_source": ({SWE}, 90, 15, {40}, 0),
}
KL_IN_REWARD = {"kl_in_reward": True, "kl_in_loss": False, "kl": 0.001}
ALGORITHMS = {  # the columns of the protocol's table of hyper-parameters
    "ppo": {"prompts": 256, "n": 1, "actor_lr": 5e-7, "critic_lr": 5e-6, **KL_IN_REWARD},
    "rloo": {"prompts": 32, "n": 8, "actor_lr": 1e-6, **KL_IN_REWARD},
    "reinforce_plus_plus": {"prompts": 256, "n": 1, "actor_lr": 1e-6, **KL_IN_REWARD},
    "grpo": {"prompts": 32, "n": 8, "actor_lr": 1e-6, "kl_in_reward": False, "kl_in_loss": True, "kl": 0.001},
    "grpo on SWE": {"prompts": 16, "n": 4, "actor_lr": 1e-6, "kl_in_reward": False, "kl_in_loss": True, "kl": 0.001},
}
EVERYWHERE = {"temperature": 0.7, "validation": [0.4], "gamma": 1.0, "lambda": 1.0, "sft": (1e-6, 1)}
EVERYWHERE |= {"clip": (0.2, 0.2, 0.2), "dual": 3.0, "value_clip": 0.5}
EVERYWHERE |= {"entropy": 0, "loss": "token-mean", "ppo_epochs": 1}
CONTEXT = {10: 3072, 24: 4096, 25: 4096, 40: 6144}  # of SWE-Gym's answers, by turns
RECIPE = {"kl": 0.01, "actor_lr": 1e-6, "critic_lr": 1e-5}  # PPO, best of table 13


def settings(config: DictConfig) -> dict[str, object]:
    """The hyper-parameters that the protocol states, where verl and our stages read them."""
    actor, critic, algorithm = config.actor_rollout_ref.actor, config.critic, config.algorithm
    in_loss = actor.use_kl_loss
    found = {
        "prompts": config.data.train_batch_size,
        "n": config.actor_rollout_ref.rollout.n,
        "actor_lr": actor.optim.lr,
        "kl_in_reward": algorithm.use_kl_in_reward,
        "kl_in_loss": in_loss,
        "kl": actor.kl_loss_coef if in_loss else algorithm.kl_ctrl.kl_coef,
        "temperature": config.actor_rollout_ref.rollout.temperature,
        "validation": list(config.eval.temperatures),
        "gamma": algorithm.gamma,
        "lambda": algorithm.lam,
        "clip": (actor.clip_ratio, actor.clip_ratio_low, actor.clip_ratio_high),
        "dual": actor.clip_ratio_c,
        "value_clip": critic.cliprange_value,
        "entropy": actor.entropy_coeff,
        "loss": actor.loss_agg_mode,
        "ppo_epochs": actor.ppo_epochs,
        "sft": (config.model.sft.lr, config.model.sft.epochs),
    }
    return {**found, "critic_lr": critic.optim.lr} if config.algo.name == "ppo" else found


def stated(name: str, point: SweepRun, config: DictConfig) -> dict[str, object]:
    """What the protocol says of a run."""
    algo = "grpo on SWE" if config.env.name == "swegym" else config.algo.name
    said = {**EVERYWHERE, **ALGORITHMS[algo]}
    if name == "released_recipes" and algo == "ppo":
        return {**said, **RECIPE}
    return {**said, **_of_table_13(point)} if name == "table13_hyperparameters" else said


def _of_table_13(point: SweepRun) -> dict[str, float]:
    """Read off the published row that the run's own row names."""
    rows = FILES["table13_hyperparameters"].scales["paper"].layout.rows.values()
    row = next(row for row in rows if row["setting"] == point.coordinates["setting"])
    numbers = dict(part.split("=") for part in row["published"].split(","))
    return {("kl" if key == "kl_coef" else key): float(value) for key, value in numbers.items()}


@pytest.mark.parametrize("name", FILES)
def test_hyperparameters_and_lengths_at_paper_scale_are_the_study_s(name: str, composed: Composed) -> None:
    for point in runs(FILES[name].scales["paper"]):
        config = composed(point)
        assert settings(config) == stated(name, point, config), point.label
        assert config.scale.name == "paper"
        assert config.actor_rollout_ref.actor.ppo_mini_batch_size == config.data.train_batch_size  # one update a step
        assert config.data.train_batch_size * config.actor_rollout_ref.rollout.n % 64 == 0  # eight GPUs, and more
        # 3,072 tokens up to 12 turns, 4,096 for more; on SWE-Gym what table 4 says for its calls
        swe, text = config.env.name == "swegym", 3072 if config.env.max_turns <= 12 else 4096
        assert config.data.max_prompt_length == (4096 if swe else text)
        assert config.data.max_response_length == (CONTEXT[config.env.max_turns] if swe else text)


@pytest.mark.parametrize("name", STUDY)
def test_games_turns_and_models_at_paper_scale_are_the_study_s(name: str, composed: Composed) -> None:
    models, games, epochs, turns, demonstrations = STUDY[name]
    configs = [composed(point) for point in runs(FILES[name].scales["paper"])]
    batch = 16 if models == {SWE} else 256  # SWE-Gym's epochs are of 16 instances a step, whatever their samples
    for config in configs:
        allocation = Run(config).allocation
        assert (allocation.games, allocation.demonstrations, allocation.unspent) == (games, demonstrations, 0)
        assert allocation.steps == -(-epochs * games // batch)
        assert config.eval.games == (25 if models == {SWE} else 100)
    assert {config.model.path for config in configs} == models
    assert {config.env.max_turns for config in configs} == turns
