"""Mixtures and curricula as they are composed: what is filled in, and what is refused in one
line."""

import pytest

from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.records.run_folder import run_name

MIXED = "env.tasks=[w2-o3-q4,w2-o4-q4]"
LONG = "env.tasks={w2-o3-q4: 3, w4-o6-q8: 1}"

REFUSED = {
    "a typo": (["env.tasks=[w2-o3-q4,w4-06-q8]"], "w4-o6-q8"),
    "no weight": (["env.tasks={w2-o3-q4: 0, w4-o6-q8: 1}"], "must be more than 0"),
    "no demonstration": ([MIXED, "budget.demo_cost=600"], "1 demonstrations leave none for w2-o4-q4"),
    "no test game": ([MIXED, "eval.games=1"], "1 test games leave none for w2-o4-q4"),
    "phases of one task": (["curriculum=phases"], "env.tasks=[a,b]"),
    "an unknown task": (
        [MIXED, "curriculum=phases", "curriculum.phases={1: [w2-o3-q4], 5: [w2-o5-q4]}"],
        "use w2-o4-q4",
    ),
    "steps that fall": (
        [MIXED, "curriculum=phases", "curriculum.phases={1: [w2-o3-q4], 9: [w2-o4-q4], 5: [w2-o4-q4]}"],
        "the steps are 1, 9, 5; use 1 first",
    ),
    "a phase that never comes": (
        [MIXED, "curriculum=phases", "curriculum.phases={1: [w2-o3-q4], 26: [w2-o4-q4]}"],
        "step 26 never comes; use steps up to budget.rl_steps=25",
    ),
    "a task that is never played": (
        [MIXED, "curriculum=phases", "curriculum.phases={1: [w2-o3-q4]}"],
        "never plays w2-o4-q4",
    ),
    "an empty stage": ([MIXED, "curriculum=phases", "curriculum.phases={1: []}"], "no task at step 1"),
    "a phase without brackets": (
        [MIXED, "curriculum=phases", "curriculum.phases={1: w2-o3-q4}"],
        "it must map steps; use curriculum.",
    ),
    "phases with no curriculum": (["curriculum.phases={1: [w2-o3-q4]}"], "use curriculum=phases"),
    "a horizon with no curriculum": (["curriculum.horizon={1: 4}"], "use curriculum=horizon"),
    "more turns than there are": (["curriculum=horizon", "curriculum.horizon={1: 4, 9: 13}"], "env.max_turns=12"),
    "turns that fall": (["curriculum=horizon", "curriculum.horizon={1: 8, 9: 4}"], "use rising ones from 1"),
    "a horizon without RL": (["curriculum=horizon", "budget=sft_only"], "budget=sft_only has no RL steps"),
    "an impossible threshold": ([MIXED, "curriculum=threshold", "curriculum.threshold=1.5"], "from 0.001 to 1"),
}
ACCEPTED = (
    [MIXED],
    [LONG],
    [LONG, "curriculum=phases"],
    [LONG, "curriculum=phases", "curriculum.horizon={1: 8, 9: 24}"],
    [LONG, "curriculum=threshold", "curriculum.keep=true"],
    [LONG, "curriculum=horizon"],
    ["curriculum=horizon", "budget=rl_only"],
    ["curriculum=horizon", "budget.count=rollouts"],
    ["curriculum=horizon", "env=tw_simple", "reward=dense"],
)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line(composed: Composer, case: str) -> None:
    overrides, words = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        check(composed(overrides))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("overrides", ACCEPTED, ids=" ".join)
def test_accepted(composed: Composer, overrides: list[str]) -> None:
    check(composed(overrides))


def test_a_mixture_has_the_turns_of_its_longest_task_unless_they_are_set(composed: Composer) -> None:
    assert composed([MIXED]).env.max_turns == 12
    assert composed([LONG]).env.max_turns == 24
    assert composed([LONG, "env.max_turns=9"]).env.max_turns == 9


def test_both_ways_of_writing_equal_weights_are_one_run(composed: Composer) -> None:
    as_list, as_mapping = composed([MIXED]), composed(["env.tasks={w2-o3-q4: 1, w2-o4-q4: 1}"])
    assert run_name(as_list) == run_name(as_mapping)
    assert run_name(as_list) != run_name(composed(["env.tasks={w2-o4-q4: 1, w2-o3-q4: 1}"]))


def test_the_folder_names_the_tasks_and_the_curriculum(composed: Composer) -> None:
    assert run_name(composed([MIXED, "curriculum=phases"])).startswith("textworld-w2-o3-q4+w2-o4-q4-phases-grpo-")
    assert run_name(composed(["curriculum=horizon"])).startswith("textworld-w2-o3-q4-horizon-grpo-")


def test_schedules_are_filled_in_where_none_is_stated(composed: Composer) -> None:
    assert composed([MIXED, "curriculum=phases"]).curriculum.phases == {1: ["w2-o3-q4"], 13: ["w2-o4-q4"]}
    assert composed(["curriculum=horizon"]).curriculum.horizon == {1: 4, 9: 8, 17: 12}
    stated = composed(["curriculum=horizon", "curriculum.horizon={1: 5}"])
    assert stated.curriculum.horizon == {1: 5}
    assert composed([]).curriculum.phases is composed([]).curriculum.horizon is None
