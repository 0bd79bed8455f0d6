"""Many games on a few processes: who hears of it when one hangs, dies or talks out of turn."""

import argparse
import asyncio
import os
import signal
import time
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from benchmarks import faults
from turngrid.envs.hosting import process
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import EnvError, GameStuck, TaskError
from turngrid.envs.utils import stacks
from turngrid.rollouts.failed_episodes import EpisodeFailed, run_with_retries

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def counting(fragile):
    return fragile.tasks("fast", "test", 4, progress=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool():
    """One worker, or the one that took its place. A session that other tests left open does nothing
    before its next step."""
    async with EnvPool("fragile:Fragile", 1, 60.0, legal=True) as pool:
        yield pool


async def started(pool, *tasks):
    """A session a task, at the beginning of its game."""
    sessions = [await pool.open() for _ in tasks]
    for session, task in zip(sessions, tasks, strict=True):
        await session.reset(task, 0)
    return sessions


async def finish(session, steps=3):
    for _ in range(steps):
        result = await session.step("add")
    return result


async def test_a_game_that_hangs_is_an_error_for_its_policy_alone(counting):
    """15 steps of 0.2 s on one worker, each allowed 2 s: waiting for the others is not counted. Nor
    are other calls of an answer."""
    async with EnvPool("fragile:Fragile", 1, 2.0) as pool:
        hung, other, *slow = await started(pool, *counting[:2], *[counting[0]] * 15)
        results = await asyncio.gather(*(s.step("wait") for s in slow))
        assert [result.score_delta for result in results] == [0] * 15  # all answered, none given up
        assert (await slow[0].step('{"name": "wait"}' * 12)).valid
        await other.step("add one")
        stuck = asyncio.create_task(hung.step("sleep"))
        await asyncio.sleep(0)
        second = await other.step("add two")
        with pytest.raises(EnvError, match=r"no answer within 2 s"):
            await stuck
        assert second.observation.text == "2 of 3"
        assert (await other.step("add three")).won
        with pytest.raises(EnvError, match="reset first"):
            await hung.step("add")
        assert (await hung.reset(counting[0], 0)).text == "0 of 3"
        assert (await finish(hung)).won


async def test_of_a_run_a_game_that_hangs_leaves_its_stacks(counting, tmp_path, monkeypatch):
    monkeypatch.setenv(stacks.FOLDER, str(tmp_path / "stacks"))
    async with EnvPool("fragile:Fragile", 1, 2.0) as pool:
        (hung,) = await started(pool, counting[0])
        with pytest.raises(EnvError, match=r"no answer within 2 s"):
            await hung.step("sleep")
    written = [file.read_text() for file in (tmp_path / "stacks").iterdir() if file.stat().st_size]
    assert written and all("fragile.py" in text and "in step_game" in text for text in written)


@pytest.mark.parametrize("answer", [b'{"ok": {}}\n', b"half\n"], ids=["of no request", "no JSON"])
async def test_a_worker_that_dies_or_answers_out_of_turn_is_replaced(pool, counting, answer):
    (session,) = await started(pool, counting[2])
    pids = pool.pids
    await session.step("add")
    await session.step("die once")
    after = pool.pids
    pool._slots[0].process.data_received(answer)
    assert (await session.step("add")).observation.text == "2 of 3"
    assert not {*pids} & {*after} and not {*after} & {*pool.pids}


async def test_neighbours_bear_any_number_of_lost_workers(pool, counting):
    """Three games bring down two workers each, an error for their policies alone; the fourth is
    played again from its beginning each time, and goes on."""
    other, *deadly = await started(pool, *[counting[1]] * 4)
    await finish(other, 2)
    ends = await asyncio.gather(*(s.step("die") for s in deadly), other.step("add"), return_exceptions=True)
    assert all(isinstance(end, GameStuck) and "worker died" in str(end) for end in ends[:3])
    assert ends[3].won


async def test_an_action_that_brings_down_two_workers_is_not_tried_on_a_third(pool, counting):
    """Not by another try of the whole episode either: its actions would be the same."""
    opened = []

    async def play(session):
        opened.append(session)
        await session.reset(counting[0], 0)
        return await session.step("die")

    with pytest.raises(EpisodeFailed, match="not retried: the game failed twice .*worker died"):
        await run_with_retries(pool.open, play)
    assert len(opened) == 1
    assert Path(counting[0].game_file + ".deaths").read_text() == "xx"


async def test_half_an_answer_is_asked_for_again(pool, counting):
    """The worker was killed while it wrote: more than the socket holds, and nobody read."""
    (session,) = await started(pool, counting[0])
    step = asyncio.create_task(session.step("talk"))
    for _ in range(3):
        await asyncio.sleep(0)  # until it is sent
    time.sleep(0.5)  # noqa: ASYNC251 - this loop is what does not read
    os.kill(pool.pids[0], signal.SIGKILL)
    assert (await step).observation.text.startswith("0 of 3!")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("fail", "^the world failed$"),
        ("crash", r"^ZeroDivisionError: .* at .*/fragile.py:\d+: Fraction\(self.count, 0\)$"),
        ("hide", "Encoding objects of type object"),
    ],
)
async def test_an_environment_that_fails_leaves_the_worker_running(pool, counting, action, message):
    failed, other = await started(pool, *counting[:2])
    pids = pool.pids
    with pytest.raises(EnvError, match=message):
        await failed.step(action)
    assert (await finish(other)).won
    await failed.reset(counting[0], 0)
    assert (await finish(failed)).won
    assert pool.pids == pids


