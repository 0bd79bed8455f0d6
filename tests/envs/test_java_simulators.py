"""Simulators in Java: ScienceWorld's tasks, TextWorldExpress's games, and the JVM beside the
process: bounded, private, gone with its process."""

import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from made import gone, made, played

from turngrid.envs.environment import Rejected
from turngrid.envs.games.catalogue import SPLITS, Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.jvm import machine
from turngrid.envs.registry import make_environment
from turngrid.envs.scienceworld.env import Simulator
from turngrid.envs.scienceworld.environment import SHORT, TASKS, official
from turngrid.envs.textworldexpress import environment as express
from turngrid.envs.types import EnvError, StepResult, TaskRef

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no java on the PATH"),
    pytest.mark.usefixtures("no_jvm_is_left"),
]
NUMBERS = {name: number for number, name in enumerate(TASKS)}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[TaskRef]:
    folder = tmp_path_factory.mktemp("two")
    return [variation_of(folder, "find-non-living-thing", 225), variation_of(folder, "lifespan-shortest-lived", 97)]


def variation_of(folder: Path, task: str, variation: int) -> TaskRef:
    seed = 10_000 * NUMBERS[task] + variation
    return made(make_environment("scienceworld"), task, seed, folder / str(seed))


def results_of(task: TaskRef) -> list[StepResult]:
    return played(make_environment("scienceworld").new_env(), task)[1]


def test_gold_paths_win_a_hundred_points_and_games_of_one_jvm_do_not_disturb_each_other(two: list[TaskRef]) -> None:
    """They share random numbers, ids and simplifications there; the slow tests compare two JVMs."""
    alone = [results_of(task) for task in two]
    for task, results in zip(two, alone, strict=True):
        assert sum(result.score_delta for result in results) == task.max_score == 100 and results[-1].won
        assert results[0].info == {"task_type": task.task}  # by which success is reported too
    envs = [make_environment("scienceworld").new_env() for _ in two]
    for env, task in zip(envs, two, strict=True):
        env.reset(task, 0)
    together: list[list[StepResult]] = [[], []]
    for number in range(max(len(task.expert_plan) for task in two)):
        for env, task, seen in zip(envs, two, together, strict=True):
            if number < len(task.expert_plan):
                seen.append(env.step(task.expert_plan[number]))
    assert together == alone


def test_a_fatal_mistake_loses_and_pays_back_what_was_earned(two: list[TaskRef]) -> None:
    task = two[1]
    env = make_environment("scienceworld").new_env()
    env.reset(task, 0)
    earned = sum(env.step(action).score_delta for action in task.expert_plan[:-1])
    result = env.step("focus on baby baby elephant")
    assert result.lost and result.terminated and not result.won and result.valid
    assert earned > 0 and result.score_delta == -earned


def test_what_is_not_understood_takes_no_time_and_commands_to_the_program_are_refused(two: list[TaskRef]) -> None:
    task = two[0]
    env = make_environment("scienceworld").new_env(legal=True)
    legal = env.reset(task, 0).legal
    assert len(legal) > 100 and not [command for command in legal if command.startswith("reset")]
    for action, text in {
        "fly to the moon": "No known action matches that input.",
        "reset task": "That command is not allowed here.",
        "help": "That command is not allowed here.",
    }.items():
        result = env.step(action)
        assert (result.observation.text, result.valid, result.score_delta) == (text, False, 0)
    results = [env.step(f"{action.upper()}.") for action in task.expert_plan]
    assert results[-1].won


def test_splits_are_the_official_ones_and_share_no_variation() -> None:
    environment = make_environment("scienceworld")
    seeds = {split: set(environment.seeds(environment.parse_task("all"), split)) for split in SPLITS}
    every = [seed for one in seeds.values() for seed in one]
    assert len(every) == len(set(every)) == sum(count for count, _ in TASKS.values())
    for name in TASKS:
        of = {split: {seed - 10_000 * NUMBERS[name] for seed in one} for split, one in seeds.items()}
        assert set(official(name, "test")) <= of["test"] and set(official(name, "dev")) <= of["validation"]
        trained = of["train"] | of["demonstrations"] | of["pretraining"]
        assert set(official(name, "train")) <= trained and all(
            set(official(name, "train")) & of[split] for split in ("train", "demonstrations", "pretraining")
        )
    assert {seed // 10_000 for seed in environment.seeds(environment.parse_task("short"), "test")[:9]} == {
        NUMBERS[name] for name in SHORT
    }


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_task_shows_the_same_in_each_jvm_and_has_the_tables_variations(task: str, tmp_path: Path) -> None:
    ref = variation_of(tmp_path, task, official(task, "test")[0])
    seen = results_of(ref)
    assert seen[-1].won
    machine.close_all()
    assert results_of(ref) == seen
    simulator = Simulator()
    assert list(simulator._game.getTaskNames()) == list(TASKS)
    assert simulator._game.getTaskMaxVariations(task) == TASKS[task][0]
    simulator.load(task, 0, "")
    for part in ("Train", "Dev", "Test"):
        assert list(getattr(simulator._game, f"getVariations{part}")()) == list(official(task, part.lower()))


@pytest.mark.slow
def test_the_expert_wins_95_of_100(game_cache: Path) -> None:
    catalogue = Catalogue(make_environment("scienceworld"), game_cache)
    listing = catalogue.listings("short", {"train": 100}, reward="dense", workers=1, progress=False)["train"]
    assert len(listing.rejected) <= 5, listing.rejected
    assert all(results_of(task)[-1].won for task in listing.tasks)


# ---- TextWorldExpress, and its JVM


def game(folder: Path, task: str, seed: int = 1) -> TaskRef:
    return made(make_environment("textworldexpress"), task, seed, folder / f"{task}{seed}")


def own_jvm() -> machine.Jvm:
    return machine.jvm("textworld_express", "textworld-express.jar")


def test_every_game_is_won_by_its_gold_path_in_points_that_add_up_to_one(tmp_path: Path) -> None:
    for name in express.OPTIONS:
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
    os.kill(own_jvm()._process.pid, signal.SIGKILL)
    with pytest.raises(EnvError, match="the simulator's JVM died"):
        env.step(task.expert_plan[0])
    assert played(env, task)[1][-1].won


def test_a_jvm_is_bounded_listens_on_the_loopback_and_wants_a_token() -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JError

    process = psutil.Process(own_jvm()._process.pid)
    assert {"-Xmx512m", "-XX:+UseSerialGC"} <= set(process.cmdline())
    [address] = {link.laddr for link in process.net_connections("inet") if link.status == psutil.CONN_LISTEN}
    assert address.ip.removeprefix("::ffff:") in ("127.0.0.1", "::1")
    stranger = JavaGateway(gateway_parameters=GatewayParameters(port=address.port))
    with pytest.raises(Py4JError):
        stranger.jvm.System.currentTimeMillis()
    with pytest.raises(EnvError, match="ArithmeticException"):
        own_jvm().ask(own_jvm().names.java.lang.Math.floorDiv, 1, 0)


async def test_a_killed_worker_takes_its_jvm_along_and_another_plays_on(tmp_path: Path) -> None:
    """Even a JVM that is stopped, which does not see that its input is closed."""
    task = game(tmp_path, "sorting")
    machine.close_all()
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


@pytest.mark.slow
def test_the_expert_wins_a_hundred_of_a_hundred(tmp_path: Path) -> None:
    """A game that its expert does not win again is rejected."""
    names = list(express.OPTIONS)
    tasks = [game(tmp_path, names[number % len(names)], 30_001 + number) for number in range(100)]
    assert all(task.expert_plan for task in tasks)
