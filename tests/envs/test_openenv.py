"""env=openenv against real servers on this machine: the page's environment, and one that fails."""

import asyncio
import hashlib
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small
from made import made, played
from openenv_servers import dial_module, misbehaving, served

from turngrid.envs.environment import Rejected
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.openenv import env as openenv_env
from turngrid.envs.openenv.connection import Refused, read
from turngrid.envs.openenv.env import typed
from turngrid.envs.registry import make_environment
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import Action, Call, EnvError, InvalidAction, StepResult, TaskError, TaskRef

HOSTILE = (
    *("", " \n", "dance", '"; import os', "x" * 200_000, '{"move": "open"}', "([{" * 30_000),
    *("\x00\x1b[2J\u2192\ud800", '{"name": "act"}'),
    '{"name": "act", "arguments": {"move": "left", "times": "many"}}',
    '{"name": "act", "arguments": {"move": 3, "colour": "red"}}',
    '{"name": "act", "arguments": {"move": "\\ud800"}}',
)


@pytest.fixture(scope="module")
def dial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with dial_module(tmp_path_factory.mktemp("dial")) as module:
        yield module


@pytest.fixture(scope="module")
def url(dial: Any) -> Iterator[str]:
    with served(dial.app) as address:
        yield address


@pytest.fixture
def faulty() -> Iterator[str]:
    with misbehaving() as address:
        yield address


def settings(url: str | None, **more: Any) -> dict[str, Any]:
    named = {"action_field": "move", "observation_fields": ["text"], "legal_field": "moves", "goal": "Open the door."}
    return {"url": url, **named, "winning_return": 0.9, "timeout_s": 20.0, **more}


def game(given: dict[str, Any], folder: Path, seed: int = 30_001) -> TaskRef:
    return made(make_environment("openenv", given), "dial", seed, folder, "train")


def player(given: dict[str, Any]) -> TextEnv:
    return make_environment("openenv", given).new_env(legal=True)


def way(text: str) -> list[str]:
    """The moves that win."""
    at, mark = (int(word.strip(",.")) for word in text.split() if word.strip(",.").isdigit())
    return ["right" if at < mark else "left"] * abs(at - mark) + ["open"]


def test_games_are_won_lost_and_talked_nonsense_to(url: str, tmp_path: Path) -> None:
    """Hostile answers are invalid turns that change nothing; episodes repeat themselves. An episode
    that ends below the winning return is lost. Calls have all fields of an action."""
    task, env = game(settings(url), tmp_path), player(settings(url))
    opening = env.reset(task, 0)
    assert opening.legal == ("left", "right", "open") and opening.text.startswith("The dial is at ")
    first, again = (played(env, task, (*HOSTILE, *way(opening.text)))[1] for _ in range(2))
    assert [result.observation for result in first] == [result.observation for result in again]
    assert [result.valid for result in first[: len(HOSTILE)]] == [False] * len(HOSTILE)
    assert not any(result.over or result.score_delta for result in first[: len(HOSTILE)])
    assert first[2].observation.text.startswith("The environment did not accept that: there is no move dance\nThe dial")
    assert [result.parsed for result in first[:3]] == [False, False, True]
    own = first[len(HOSTILE) :]
    assert [result.won for result in own] == [*[False] * (len(own) - 1), True] and not own[-1].lost
    assert sum(result.score_delta for result in first) == pytest.approx(1 + 0.01 * (len(own) - 1))
    given = settings(url, winning_return=5)
    *_, last = played(player(given), game(given, tmp_path / "lost"), way(opening.text))[1]
    assert (last.won, last.lost, last.terminated) == (False, True, True) and last.score_delta == 1
    [act] = env.functions
    assert act.described == 'act(move, times?: {"default": 1, "type": "integer"}): do this in the environment'
    move, *others = way(env.reset(task, 0).text)
    calls = Call("act", {"move": move, "times": len(others)}), Call("act", {"move": "open"})
    assert env.step(Action(calls=calls[not others :])).won


