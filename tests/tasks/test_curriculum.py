"""Schedules by numbers worked by hand; a resumed run draws the games of an unbroken one."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from turngrid.config.compose import Composer
from turngrid.records.run_folder import run_name
from turngrid.tasks.curriculum import (
    Curriculum,
    Draws,
    Thresholded,
    curriculum,
    equal_phases,
    horizon_in_thirds,
    turns_at,
)

SIMPLE, COMPLEX = "w2-o3-q4", "w4-o6-q8"
TASKS = (SIMPLE, COMPLEX)
GAMES = {SIMPLE: range(12), COMPLEX: range(12, 16)}


def test_the_horizon_of_scalinginter_rl() -> None:
    """The released recipes of AgentGym-RL: rounds=[10,20,30], steps_scaling_inter=100."""
    horizon = {1: 10, 101: 20, 201: 30}
    assert [turns_at(horizon, step, 50) for step in (1, 100, 101, 200, 201, 300, 1000)] == [10, 10, 20, 20, 30, 30, 30]
    assert turns_at(None, 7, 50) == 50


def test_defaults_by_hand() -> None:
    assert horizon_in_thirds(12, 25) == {1: 4, 9: 8, 17: 12}
    assert horizon_in_thirds(12, 1) == {1: 12}
    assert equal_phases(["a", "b", "c"], 10) == {1: ["a"], 4: ["b"], 7: ["c"]}


def played(order: Thresholded, *shares: tuple[int, int]) -> list[int]:
    """The phase's number before each step and after the last; SIMPLE had these (won, played)."""
    numbers = [order.phase(1).number]
    for step, share in enumerate(shares, start=1):
        order.observe(step, {SIMPLE: share})
        numbers.append(order.phase(step + 1).number)
    return numbers


def test_a_threshold_counts_all_episodes_of_the_window_together() -> None:
    """Steps of 8: 8/8 alone is no full window; 8+2 of 16 is 0.625; 2+9 of 16 is 0.6875; 9+5 of 16
    is 0.875 with 14."""
    order = Thresholded(TASKS, threshold=0.7, window=2)
    assert played(order, (8, 8), (2, 8), (5, 8), (7, 8)) == [1, 1, 1, 1, 2]
    assert order.phase(5) == order.phase(6)
    assert (order.phase(5).first_step, order.phase(5).tasks) == (5, (COMPLEX,))


def test_only_the_newest_task_counts_and_the_last_one_stays() -> None:
    order = Thresholded(TASKS, 0.5, 1, keep=True)
    played(order, (8, 8))
    assert order.phase(2).tasks == TASKS
    order.observe(2, {SIMPLE: (8, 8), COMPLEX: (0, 8)})
    assert order.success == 0.0
    order.observe(3, {COMPLEX: (8, 8)})
    assert order.phase(4).number == 2


def draws(node: Mapping[str, object], games: Mapping[str, Sequence[int]] = GAMES, size: int = 4) -> Draws:
    return Draws(games, size, curriculum(node, list(games)), 0)


def step_of(order: Draws, step: int, replaced: int = 0) -> list[int]:
    """A step's games, those that replace failed ones among them; a good step of SIMPLE."""
    order.begin(step)
    games = [order.next() for _ in range(4 + replaced)]
    order.curriculum.observe(step, {SIMPLE: (step, 6)})
    return games


NODES = {
    "none": {"name": "none", "phases": None},
    "phases": {"name": "phases", "phases": {1: [SIMPLE], 4: [SIMPLE, COMPLEX], 7: [COMPLEX]}},
    "threshold": {"name": "threshold", "threshold": 0.6, "window": 2, "keep": True},
}


def test_stages_switch_at_the_stated_step() -> None:
    order = draws(NODES["phases"])
    kinds = [Counter(game >= 12 for game in step_of(order, step)) for step in range(1, 9)]
    assert kinds == [{False: 4}] * 3 + [{False: 3, True: 1}] * 3 + [{True: 4}] * 2


