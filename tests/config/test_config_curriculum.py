"""Mixtures and curricula as they are composed: what is filled in, and what names them."""

from turngrid.config.compose import Composer
from turngrid.records.run_folder import run_name

MIXED = "env.tasks=[w2-o3-q4,w2-o4-q4]"
LONG = "env.tasks={w2-o3-q4: 3, w4-o6-q8: 1}"


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
    assert composed([]).curriculum.phases is composed([]).curriculum.horizon is None
