"""What holds of every method of every slot: how episodes lie in rows, in which order, and what else
lies there changes nothing."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import example_x, random_paths, spread
from torch import Tensor
from usual import method

from benchmarks import credit as costs
from turngrid.algorithms.registry import SLOTS
from turngrid.algorithms.slots import LossView, StoredEpisode
from turngrid.algorithms.turn_table import turn_ids
from turngrid.algorithms.turns import Turns

SEEDS = (0, 1, 2)
Shown = Callable[[Any, Turns], dict[str, list[float]]]


def base(turns: Turns) -> Tensor:
    """(E, K): an advantage of each episode, the same wherever it lies."""
    return spread([random.Random(name).uniform(-2, 2) for name in turns.episodes], turns)


def credit(method: Any, turns: Turns) -> dict[str, list[float]]:
    found = method(turns, base(turns))
    return {name: row[mask].tolist() for name, row, mask in zip(turns.episodes, found, turns.mask, strict=True)}


def kept(method: Any, turns: Turns) -> dict[str, list[float]]:
    found = method(turns, 1)
    found = found.unsqueeze(1) & turns.mask if found.ndim == 1 else found
    return {
        name: row[mask].tolist() for name, row, mask in zip(turns.episodes, found.double(), turns.mask, strict=True)
    }


def term(method: Any, turns: Turns) -> dict[str, list[float]]:
    """Its loss in the second step, of three quarters of the episodes."""
    keep = torch.tensor([sum(map(ord, name)) % 4 > 0 for name in turns.episodes]).unsqueeze(1) & turns.mask
    assert turns.entropy is not None
    entropy = turns.spread(turns.entropy)
    method.prepare(turns, keep, entropy, 1, 10)
    numbers, coefficients = method.prepare(turns, keep, entropy, 2, 10)
    loss, metrics = method.loss(LossView(-entropy, entropy, numbers, 1.0), coefficients)
    return {"loss": [loss.item()]} | {name: [value.item()] for name, value in metrics.items()}


def replayed(method: Any, turns: Turns) -> dict[str, list[float]]:
    method.capacity = 1
    turns = replace(turns, tasks=turns.episodes)
    for step in (1, 2):
        wanted = method.wanted(turns, base(turns), step)
        episodes = [
            StoredEpisode([{"name": turns.episodes[e]}], turns.score[e].item(), step, task=turns.tasks[e])
            for e in wanted
        ]
        method.offer(step, episodes, turns)
    if hasattr(method, "replace"):
        return put_back(method, turns)
    return {f"{episode.rows[0]['name']}-{episode.step}": [episode.advantage] for episode in method.take(3)}


def put_back(method: Any, turns: Turns) -> dict[str, list[float]]:
    """By the episode that makes way, where all failed in the third step, the step of what takes its
    place."""
    failed = replace(turns, reward=turns.reward * 0, outcome=turns.outcome * 0 + 1)
    return {turns.episodes[e]: [float(held.step)] for e, held in method.replace(failed, 3).items()}


SHOWN: dict[str, Shown] = {"credit": credit, "filter": kept, "terms": term, "buffer": replayed}
METHODS = [(slot, name) for slot in SHOWN for name in SLOTS[slot]]


def shown(slot: str, name: str, turns: Turns) -> dict[str, list[float]]:
    return SHOWN[slot](method(slot, name), turns)


@pytest.mark.parametrize(("slot", "name"), METHODS)
def test_rows_and_their_order_do_not_matter(slot: str, name: str) -> None:
    told = 0
    for seed in SEEDS:
        paths = random_paths(seed)
        shuffled = dict(random.Random(seed).sample(list(paths.items()), len(paths)))
        wanted = shown(slot, name, example_x(paths=paths))
        told += len(wanted)
        for other in (
            example_x(paths=paths, windows=True),
            example_x(paths=paths, dead=True, padding=3),
            example_x(paths=shuffled),
        ):
            found = shown(slot, name, other)
            assert set(found) == set(wanted)
            for key, numbers in wanted.items():
                assert found[key] == pytest.approx(numbers, rel=1e-9, abs=1e-9), key
    assert told, "nothing was compared"


@pytest.mark.parametrize(("slot", "name"), METHODS)
def test_numbers_stay_finite(slot: str, name: str) -> None:
    """Of episodes of all kinds, of ones that are all the same, of one alone, and of none."""
    one = {"a_0": ("S0 a S1", [1.0], [0.5], [0.1], 0)}
    same = {f"{group}_{sample}": one["a_0"] for group in "ab" for sample in range(3)}
    for paths in (*map(random_paths, SEEDS), same, one):
        for numbers in shown(slot, name, example_x(paths=paths)).values():
            assert torch.tensor(numbers).isfinite().all()
    turns = example_x(paths=one)
    by_episode = {
        key: value[:0]
        for key, value in vars(turns).items()
        if value is not None and key not in ("place", "turn_ids", "named", "spans", "contexts", "log_prob", "scored")
    }
    none = replace(turns, place=torch.full_like(turns.place, -1), **by_episode)
    if slot in ("credit", "filter"):
        assert not shown(slot, name, none)


LOG_RATIOS = torch.tensor([[0.1, -0.1, 0.3, 0, -0.5, 0.2], [0.05, 0, 0, 0, 0, 0], [30.0, -30, 0, 0, 0, 0], [0.0] * 6])
MASK = torch.tensor([[1, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [0] * 6])
ADVANTAGES = torch.tensor([[1.0, 1, 1, 0, -1, -1], [0.5, 0.5, 0, 0, 0, 0], [2.0, 0, -2, 0, 0, 0], [0.0] * 6])


def losses(name: str, ratios: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
    """Those of the tokens in the mask."""
    old = torch.full_like(ratios, -1.0)
    form = method("loss", name)
    return form(old, old + ratios, advantages, mask, turn_ids(mask))[0][mask.bool()]


@pytest.mark.parametrize("name", SLOTS["loss"])
def test_a_loss_form_looks_at_nothing_but_its_own_turns(name: str) -> None:
    whole = losses(name, LOG_RATIOS, MASK, ADVANTAGES)
    assert whole.isfinite().all()
    one_by_one = [losses(name, LOG_RATIOS[[row]], MASK[[row]], ADVANTAGES[[row]]) for row in range(4)]
    assert whole.tolist() == pytest.approx(torch.cat(one_by_one).tolist())
    windows = [
        losses(name, LOG_RATIOS[:1, part], MASK[:1, part], ADVANTAGES[:1, part]) for part in (slice(4), slice(4, 6))
    ]
    assert whole[:5].tolist() == pytest.approx(torch.cat(windows).tolist())


def test_the_costs_of_every_method_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "usual", method)
    step = costs.Step(2 * costs.GROUP, turns=4, tokens=96)
    results = {name: call() for name, call in costs.calls(step, step.table())}
    assert {"credit=igpo", "credit=infopo", "terms=self_distill", "algo=semi_online"} <= {*results}
    assert all(result is not None for result in results.values())