@pytest.mark.parametrize("name", NODES)
def test_a_run_goes_on_from_any_step_as_if_unbroken(name: str) -> None:
    """Through JSON, and with games that were replaced in two of the steps."""
    replaced = {2: 1, 6: 3}
    unbroken = draws(NODES[name])
    states, games = {}, {}
    for step in range(1, 13):
        games[step] = step_of(unbroken, step, replaced.get(step, 0))
        states[step] = json.dumps(unbroken.state())
    for saved in range(1, 12):
        resumed = draws(NODES[name])
        step_of(resumed, 1)  # whatever happened before is overwritten
        resumed.load(json.loads(states[saved]))
        assert [step_of(resumed, step, replaced.get(step, 0)) for step in range(saved + 1, 13)] == [
            games[step] for step in range(saved + 1, 13)
        ]


def test_a_replacement_is_of_the_task_of_its_place() -> None:
    order = draws(NODES["none"])
    batch = step_of(order, 1, replaced=4)
    assert [game >= 12 for game in batch[:4]] == [game >= 12 for game in batch[4:]]
    assert len(set(batch)) == 8


def test_fewer_games_than_places_come_again_in_the_step() -> None:
    order = draws(NODES["none"], {SIMPLE: range(2), COMPLEX: range(2, 3)}, size=6)
    assert Counter(step_of(order, 1) + step_of(order, 2)[:2]) >= Counter({0: 2, 1: 2, 2: 2})


def epochs(draws: Draws, steps: range, solved: Mapping[int, float]) -> list[list[int]]:
    """The games of each step; each is solved in its share of ``solved``, 0 by default."""
    found = []
    for step in steps:
        draws.begin(step)
        found.append([draws.next() for _ in range(draws._size)])
        draws.observe({game: solved.get(game, 0.0) for game in found[-1]}, 0.9)
    return found


def in_order(steps: list[list[int]]) -> list[int]:
    return sorted(game for step in steps for game in step)


def games_of(*games: int, size: int) -> Draws:
    return Draws({"a": games}, size, Curriculum({1: ["a"]}), 5)


def test_solved_games_leave_at_the_end_of_an_epoch() -> None:
    """Six games, two a step: 8 of 9 samples are too few, 9 of 10 are not; none returns."""
    draws = games_of(*range(6), size=2)
    first = epochs(draws, range(1, 4), {0: 0.9, 1: 8 / 9, 2: 1.0})
    assert in_order(first) == list(range(6)) and not draws.left
    second = epochs(draws, range(4, 6), {})
    assert in_order(second) == [1, 3, 4, 5] and draws.left == {0, 2}
    assert in_order(epochs(draws, range(6, 8), {})) == [1, 3, 4, 5]


@pytest.mark.parametrize(("size", "left"), [(4, {3, 5}), (5, {5}), (6, set()), (8, set())])
def test_as_many_games_stay_as_a_step_has(size: int, left: set[int]) -> None:
    """The most solved leave first, of equal ones the first."""
    draws = games_of(*range(6), size=size)
    draws.observe({0: 0.95, 1: 0.95, 2: 0.95, 3: 0.97, 4: 0.97, 5: 1.0}, 0.9)
    draws.begin(1)
    assert {draws.next() for _ in range(size)} <= {*range(6)} - left
    assert draws.left == left


def test_solved_games_of_a_run_that_goes_on() -> None:
    unbroken = games_of(*range(6), size=2)
    wanted = []
    for step in range(1, 9):
        state = json.loads(json.dumps(unbroken.state()))
        wanted += epochs(unbroken, range(step, step + 1), {1: 1.0, 4: 1.0})
        resumed = games_of(*range(6), size=2)
        resumed.load({**state, "solved": {int(game): share for game, share in state["solved"].items()}})
        assert epochs(resumed, range(step, step + 1), {1: 1.0, 4: 1.0}) == wanted[-1:]
    assert unbroken.left == {1, 4}


# ---- mixtures and curricula as they are composed

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
