"""Transcripts of noisy experts in TextWorld, and the renaming of things in them.

A noisy expert follows the expert plan at each turn with some chance, else draws a possible command.
Renaming makes a model read the text rather than remember words.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tqdm import tqdm

from turngrid.assets.make.searcher_transcripts import Transcript as Episode
from turngrid.assets.make.tiny_recipe import Phase
from turngrid.envs.environment import Environment
from turngrid.envs.registry import make_environment
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskRef
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.stream import Message, assistant, user

Transcript = Sequence[Message]
CHUNK = 20  # games a process plays before it reports
IDLE = frozenset({"look", "inventory"})  # every observation contains their answers
# Words of TextWorld's commands that are no names of things.
_WORDS = (
    "take open close unlock lock go drop put insert eat cook slice chop dice from into onto in on with north south "
    "east west examine look inventory the a an of"
)
COMMAND_WORDS = frozenset(_WORDS.split())
WORD = re.compile(r"[a-z]+")


def phase_transcripts(
    tasks: Sequence[TaskRef], phase: Phase, max_turns: int, seed: int, workers: int | None = None
) -> list[Transcript]:
    """Return ``phase.samples_per_game`` transcripts of each game of the phase, in the games'
    order."""
    games = tasks[: phase.games]
    chunks = [games[start : start + CHUNK] for start in range(0, len(games), CHUNK)]
    play = partial(_run_chunk, phase=phase, max_turns=max_turns, seed=seed)
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        done = tqdm(pool.map(play, chunks), desc=f"playing {len(games)} games", total=len(chunks), unit="chunk")
        return [transcript for chunk in done for transcript in chunk]


def _run_chunk(tasks: Sequence[TaskRef], phase: Phase, max_turns: int, seed: int) -> list[Transcript]:
    textworld = make_environment("textworld")
    env = textworld.env(legal=True, expert=True)
    try:
        return [
            noisy_transcript(textworld, env, task, max_turns, *drawn(phase, task, sample, seed))
            for task in tasks
            for sample in range(phase.samples_per_game)
        ]
    finally:
        env.close()


def drawn(phase: Phase, task: TaskRef, sample: int, seed: int) -> tuple[float, random.Random]:
    """Draw a policy's chance to follow the plan, and return it with the episode's generator."""
    rng = random.Random(f"{seed}/{phase.name}/{task.seed}/{sample}")
    shares = [expert.expert_share for expert in phase.experts]
    return rng.choices(shares, [expert.weight for expert in phase.experts])[0], rng


def noisy_transcript(
    environment: Environment,
    env: TextEnv,
    task: TaskRef,
    max_turns: int,
    expert_share: float,
    rng: random.Random,
) -> list[Message]:
    """Return the messages of ``noisy_episode``."""
    return noisy_episode(environment, env, task, max_turns, expert_share, rng).messages


def noisy_episode(
    environment: Environment,
    env: TextEnv,
    task: TaskRef,
    max_turns: int,
    expert_share: float,
    rng: random.Random,
) -> Episode:
    """Return messages of user and assistant in turn, from the first observation to the last action.

    An environment without an expert for each state is played along the game's plan.
    """
    observation = env.reset(task, task.seed)
    plan = () if observation.expert else task.expert_plan
    head = PLAIN_FORM.head(environment.prompt, observation.goal or task.goal)
    messages, chosen = [user(head + PLAIN_FORM.message(observation.text))], []
    for turn in range(len(plan) or max_turns):
        expert = observation.expert or plan[turn:]
        chosen.append(bool(expert and (plan or rng.random() < expert_share)))
        legal = set(observation.legal)
        action = expert[0] if chosen[-1] else rng.choice(sorted(legal - IDLE or legal))
        messages.append(assistant(action))
        result = env.step(action)
        if result.over:
            break
        observation = result.observation
        messages.append(user(PLAIN_FORM.message(observation.text)))
    return Episode(messages if messages[-1]["role"] == "assistant" else messages[:-1], chosen)


def thing_words(messages: Sequence[Message]) -> set[str]:
    """Return the words of the actions that name things."""
    actions = (message["content"].lower() for message in messages if message["role"] == "assistant")
    words = {word for action in actions for word in WORD.findall(action)}
    return {word for word in words - COMMAND_WORDS if len(word) > 1}


def rename(
    messages: Sequence[Message], words: Iterable[str], names: Sequence[str], chance: float, rng: random.Random
) -> list[Message]:
    """Return a lower-case copy in which each word is, with ``chance``, replaced by a drawn name.

    A word gets the same name in every message.
    """
    new = {word: rng.choice(names) for word in sorted(words) if rng.random() < chance}
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, new)) + r")\b" if new else r"(?!)")
    texts = (pattern.sub(lambda match: new[match.group(0)], message["content"].lower()) for message in messages)
    return [{**message, "content": text} for message, text in zip(messages, texts, strict=True)]
