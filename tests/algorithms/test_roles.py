"""``algo=rae`` and ``algo=role_mean``: the specification's numbers through the composed config."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import Paths, example_x

from turngrid.algorithms.slots import Tokens
from turngrid.algorithms.turns import Turns
from turngrid.config.compose import composer
from turngrid.config.method_settings import made

GAMES = [(1, -1), (1, -1), (-1, 1), (0, 0), (1, -1), (-1.5, 0.5)]
ONE_BY_ONE = [1.0, 0.95, -1.0975, -0.04263, 0.95951, -1.58847]
AFTER = [0.05, 0.0975, 0.04263, 0.04049, 0.08847, 0.00905]
AGAINST = [-1.0, -0.95, 1.0975, 0.04263, -0.95951, 0.58847]
SHAPES: list[dict[str, Any]] = [{}, {"windows": True}, {"dead": True, "padding": 3}]
Made = Callable[..., Any]


@pytest.fixture(scope="module")
def chosen() -> Iterator[Made]:
    with composer() as compose:

        def chosen(name: str, *settings: str) -> Any:
            return next(iter(made(compose(["env=two_player", *settings, f"algo={name}"])).of("algo", 1).values()))

        yield chosen


def matches(games: list[tuple[float, float]], turns: int = 2, **shape: Any) -> Turns:
    """Two episodes a match, of which the second is that of seat 1; R is at the end."""
    paths: Paths = {}
    for number, rewards in enumerate(games):
        for seat, reward in enumerate(rewards):
            path = " a ".join(f"S{turn}" for turn in range(turns + 1))
            paths[f"{number:02d}_{seat}"] = (path, [0.0] * (turns - 1) + [reward], [0.0] * turns, [0.0] * turns, 0)
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
    paths: Paths = {
        name: (" a ".join(["S"] * (len(rewards) + 1)), rewards, [0.0] * len(rewards), [0.0] * len(rewards), 0)
        for name, rewards in {
            "a_0": [0.0, 1.0],
            "b_0": [0.0, -1.0],
            "c_0": [0.0],
            "a_1": [-1.0],
            "b_1": [0.0, 1.0],
            "c_1": [0.0],
        }.items()
    }
    turns = example_x(paths=paths, **shape)
    role = torch.tensor([int(name.split("_")[1]) for name in turns.episodes]).unsqueeze(1) * turns.mask
    found = advantages(chosen("marshal"), replace(turns, role=role))
    wanted = {"a_0": [1, 1], "b_0": [-1, -1], "c_0": [0], "a_1": [-1.25], "b_1": [0.75, 0.75], "c_1": [-0.25]}
    assert found == {name: pytest.approx(numbers, abs=1e-5) for name, numbers in wanted.items()}


def test_equal_rewards_teach_nothing_and_an_absent_role_changes_nothing(chosen: Made) -> None:
    both = matches([(0.3, -0.3)] * 3)
    assert not any(map(any, advantages(chosen("role_mean"), both).values()))
    one = example_x(paths={f"{n:02d}_0": ("S a S", [reward], [0.0], [0.0], 0) for n, (reward, _) in enumerate(GAMES)})
    found = advantages(chosen("rae", "algo.update=game"), replace(one, role=torch.zeros_like(one.state)))
    assert [found[f"{n:02d}_0"][0] for n in range(6)] == pytest.approx(ONE_BY_ONE, abs=1e-5)
