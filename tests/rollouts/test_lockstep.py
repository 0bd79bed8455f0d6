"""The barrier in front of a batch sampler: who shares a batch never depends on timing."""

import asyncio
import random
from typing import Any
from unittest.mock import AsyncMock

import pytest

from turngrid.rollouts.lockstep import LockstepBatch, Rounds, Slot
from turngrid.rollouts.sampling import RequestTooLong, Sample, SampleRequest

SAMPLE = Sample((7,), (-0.5,))


def request(name: str) -> SampleRequest:
    return SampleRequest(name, (1,), max_tokens=1, temperature=1.0, top_p=1.0, top_k=-1, seed=0)


class Batches:
    """Answers every request, and keeps who shared a batch."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    async def __call__(self, requests: list[SampleRequest]) -> list[Sample]:
        self.seen.append([r.request_id for r in requests])
        await asyncio.sleep(0.001)
        return [SAMPLE] * len(requests)


async def play(lockstep: LockstepBatch, place: int, turns: int, rng: random.Random) -> None:
    async with lockstep.slot(place) as slot:
        for turn in range(turns):
            await asyncio.sleep(rng.random() * 0.003)
            await slot.sample(request(f"{place}.{turn}"))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([2, 1, 3], [["0.0", "1.0", "2.0"], ["0.1", "2.1"], ["2.2"]]),
        ([0, 2], [["1.0"], ["1.1"]]),  # one that leaves without asking holds nobody up
    ],
)
async def test_batches_are_the_turns_in_order_of_place(lengths: list[int], expected: list[list[str]]):
    """Of episodes with so many turns, with random delays."""
    batches, rng = Batches(), random.Random(0)
    lockstep = LockstepBatch(len(lengths), batches)
    await asyncio.gather(*(play(lockstep, place, turns, rng) for place, turns in enumerate(lengths)))
    assert batches.seen == expected


@pytest.mark.parametrize(
    ("batches", "ends"),
    [
        (RuntimeError("server gone"), ["server gone"] * 2),
        ([[]], ["0 answers to 2 requests"] * 2),
        ([[RequestTooLong("too long"), SAMPLE], [SAMPLE]], ["too long", "None"]),  # the other plays on
    ],
)
async def test_an_error_reaches_the_episodes_that_it_concerns(batches: Any, ends: list[str]):
    lockstep = LockstepBatch(2, AsyncMock(side_effect=batches))
    samples = [play(lockstep, place, 2, random.Random(0)) for place in range(2)]
    results = await asyncio.wait_for(asyncio.gather(*samples, return_exceptions=True), timeout=60)
    assert [str(result) for result in results] == ends


async def test_a_cancelled_episode_is_in_no_batch_and_holds_nobody_up():
    """It is cancelled while it waits for the others' turn; those who share the batch are the same
    as without it."""
    batches = Batches()

    async def late(lockstep: LockstepBatch, place: int, start: asyncio.Event) -> None:
        async with lockstep.slot(place) as slot:
            await start.wait()
            await slot.sample(request(f"{place}.0"))

    lockstep, start = LockstepBatch(3, batches), asyncio.Event()
    gone = asyncio.create_task(play(lockstep, 0, 2, random.Random(0)))
    kept = [asyncio.create_task(late(lockstep, place, start)) for place in (1, 2)]
    await asyncio.sleep(0.02)
    gone.cancel()
    await asyncio.sleep(0)
    start.set()
    await asyncio.wait_for(asyncio.gather(*kept), timeout=60)
    assert batches.seen == [["1.0", "2.0"]]


async def rounds_of(wanted: dict[str, list[int]], seed: int) -> list[list[str]]:
    """The batches where a group plays so many episodes of one turn in each of its rounds."""
    batches, rng = Batches(), random.Random(seed)
    rounds = Rounds(list(wanted), batches)

    async def one(name: str, slot: Slot) -> None:
        async with slot:
            await asyncio.sleep(rng.random() * 0.003)
            await slot.sample(request(name))

    async def group(name: str, counts: list[int]) -> None:
        await asyncio.sleep(rng.random() * 0.003)
        for number, count in enumerate(counts):
            slots = await rounds.slots(name, count)
            await asyncio.gather(*(one(f"{name}.{number}.{i}", slot) for i, slot in enumerate(slots)))
        rounds.leave(name)

    await asyncio.gather(*(group(name, counts) for name, counts in wanted.items()))
    return batches.seen


async def test_a_round_is_one_batch_of_all_groups_that_play_it_whoever_was_first() -> None:
    wanted = {"b": [2, 1, 1], "a": [1], "c": [2, 2]}
    expected = [["b.0.0", "b.0.1", "a.0.0", "c.0.0", "c.0.1"], ["b.1.0", "c.1.0", "c.1.1"], ["b.2.0"]]
    for seed in range(5):
        assert await rounds_of(wanted, seed) == expected
