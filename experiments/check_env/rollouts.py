"""Episodes that the checks look at: the expert's, random ones, hostile ones, and repetitions."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
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
RANDOM_ROLLOUTS = 4  # of each game
RESETS = 200  # episodes over which a worker's memory is compared, after the same ones to warm up
STEPS = 3  # of each: 400 episodes, of which a step may run tests for half a second


@dataclass
class Rollout:
    """An episode: its first observation, and the result of each action."""

    opening: Observation
    actions: list[str] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def won(self) -> bool:
        """Whether it is won; of a match, from one of the seats."""
        return any(result.won or max(result.scores.values(), default=0) > 0 for result in self.results)

    @property
    def score(self) -> float:
        return sum(result.score_delta for result in self.results)

    @property
    def texts(self) -> list[str]:
        return [self.opening.text, *(result.observation.text for result in self.results)]

    @property
    def outcome(self) -> list[tuple[float, dict[str, float], bool, bool, bool]]:
        """Return what training sees of each step: score, of each seat too, win, loss and end."""
        return [(one.score_delta, dict(one.scores), one.won, one.lost, one.over) for one in self.results]


@dataclass
class GameRollouts:
    """The episodes of one game."""

    task: TaskRef
    random: list[Rollout] = field(default_factory=list)
    expert: Rollout | None = None
    again: list[tuple[Rollout, Rollout]] = field(default_factory=list)  # pairs with the same actions
    paid: Rollout | None = None  # a rewarded action, repeated to the end
    hostile: list[StepResult] = field(default_factory=list)
    error: str = ""  # the first error of the environment


async def rollouts(pool: EnvPool, tasks: Sequence[TaskRef], turns: int) -> list[GameRollouts]:
    """Play every game with all policies; an error of the environment ends that game's episodes."""
    return [await _of_game(pool, task, tasks[number - 1], turns) for number, task in enumerate(tasks)]


async def _of_game(pool: EnvPool, task: TaskRef, other: TaskRef, turns: int) -> GameRollouts:
    game, session = GameRollouts(task), await pool.open()
    try:
        for seed in range(RANDOM_ROLLOUTS):
            game.random.append(await at_random(session, task, turns, seed))
        if task.expert_plan:
            game.expert = await follow(session, task, task.expert_plan)
        fresh = await pool.open()
        for first in filter(None, (game.expert, game.random[0])):
            await at_random(session, other, turns, 0)
            game.again.append((first, await follow(session, task, first.actions)))  # after another game
            game.again.append((first, await follow(fresh, task, first.actions)))  # beside it
        game.paid = await _again_and_again(session, task, game.random, turns)
        await session.reset(task, 0)
        for action in HOSTILE:
            game.hostile.append(await session.step(action))
            if game.hostile[-1].over:
                await session.reset(task, 0)
    except EnvError as error:
        game.error = str(error)
    return game


async def follow(session: Session, task: TaskRef, actions: Sequence[str]) -> Rollout:
    """Play given actions until the episode ends."""
    return await _play(session, task, len(actions), lambda turn, _: actions[turn])


async def at_random(session: Session, task: TaskRef, turns: int, seed: int) -> Rollout:
    """Play admissible actions at random; the episode is empty if the environment lists none."""
    draw = random.Random(seed)
    return await _play(session, task, turns, lambda _, legal: draw.choice(legal) if legal else None)


async def _play(
    session: Session, task: TaskRef, turns: int, choose: Callable[[int, Sequence[str]], str | None]
) -> Rollout:
    """Play until the end, for ``turns`` turns, or until ``choose`` has no action."""
    rollout, start = Rollout(await session.reset(task, 0)), time.perf_counter()
    legal = rollout.opening.legal
    while len(rollout.results) < turns and (action := choose(len(rollout.results), legal)) is not None:
        rollout.actions.append(action)
        rollout.results.append(await session.step(action))
        if rollout.results[-1].over:
            break
        legal = rollout.results[-1].observation.legal
    rollout.seconds = time.perf_counter() - start
    return rollout


async def _again_and_again(session: Session, task: TaskRef, played: Sequence[Rollout], turns: int) -> Rollout | None:
    """Repeat the first action that was rewarded in an episode that was not won."""
    for rollout in played:
        rewarded = [number for number, result in enumerate(rollout.results) if result.score_delta > 0]
        if rewarded and not rollout.won:
            until = rewarded[0] + 1
            return await follow(session, task, [*rollout.actions[:until], *[rollout.actions[until - 1]] * turns])
    return None


async def openings(pool: EnvPool, tasks: Iterable[TaskRef]) -> dict[str, str]:
    """Return goal and first text of each game, by its key."""
    session, texts = await pool.open(), {}
    for task in tasks:
        with suppress(EnvError):  # ``rollouts`` reports it
            opening = await session.reset(task, 0)
            texts[task.key] = f"{task.goal}\n{opening.goal}\n{opening.text}"
    return texts


async def memory_growth(pool: EnvPool, tasks: Sequence[TaskRef]) -> float:
    """Return the bytes by which the worker and its children grow over ``RESETS`` short episodes.

    The same episodes run once before, so that caches are full.
    """
    session = await pool.open()
    sizes = []
    for _ in range(2):
        for number in range(RESETS):
            await at_random(session, tasks[number % len(tasks)], STEPS, number % RANDOM_ROLLOUTS)
        families = [[worker, *worker.children(recursive=True)] for worker in map(psutil.Process, pool.pids)]
        sizes.append(sum(process.memory_info().rss for family in families for process in family))
    return float(sizes[1] - sizes[0])
