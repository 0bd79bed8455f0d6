"""What every registered environment promises, asked of each by its first test game through real
worker processes."""

import asyncio
import dataclasses
import functools
import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace as Seen

import pytest
from omegaconf import OmegaConf

from turngrid.envs import registry
from turngrid.envs.functions import calls_of
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import EnvError, TaskRef
from turngrid.experiments.check_env.rollouts import openings

ROOT = Path(__file__).parents[2]
NEEDS_DATA = {"swegym", "openenv", "tau2"}  # instances, a server or a clone of the user's: tests of their own
NEEDS_JAVA = {"scienceworld", "textworldexpress"}
MATCHES = {"two_player"}  # nonsense loses a match, and there is no expert plan: tests of its own
NAMES = [name for name in registry.ENVIRONMENTS if name not in NEEDS_DATA | MATCHES]
JAVALESS = {*NAMES} - NEEDS_JAVA
TELL_NO_PLAN = {"textarena", "bfcl", "repo_repair"}  # whose observations have no field ``expert``
pytestmark = pytest.mark.usefixtures("no_jvm_is_left")
GARBAGE = (
    *("quit", "restart", "undo", "", "\n\n", "\\", "x" * 10_000, "\x00\x1b[2J", "\u2192\u2028\u2192"),
    *("dance\nquit\nsave", f"replace a.py:{' ' * 100_000}y", f"edit a.py {'9' * 5_000}", "([{" * 30_000),
)


@functools.cache
def node(name: str):
    file = OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "env" / f"{name}.yaml"))
    file["env"].pop("max_action_tokens", None)  # it follows from the model, which is not chosen here
    return OmegaConf.create(file).env


def place(name: str):
    return registry.make_environment(name, node(name))


@pytest.fixture(scope="module")
def tasks(game_cache: Path) -> dict[str, TaskRef]:
    """By environment, its first test game."""
    return {name: first_of(name, game_cache) for name in NAMES if not lacks_java(name)}


def lacks_java(name: str) -> bool:
    return name in NEEDS_JAVA and shutil.which("java") is None


def first_of(name: str, cache: Path) -> TaskRef:
    reward = "dense" if "dense" in place(name).rewards else place(name).rewards[0]
    [task] = Catalogue(place(name), cache).tasks(node(name).task, "test", 1, reward=reward, workers=1, progress=False)
    return task


@pytest.fixture(scope="module", params=NAMES)
def seen(request: pytest.FixtureRequest, tasks: dict[str, TaskRef], tmp_path_factory: pytest.TempPathFactory) -> Seen:
    name = request.param
    if lacks_java(name):
        pytest.skip("there is no java on the PATH")
    return asyncio.run(_play(name, tasks[name], tmp_path_factory.mktemp(name)))


async def _play(name: str, task: TaskRef, folder: Path) -> Seen:
    """One game, opened, talked nonsense to, won, and played once more; and broken copies of it."""
    async with EnvPool(name, 1, 120.0, settings=node(name), legal=True) as pool:
        session, other = await pool.open(), await pool.open()  # an env may keep the game that it has read
        opening = await session.reset(task, 0)
        nonsense = [await session.step(action) for action in GARBAGE]
        won = [await session.step(action) for action in task.expert_plan]
        broken = [await _refusal(other, task, folder / kind, spoil) for kind, spoil in SPOILED.items()]
        await session.reset(task, 0)
        again = [await session.step(action) for action in (*GARBAGE, *task.expert_plan)]
        return Seen(task=task, opening=opening, nonsense=nonsense, won=won, again=again, broken=broken)


async def _refusal(session, task: TaskRef, folder: Path, spoil) -> str:
    shutil.copytree(Path(task.game_file).parent, folder)
    file = folder / Path(task.game_file).name
    spoil(file)
    with pytest.raises(EnvError) as refusal:
        await session.reset(dataclasses.replace(task, game_file=str(file)), 0)
    return str(refusal.value)


SPOILED = {
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "changed": lambda file: file.write_bytes(file.read_bytes()[::-1]),
    "still a game": lambda file: file.write_bytes(file.read_bytes() + b" "),
    "empty": lambda file: os.truncate(file, 0),
    "gone": lambda file: file.unlink(),
}


def test_the_expert_wins_on_its_last_step_for_the_maximal_score(seen: Seen) -> None:
    assert [result.won for result in seen.won] == [False] * (len(seen.task.expert_plan) - 1) + [True]
    assert not any(result.lost for result in seen.won) and seen.won[-1].terminated
    if "dense" in place(seen.task.env).rewards:
        assert sum(result.score_delta for result in seen.won) == pytest.approx(seen.task.max_score)
        assert seen.task.max_score > 0


