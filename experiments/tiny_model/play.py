"""Noisy play: transcripts of a player who sometimes follows a winning plan and else does anything that is possible."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from envs.text_env import TextEnv
from envs.types import Observation, TaskRef
from envs.world import World
from rollouts.prompts import Message, assistant, first_message, next_message, user

IDLE = frozenset({"look", "inventory"})  # their answers are in every observation


def noisy_transcripts(
    world: World,
    tasks: Iterable[TaskRef],
    max_turns: int,
    expert_share: float,
    seed: int = 0,
) -> Iterator[list[Message]]:
    """One transcript a game, each drawn from its own seed, in the words that an agent sees in RL."""
    env = world.env(legal=True, expert=True)
    try:
        for task in tasks:
            rng = random.Random(f"{seed}/{task.seed}")
            yield noisy_transcript(world, env, task, max_turns, expert_share, rng)
    finally:
        env.close()


def noisy_transcript(
    world: World,
    env: TextEnv,
    task: TaskRef,
    max_turns: int,
    expert_share: float,
    rng: random.Random,
) -> list[Message]:
    """Messages of user and assistant in turn, from the first observation to the last action."""
    observation = env.reset(task, task.seed)
    messages = [user(first_message(world.prompt, observation.goal, observation.text))]
    for _ in range(max_turns):
        action = noisy_action(observation, expert_share, rng)
        messages.append(assistant(action))
        result = env.step(action)
        if result.terminated:
            break
        observation = result.observation
        messages.append(user(next_message(observation.text)))
    return messages if messages[-1]["role"] == "assistant" else messages[:-1]


def noisy_action(observation: Observation, expert_share: float, rng: random.Random) -> str:
    """The next step of a winning plan with chance ``expert_share``, else any possible command, evenly drawn."""
    if observation.expert and rng.random() < expert_share:
        return observation.expert[0]
    return rng.choice(sorted(set(observation.legal) - IDLE))
