"""Episodes that the checks look at: the expert's, random ones, hostile ones, and repetitions."""

import random
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from turngrid.envs.hosting.pool import EnvPool, Session
from turngrid.envs.types import EnvError, Observation, StepResult, TaskRef

HOSTILE = (
    "",
    "\n\n",
    "\x00\x1b[2J",
    "\u2192\u2028\u2192",
    "__import__('os').abort()",
    '{"name": "quit", "arguments": {}}',
    "[" * 20_000,
    "x" * 200_000,
)
RANDOM_PLAYS = 4  # of each game
RESETS = 200  # over which a worker's memory is compared, after as many to warm up


@dataclass
class Play:
    """An episode: its first observation, and the result of each action."""

    opening: Observation
    actions: list[str] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def won(self) -> bool:
        return any(result.won for result in self.results)

    @property
    def score(self) -> float:
        return sum(result.score_delta for result in self.results)

    @property
    def texts(self) -> list[str]:
        return [self.opening.text, *(result.observation.text for result in self.results)]

    @property
    def outcome(self) -> list[tuple[float, bool, bool]]:
        """Return what training sees of each step: score, win and end."""
        return [(result.score_delta, result.won, result.over) for result in self.results]


@dataclass
class Plays:
    """The episodes of one game."""

    task: TaskRef
    random: list[Play] = field(default_factory=list)
    expert: Play | None = None
    again: list[tuple[Play, Play]] = field(default_factory=list)  # the same actions, elsewhere or later
    paid: Play | None = None  # an action that was rewarded, repeated
    hostile: list[StepResult] = field(default_factory=list)
    error: str = ""  # the environment's own


async def plays(pool: EnvPool, tasks: Sequence[TaskRef], turns: int) -> list[Plays]:
    """Play every game with all policies. An environment's error ends the game's episodes."""
    return [await _of_game(pool, task, tasks[number - 1], turns) for number, task in enumerate(tasks)]


async def _of_game(pool: EnvPool, task: TaskRef, other: TaskRef, turns: int) -> Plays:
    found, session = Plays(task), await pool.open()
    try:
        for seed in range(RANDOM_PLAYS):
            found.random.append(await at_random(session, task, turns, seed))
        if task.expert_plan:
            found.expert = await follow(session, task, task.expert_plan)
        first = found.expert or found.random[0]
        await at_random(session, other, turns, 0)
        found.again.append((first, await follow(session, task, first.actions)))  # after another game
        fresh = await pool.open()
        found.again.append((first, await follow(fresh, task, first.actions)))  # beside it
        found.paid = await _again_and_again(session, task, found.random, turns)
        await session.reset(task, 0)
        for action in HOSTILE:
            found.hostile.append(await session.step(action))
            if found.hostile[-1].over:
                break
    except EnvError as error:
        found.error = str(error)
    return found


async def follow(session: Session, task: TaskRef, actions: Sequence[str]) -> Play:
    """Play given actions until the episode ends."""
    play, start = Play(await session.reset(task, 0)), time.perf_counter()
    for action in actions:
        play.actions.append(action)
        play.results.append(await session.step(action))
        if play.results[-1].over:
            break
    play.seconds = time.perf_counter() - start
    return play


async def at_random(session: Session, task: TaskRef, turns: int, seed: int) -> Play:
    """Play admissible actions at random; none if the environment lists none."""
    play, start, draw = Play(await session.reset(task, 0)), time.perf_counter(), random.Random(seed)
    legal = play.opening.legal
    while legal and len(play.results) < turns:
        play.actions.append(draw.choice(legal))
        play.results.append(await session.step(play.actions[-1]))
        if play.results[-1].over:
            break
        legal = play.results[-1].observation.legal
    play.seconds = time.perf_counter() - start
    return play


async def _again_and_again(session: Session, task: TaskRef, played: Sequence[Play], turns: int) -> Play | None:
    """Repeat the first action that was rewarded in an episode that was not won."""
    for play in played:
        rewarded = [number for number, result in enumerate(play.results) if result.score_delta > 0]
        if rewarded and not play.won:
            until = rewarded[0] + 1
            return await follow(session, task, [*play.actions[:until], *[play.actions[until - 1]] * turns])
    return None


async def openings(pool: EnvPool, tasks: Iterable[TaskRef]) -> dict[str, str]:
    """Return goal and first text of each game, by its key."""
    session, found = await pool.open(), {}
    for task in tasks:
        with suppress(EnvError):  # ``plays`` reports it
            opening = await session.reset(task, 0)
            found[task.key] = f"{task.goal}\n{opening.goal}\n{opening.text}"
    return found


async def memory_growth(pool: EnvPool, task: TaskRef) -> float:
    """Return the bytes by which the worker grows over ``RESETS`` episodes, after as many."""
    session = await pool.open()
    sizes = []
    for _ in range(2):
        for _ in range(RESETS):
            await session.reset(task, 0)
        sizes.append(sum(psutil.Process(pid).memory_info().rss for pid in pool.pids))
    return float(sizes[1] - sizes[0])
