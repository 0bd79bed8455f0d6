"""TextWorldExpress's games, and the JVM beside the process: bounded, private, gone with its
process."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from made import gone, made, played

from turngrid.envs.environment import Rejected
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.jvm import machine
from turngrid.envs.registry import make_environment
from turngrid.envs.textworldexpress import environment as express
from turngrid.envs.textworldexpress.environment import OPTIONS
from turngrid.envs.types import EnvError, TaskRef

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no java on the PATH"),
    pytest.mark.usefixtures("no_jvm_is_left"),
]


def game(folder: Path, task: str, seed: int = 1) -> TaskRef:
    return made(make_environment("textworldexpress"), task, seed, folder / f"{task}{seed}")


def own_jvm() -> machine.Jvm:
    return machine.jvm(machine.jar(*express.JAR))


def test_every_game_is_won_by_its_gold_path_in_points_that_add_up_to_one(tmp_path: Path) -> None:
    for name in OPTIONS:
        task = game(tmp_path, name)
        _, results = played(make_environment("textworldexpress").new_env(legal=True), task)
        assert [result.won for result in results] == [False] * (len(results) - 1) + [True], name
        assert sum(result.score_delta for result in results) == pytest.approx(1)
        assert all(result.valid and result.observation.legal for result in results[:-1])


def test_a_wrong_object_loses_and_what_is_not_possible_changes_nothing(tmp_path: Path) -> None:
    task = game(tmp_path, "simonsays")
    env = make_environment("textworldexpress").new_env(legal=True, expert=True)
    first = env.reset(task, 0)
    result = env.step("take the moon")
    assert not result.valid and result.observation.text == "That does nothing here."
    assert result.observation.legal == first.legal and result.observation.expert == task.expert_plan
    wrong = next(command for command in first.legal if command != task.expert_plan[0])
    result = env.step(wrong.upper())
    assert result.lost and result.terminated and not result.won and not result.score_delta


def test_a_game_that_is_not_won_again_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold, load = express.Simulator.gold, express.Simulator.load
    monkeypatch.setattr(express.Simulator, "gold", lambda self, game: gold(self, game)[:-1])
    with pytest.raises(Rejected, match=r"the gold path ends with a score of 0\.5"):
        game(tmp_path, "arithmetic")
    monkeypatch.setattr(express.Simulator, "gold", gold)
    seen: list[int] = []

    def changing(self: express.Simulator, *args: object, **kwargs: object) -> express.Step:
        seen.append(1)
        step = load(self, *args, **kwargs)  # type: ignore[arg-type]
        step.observation += str(len(seen))
        return step

    monkeypatch.setattr(express.Simulator, "load", changing)
    with pytest.raises(Rejected, match="another course"):
        game(tmp_path, "sorting")


def test_a_killed_jvm_fails_its_episodes_and_another_plays_them(tmp_path: Path) -> None:
    task, env = game(tmp_path, "peckingorder"), make_environment("textworldexpress").new_env()
    env.reset(task, 0)
    os.kill(own_jvm().pid, signal.SIGKILL)
    with pytest.raises(EnvError, match="the simulator's JVM died"):
        env.step(task.expert_plan[0])
    assert played(env, task)[1][-1].won


def test_a_jvm_is_bounded_listens_on_the_loopback_and_wants_a_token() -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JError

    process = psutil.Process(own_jvm().pid)
    assert {"-Xmx512m", "-XX:+UseSerialGC"} <= set(process.cmdline())
    [address] = {link.laddr for link in process.net_connections("inet") if link.status == psutil.CONN_LISTEN}
    assert address.ip.removeprefix("::ffff:") in ("127.0.0.1", "::1")
    stranger = JavaGateway(gateway_parameters=GatewayParameters(port=address.port))
    with pytest.raises(Py4JError):
        stranger.jvm.System.currentTimeMillis()
    with pytest.raises(EnvError, match="ArithmeticException"):
        own_jvm().ask(own_jvm().names.java.lang.Math.floorDiv, 1, 0)


def test_a_killed_worker_takes_its_jvm_along_and_another_plays_on(tmp_path: Path) -> None:
    """Even a JVM that is stopped, which does not see that its input is closed."""
    task = game(tmp_path, "sorting")
    machine.close_all()

    async def episode() -> None:
        async with EnvPool("textworldexpress", 1, 60.0) as pool:
            session = await pool.open()
            await session.reset(task, 0)
            await session.step(task.expert_plan[0])
            [java] = psutil.Process(pool.pids[0]).children()
            os.kill(java.pid, signal.SIGSTOP)
            os.kill(pool.pids[0], signal.SIGKILL)
            results = [await session.step(action) for action in task.expert_plan[1:]]
            assert results[-1].won and gone(java.pid)
            [java] = psutil.Process(pool.pids[0]).children()
        assert gone(java.pid)

    asyncio.run(episode())