def test_a_full_server_is_shared_in_turn(dial: Any, tmp_path: Path) -> None:
    """Three episodes of a process at a server with room for one, interleaved: each goes on where it
    was. Another process, whose connections are its own, gets no room."""
    app = dial.create_app(dial.Dial, dial.DialAction, dial.DialObservation, max_concurrent_envs=1)
    with served(app) as address:
        given = settings(address)
        tasks = [game(given, tmp_path / str(seed), seed) for seed in (1, 2, 3)]
        envs = [player(given) for _ in tasks]
        ways = [way(env.reset(task, 0).text) for env, task in zip(envs, tasks, strict=True)]
        results: list[list[StepResult]] = [[] for _ in tasks]
        for turn in range(max(map(len, ways))):
            for env, moves, result in zip(envs, ways, results, strict=True):
                if turn < len(moves):
                    result += [env.step("dance"), env.step(moves[turn])]
        assert all(moves[-1].won and not any(r.over for r in moves[:-1]) for moves in results)
        elsewhere = settings(address.replace("127.0.0.1", "localhost"), timeout_s=4.0)
        with pytest.raises(
            EnvError, match=r"no room for another session; .*max_concurrent_envs, or use env\.workers=1"
        ):
            player(elsewhere).reset(tasks[0], 0)
        envs[-1].close()
        assert player({**elsewhere, "timeout_s": 20.0}).reset(tasks[0], 0).text


def test_games_are_distinct_by_what_is_seen_or_by_seed(url: str, tmp_path: Path) -> None:
    """So that splits share no game."""
    made = {seed: game(settings(url), tmp_path, seed) for seed in range(40)}
    seen = {seed: player(settings(url)).reset(game(settings(url), tmp_path, seed), 0).text for seed in range(8)}
    assert len({made[seed].fingerprint for seed in seen}) == len(set(seen.values()))
    assert 20 < len({task.fingerprint for task in made.values()}) < 40
    few = settings(url, reset={"width": 1})
    assert len({game(few, tmp_path, seed).fingerprint for seed in range(3)}) == 1
    assert len({game({**few, "distinct": False}, tmp_path, seed).fingerprint for seed in range(3)}) == 3
    assert "env.distinct=false" in make_environment("openenv", few).more_games


def test_a_seed_that_is_not_followed_gives_no_game(dial: Any, tmp_path: Path) -> None:
    class Random(dial.Dial):  # type: ignore[name-defined,misc]
        def reset(self, seed: int | None = None, **kwargs: Any) -> Any:
            return super().reset(time.time_ns(), width=10**9)

    app = dial.create_app(Random, dial.DialAction, dial.DialObservation)
    with served(app) as address, pytest.raises(Rejected, match="must follow reset"):
        game(settings(address), tmp_path)


def test_another_servers_games_are_errors(url: str, tmp_path: Path) -> None:
    task, env = game(settings(url), tmp_path), player(settings(url))
    file = Path(task.game_file)
    file.write_text(json.dumps({**json.loads(file.read_text()), "opening": {"text": "another"}}))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(EnvError, match="makes another game of this seed"):
        env.reset(replace(task, sha256=digest), 0)
    assert env.reset(game(settings(url), tmp_path), 0).text


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        ("hang", "did not answer a step in time"),
        ("drop", "closed the connection at a step"),
        ("say hello", "sent no answer of the protocol: hello"),
        ("say []", "sent no answer of the protocol"),
        ('say {"type": "observation", "data": {}}', "sent no answer of the protocol"),
        ('say {"type": "observation", "data": {"observation": {}, "reward": 0, "done": false}}', "has no field text"),
        (
            'say {"type": "observation", "data": {"observation": {"text": ""}, "reward": NaN, "done": false}}',
            "sent no answer of the protocol",
        ),
        (f"say {'[' * 100_000}", "sent no answer of the protocol"),
    ],
)
def test_a_server_that_fails_fails_the_episode_only(faulty: str, tmp_path: Path, move: str, reason: str) -> None:
    """In time, with a reason in one line; the next episode of the same session is played."""
    given = settings(faulty, legal_field=None, distinct=False)
    task, env = game(given, tmp_path), player(given)
    env.reset(task, 0)
    env._settings = replace(env._settings, timeout_s=0.5 if move == "hang" else 20.0)
    start = time.monotonic()
    with pytest.raises(EnvError, match=reason) as caught:
        env.step(move)
    assert time.monotonic() - start < 10 and "\n" not in str(caught.value)
    env._settings = replace(env._settings, timeout_s=20.0)
    assert env.reset(task, 0).text == "a door" and env.step("go").valid