async def test_what_a_game_prints_or_half_a_character_does_not_harm_the_protocol(pool, counting):
    (session,) = await started(pool, counting[0])
    await session.step("shout")
    assert (await session.step("add \ud800 é 🚪")).observation.text == "1 of 3"
    assert (await finish(session, 2)).won


async def test_a_cancelled_step_ends_the_episode_and_not_the_session(pool, counting):
    (session,) = await started(pool, counting[0])
    step = asyncio.create_task(session.step("wait"))
    for _ in range(3):
        await asyncio.sleep(0)  # until it is sent
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    with pytest.raises(EnvError, match="reset first"):
        await session.step("add")
    await session.reset(counting[0], 0)
    assert (await finish(session)).won


async def test_a_wrong_environment_or_a_missing_game_is_said_at_once(pool, counting):
    with pytest.raises(TaskError, match="use textworld"):
        EnvPool("textwrld", 1, 60.0)
    with pytest.raises(EnvError, match="No module named 'no_such_module'"):
        async with EnvPool("no_such_module:Environment", 1, 60.0):
            pass
    session = await pool.open()
    Path(counting[3].game_file).unlink()
    with pytest.raises(EnvError, match="FileNotFoundError"):
        await session.reset(counting[3], 0)
    with pytest.raises(EnvError, match="reset first"):
        await session.step("add")


@pytest.mark.parametrize("delay_s", [0.0, 0.1], ids=["while it imports", "as soon as it is there"])
async def test_no_worker_outlives_a_start_that_is_cancelled(monkeypatch, delay_s):
    before, spawn = set(psutil.Process().children()), process._spawn

    def spawned(*arguments):
        time.sleep(delay_s)
        return spawn(*arguments)

    monkeypatch.setattr(process, "_spawn", spawned)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), EnvPool("fragile:Fragile", 2, 60.0):
            pass
    assert not set(psutil.Process().children()) - before


async def test_an_episode_that_is_cut_off_is_graded_also_by_a_new_worker(listed):
    """Two of three turns will do. Here the game itself cuts it off."""
    task = listed.tasks("", "train", 1, progress=False)[0]
    async with EnvPool("fragile:Listed", 1, 20.0, settings={"numbers": [3]}) as pool:
        session = await pool.open()
        for turns in (1, 2):
            await session.reset(task, 0)
            for action in [*["add"] * turns, "cut"]:
                await session.step(action)
            os.kill(pool.pids[0], signal.SIGKILL)
            last = await session.finish()
            assert (last.won, last.terminated, last.info) == (turns == 2, True, {"count": turns})
        with pytest.raises(EnvError, match="no episode is open"):
            await session.finish()


async def test_many_real_faults_leave_no_trace_in_the_records(custom_games):
    """``benchmarks.faults`` in small."""
    rates = faults.Rates(deaths=0.1, hangs=0.04, hostile=0.2, replay_every=5)
    part, options = faults.Part("textworld", "", 1.0, 4, 1.5), argparse.Namespace(workers=2, at_once=8, seed=0)
    played = await faults.run_part(part, custom_games, 30, rates, options)
    figures = played.figures()
    assert played.violations == []
    expected = {"kills": 3, "hangs": 1, "episodes": 30, "replayed and equal": 6}
    assert {name: figures[name] for name in expected} == expected
    assert min(figures["won"], figures["hostile actions"]) >= 10
    assert f"{30:>14}" in faults.table([played])
