"""``algo=rae``, ``algo=role_mean`` and ``algo=dr_mas``: the specification's numbers through the
composed config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import Paths, example_x, taking

from turngrid.algorithms.slots import Tokens
from turngrid.algorithms.turns import Turns
from turngrid.config.compose import Composer
from turngrid.config.method_settings import methods_of

GAMES = [(1, -1), (1, -1), (-1, 1), (0, 0), (1, -1), (-1.5, 0.5)]
ONE_BY_ONE = [1.0, 0.95, -1.0975, -0.04263, 0.95951, -1.58847]
AFTER = [0.05, 0.0975, 0.04263, 0.04049, 0.08847, 0.00905]
AGAINST = [-1.0, -0.95, 1.0975, 0.04263, -0.95951, 0.58847]
SHAPES: list[dict[str, Any]] = [{}, {"windows": True}, {"dead": True, "padding": 3}]
Made = Callable[..., Any]


@pytest.fixture(scope="module")
def chosen(composed: Composer) -> Made:
    def chosen(name: str, *settings: str) -> Any:
        return next(iter(methods_of(composed(["env=two_player", *settings, f"algo={name}"])).of("algo", 1).values()))

    return chosen


def matches(games: list[tuple[float, float]], turns: int = 2, **shape: Any) -> Turns:
    """Two episodes a match, of which the second is that of seat 1; R is at the end."""
    paths: Paths = {}
    for number, rewards in enumerate(games):
        for seat, reward in enumerate(rewards):
            states = [f"S{turn}" for turn in range(turns + 1)]
            paths[f"{number:02d}_{seat}"] = taking(states, [0.0] * (turns - 1) + [reward])
    found = example_x(paths=paths, **shape)
    seats = torch.tensor([int(name.split("_")[1]) for name in found.episodes])
    task = '{"env": "two_player", "task": "Nim-v0", "seed": %d}'
    return replace(found, role=seats.unsqueeze(1) * found.mask, tasks=tuple(task % n for n in range(len(seats))))


def advantages(method: Any, turns: Turns) -> dict[str, list[float]]:
    found = method(turns, Tokens(turns.place >= 0, torch.zeros(turns.place.shape))).advantages
    assert not found[~turns.mask].any()
    return {name: row[mask].tolist() for name, row, mask in zip(turns.episodes, found, turns.mask, strict=True)}


@pytest.mark.parametrize("shape", SHAPES)
def test_rae_match_by_match(chosen: Made, shape: dict[str, Any]) -> None:
    method = chosen("rae", "algo.update=game")
    found = advantages(method, matches(GAMES, **shape))
    for number, (first, second) in enumerate(zip(ONE_BY_ONE, AGAINST, strict=True)):
        assert found[f"{number:02d}_0"] == pytest.approx([first] * 2, abs=1e-5)
        assert found[f"{number:02d}_1"] == pytest.approx([second] * 2, abs=1e-5)
    wanted = {"two_player/Nim-v0#0": AFTER[-1], "two_player/Nim-v0#1": -0.05905}
    assert method.state()["baselines"] == pytest.approx(wanted, abs=1e-5)


def test_rae_by_steps_reads_the_average_of_the_start_and_goes_on_from_its_state(chosen: Made) -> None:
    method = chosen("spiral")
    method.load({"baselines": {"two_player/Nim-v0#0": 0.2, "two_player/Nim-v0#1": -0.2}})
    found = advantages(method, matches(GAMES[:4]))
    for number, wanted in enumerate((0.8, 0.8, -1.2, -0.2)):
        assert found[f"{number:02d}_0"] == pytest.approx([wanted] * 2, abs=1e-5)
        assert found[f"{number:02d}_1"] == pytest.approx([-wanted] * 2, abs=1e-5)
    after = {"two_player/Nim-v0#0": 0.20339, "two_player/Nim-v0#1": -0.20339}
    assert method.state()["baselines"] == pytest.approx(after, abs=1e-5)
    again = chosen("spiral", "algo.gamma=0.5")
    again.load(method.state())
    assert advantages(again, matches([(1, -1)]))["00_0"] == pytest.approx([0.39831, 0.79661], abs=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_role_mean_counts_turns(chosen: Made, shape: dict[str, Any]) -> None:
    """Role 0: G 1 1 -1 -1 0; role 1: G -1 1 1 0."""
    earned = {"a_0": [0.0, 1.0], "b_0": [0.0, -1.0], "c_0": [0.0], "a_1": [-1.0], "b_1": [0.0, 1.0], "c_1": [0.0]}
    paths = {name: taking("S" * (len(rewards) + 1), rewards) for name, rewards in earned.items()}
    turns = example_x(paths=paths, **shape)
    role = torch.tensor([int(name.split("_")[1]) for name in turns.episodes]).unsqueeze(1) * turns.mask
    found = advantages(chosen("marshal"), replace(turns, role=role))
    wanted = {"a_0": [1, 1], "b_0": [-1, -1], "c_0": [0], "a_1": [-1.25], "b_1": [0.75, 0.75], "c_1": [-0.25]}
    assert found == {name: pytest.approx(numbers, abs=1e-5) for name, numbers in wanted.items()}


def test_equal_rewards_teach_nothing_and_an_absent_role_changes_nothing(chosen: Made) -> None:
    both = matches([(0.3, -0.3)] * 3)
    assert not any(map(any, advantages(chosen("role_mean"), both).values()))
    one = example_x(paths={f"{n:02d}_0": taking("SS", [reward]) for n, (reward, _) in enumerate(GAMES)})
    found = advantages(chosen("rae", "algo.update=game"), replace(one, role=torch.zeros_like(one.state)))
    assert [found[f"{n:02d}_0"][0] for n in range(6)] == pytest.approx(ONE_BY_ONE, abs=1e-5)


# ---- roles of one episode: verifier, searcher, answerer

CALLS = {"g_0": (2, 1, 1), "g_1": (3, 2, 1), "g_2": (3, 3, 0), "g_3": (1, 0, 1)}  # by role
SCORES = dict(zip(CALLS, (1.0, 0.0, 0.0, 1.0), strict=True))
BY_ROLE = [(1.33333, -0.66667), (2.04124, -0.40825), (0.57735, -1.15470)]  # of a won and of a lost episode
BY_EPISODE = [(0.86602, -0.86602), (1.15470, -0.57735), (0.57735, -1.15470)]
AS_GRPO = [(0.86602, -0.86602)] * 3


def in_roles(calls: dict[str, tuple[int, ...]], scores: dict[str, float], **shape: Any) -> Turns:
    paths: Paths = {}
    for name, counts in calls.items():
        rewards = [0.0] * (sum(counts) - 1) + [scores[name]]
        paths[name] = taking("S" * (sum(counts) + 1), rewards)
    turns = example_x(paths=paths, **shape)
    role = torch.zeros_like(turns.state)
    for row, name in zip(role, turns.episodes, strict=True):
        own = [number for number, count in enumerate(calls[name]) for _ in range(count)]
        row[: len(own)] = torch.tensor(own)
    return replace(turns, role=role)


def by_call(composed: Composer, turns: Turns, *settings: str) -> dict[tuple[str, int], set[float]]:
    """The advantages of each episode's calls of each role."""
    config = composed(["algo=dr_mas", *settings])
    assert list(config.roles) == ["planner", "actor"]
    found = methods_of(config).of("credit", 1)["role_norm"](
        turns, torch.full(turns.mask.shape, torch.nan, dtype=torch.float64)
    )
    assert turns.role is not None
    return {
        (name, role): {round(number, 6) for number in found[e][turns.mask[e] & (turns.role[e] == role)].tolist()}
        for e, name in enumerate(turns.episodes)
        for role in range(3)
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ((), BY_ROLE),
        (("credit.role_norm.count=episode",), BY_EPISODE),
        (("credit.role_norm.per=group", "credit.role_norm.count=episode"), AS_GRPO),
    ],
)
def test_role_norm_counts_calls_or_episodes(
    composed: Composer, settings: tuple[str, ...], wanted: list[tuple[float, float]], shape: dict[str, Any]
) -> None:
    found = by_call(composed, in_roles(CALLS, SCORES, **shape), *settings)
    for (name, role), numbers in found.items():
        expected = {wanted[role][SCORES[name] == 0]} if CALLS[name][role] else set()
        assert sorted(numbers) == pytest.approx(sorted(expected), abs=1e-5), (name, role)


def test_a_role_with_one_call_or_with_equal_scores_has_no_advantage(composed: Composer) -> None:
    calls = {"g_0": (2, 1, 0), "g_1": (1, 0, 0), "h_0": (1, 1, 1), "h_1": (2, 1, 1)}
    found = by_call(composed, in_roles(calls, {"g_0": 1.0, "g_1": 0.0, "h_0": 0.3, "h_1": 0.3}))
    assert found["g_0", 1] == {0.0} and all(found[name, role] == {0.0} for name in ("h_0", "h_1") for role in range(3))
    assert [*found["g_0", 0]] == pytest.approx([0.57735], abs=1e-5)  # of 1 1 0
    without = by_call(composed, in_roles({**calls, "g_0": (2, 0, 0)}, {"g_0": 1.0, "g_1": 0.0, "h_0": 0.3, "h_1": 0.3}))
    assert all(without[name, 0] == found[name, 0] for name in calls)  # an absent role changes nothing