REFUSED = [
    ({"url": None}, r"^env\.url=null: .* use env\.url=http://HOST:PORT"),
    ({"image": "dial:latest"}, r"^env\.image=dial:latest: .* use env\.image=null or env\.url=null"),
    ({"url": "localhost:8000"}, r"env\.url=localhost:8000 must be an address such as http://localhost:8000"),
    ({"url": "http://127.0.0.1:9"}, r"env\.url=http://127\.0\.0\.1:9: .* does not answer: .*; start the server"),
    ({"url": None, "image": "dial:latest"}, r"env\.image=dial:latest: there is no command docker; .* use env\.url"),
    ({"action_field": None}, r"env\.action_field must be given; use env\.action_field=NAME, of move, times"),
    ({"observation_fields": None}, r"env\.observation_fields=NAME, of text, moves"),
    ({"action_field": "mov"}, r"^env\.action_field=mov: .* no such field; use env\.action_field=move"),
    ({"legal_field": "actions"}, r"^env\.legal_field=actions: .* no such field; use one of text, moves"),
    ({"action": {"tims": 2}}, r"^env\.action=tims: .* no such field; use env\.action=times"),
]


def test_what_cannot_work_is_refused(url: str, faulty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("openenv_servers.SCHEMA", ["nothing"])
    for changes, message in (*REFUSED, ({"url": faulty}, "has no schemas of an OpenEnv server")):
        with pytest.raises(TaskError, match=message):
            make_environment("openenv", {**settings(url), **changes}).parse_task("dial")


def test_answers_have_the_fields_type() -> None:
    integer, either = {"type": "integer"}, {"anyOf": [{"type": "null"}, {"type": "integer"}]}
    for schema, text, value in (
        *(({"type": "string"}, "12", "12"), ({"type": "number"}, "1.5", 1.5), ({"type": "boolean"}, "true", True)),
        *(({"type": "array"}, "[1, 2]", [1, 2]), (integer, " 12", 12), (either, "3", 3)),
    ):
        assert typed(text, schema, "field") == value
    for text in ("left", "true", "9" * 5_000, "[" * 10**5):
        with pytest.raises(InvalidAction, match="field must be of type"):
            typed(text, integer, "field")


def test_errors_name_the_first_fault_of_an_action() -> None:
    faults = [{"loc": ["times"], "msg": "Input should be a valid integer"}, {"loc": ["colour"], "msg": "no"}]
    error = {"type": "error", "data": {"code": "VALIDATION_ERROR", "message": "Invalid message", "errors": faults}}
    with pytest.raises(Refused, match="^times: Input should be a valid integer$"):
        read(json.dumps(error), "")


DOCKER = """# run --detach --rm --name NAME --publish 127.0.0.1::8000 IMAGE, port NAME 8000, or rm --force NAME
import pathlib, os, signal, socket, subprocess, sys
file = pathlib.Path({folder!r}) / sys.argv[{{"run": 5, "port": 2, "rm": 3}}[sys.argv[1]]]
if sys.argv[1] == "port":
    sys.exit(print("127.0.0.1:" + file.read_text().split()[1]))
if sys.argv[1] == "rm":
    os.kill(int(file.read_text().split()[0]), signal.SIGTERM)
    sys.exit(file.unlink())
if sys.argv[-1] != "dial:latest":
    sys.exit(f"Unable to find image {{sys.argv[-1]}}")
listening = socket.create_server(("127.0.0.1", 0))
command = [sys.executable, "-m", "uvicorn", "dial:app", "--fd", str(listening.fileno()), "--log-level", "error"]
streams = dict.fromkeys(("stdout", "stderr"), file.parent.with_name("log").open("a"))
server = subprocess.Popen(command, pass_fds=[listening.fileno()], start_new_session=True, **streams)
file.write_text(f"{{server.pid}} {{listening.getsockname()[1]}}")
"""


async def test_each_worker_has_a_container_that_ends_with_it(
    dial: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for docker that starts the server: also after the worker was killed."""
    containers = tmp_path / "containers"
    containers.mkdir()
    script, docker = tmp_path / "docker.py", tmp_path / "docker"
    script.write_text(DOCKER.format(folder=str(containers)))
    docker.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')  # a shebang has no spaces
    docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(entry for entry in sys.path if entry))
    given = settings(None, image="dial:latest")
    task = game(settings(url), tmp_path)
    async with EnvPool("openenv", 2, 60.0, settings=given) as pool:
        for session in [await pool.open(), await pool.open()]:
            moves = way((await session.reset(task, 0)).text)
            assert [(await session.step(move)).won for move in moves][-1]
        assert len(list(containers.iterdir())) == 2
        os.kill(pool.pids[0], signal.SIGKILL)
    await asyncio.to_thread(small.wait_for, lambda: not list(containers.iterdir()), 30)
    with pytest.raises(EnvError, match="no container of env.image=none: Unable to find image none"):
        openenv_env.connections(None, "none")