def test_what_is_shown_and_what_a_random_policy_may_do(seen: Seen) -> None:
    prompt = place(seen.task.env).prompt
    assert len(f"{prompt.role} {prompt.how_to_act}".split()) <= 45 and "answer with" in prompt.how_to_act.lower()
    assert seen.opening.text.strip() and (seen.opening.goal or seen.task.goal).strip()
    assert seen.opening.legal and all(result.observation.legal for result in seen.won[:-1])


def test_nonsense_is_not_valid_and_leaves_the_game_where_it_was(seen: Seen) -> None:
    """What follows it is the expert's win, so nothing was moved and nothing is out of step."""
    assert [result.valid for result in seen.nonsense] == [False] * len(GARBAGE)
    assert not any(result.terminated or result.truncated or result.score_delta for result in seen.nonsense)


def test_the_same_actions_show_the_same_again(seen: Seen) -> None:
    first = [*seen.nonsense, *seen.won]
    assert [result.observation for result in seen.again] == [result.observation for result in first]
    assert [result.score_delta for result in seen.again] == [result.score_delta for result in first]


def test_a_broken_game_is_an_error_in_one_line_and_ends_nothing(seen: Seen) -> None:
    """The games that ``again`` played came after the errors."""
    assert len(seen.broken) == len(SPOILED)
    assert all("is not the one that was accepted" in text and "\n" not in text for text in seen.broken)


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_wins_also_as_calls_while_its_rest_is_told(name: str, tasks: dict[str, TaskRef]) -> None:
    """If the environment has functions."""
    if lacks_java(name):
        pytest.skip("there is no java on the PATH")
    task, environment = tasks[name], place(name)
    with closing(environment.new_env(legal=True, expert=True)) as env:
        seen = env.reset(task, 0)
        for number, action in enumerate(task.expert_plan):
            assert seen.expert == (() if name in TELL_NO_PLAN else task.expert_plan[number:])
            seen = (result := env.step(action)).observation
        assert result.won
        env.reset(task, 0)
        for action in task.expert_plan if environment.prompt.functions else ():
            result = env.step("\n".join(map(str, calls_of(environment.prompt.functions, action))))
        assert result.won


MAKE = """
import json, pathlib, sys
from turngrid.envs.registry import make_environment
for name, settings, params, seed, folder in json.load(sys.stdin):
    record = make_environment(name, settings).game_record(params, seed, pathlib.Path(folder))
    print(json.dumps([name, record.sha256, record.fingerprint, record.expert_plan]))
"""


@pytest.mark.parametrize("names", [JAVALESS, pytest.param(NEEDS_JAVA, marks=pytest.mark.slow)], ids=["python", "java"])
def test_a_seed_makes_the_same_game_in_any_process(names: set[str], tasks: dict[str, TaskRef], tmp_path: Path) -> None:
    """Under another hash seed, which orders sets otherwise."""
    request, tasks = [], {name: task for name, task in tasks.items() if name in names}
    if not tasks:
        pytest.skip("there is no java on the PATH")
    for name, task in tasks.items():
        (tmp_path / name).mkdir()
        request.append([name, registry.plain(node(name)), dict(task.params), task.seed, str(tmp_path / name)])
    done = subprocess.run(
        [sys.executable, "-c", MAKE],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)},
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    made = {name: record for name, *record in map(json.loads, done.stdout.splitlines()[-len(tasks) :])}
    for name, task in tasks.items():
        assert made[name] == [task.sha256, task.fingerprint, [*task.expert_plan]], name
        files = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        assert files == {file: Path(task.game_file).with_name(file).read_bytes() for file in files}, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task"),
    [("babyai", "GoToLocal"), ("crafting", "d2"), ("search", "h1-4"), ("sokoban", "s6-b1"), ("webshop", "a1-o1")],
)
async def test_two_thousand_games_of_a_run_are_all_different(name: str, task: str, game_cache: Path) -> None:
    """By first text and expert plan, which no fingerprint is made of; some of BabyAI's differ out
    of sight. The listed games of bfcl and scienceworld are in one split by number."""
    counts = dict.fromkeys(("test", "validation", "demonstrations", "train"), 500)
    listed = Catalogue(place(name), game_cache).listings(task, counts, progress=False)
    tasks = [task for listing in listed.values() for task in listing.tasks]
    async with EnvPool(name, 1, 120.0, settings=node(name)) as pool:
        texts = await openings(pool, tasks)
    assert len(tasks) == len({task.fingerprint for task in tasks}) == 2000
    assert len({(texts[task.key], task.expert_plan) for task in tasks}) >= (1990 if name == "babyai" else 2000)
