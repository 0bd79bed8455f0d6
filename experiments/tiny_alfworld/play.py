"""Transcripts of the searcher, who at some turns does anything else instead, each in a house of its own."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

from envs.alfworld import generate
from envs.alfworld.house import House
from envs.alfworld.kinds import TYPES
from envs.alfworld.searcher import Searcher
from envs.environment import PromptStyle, Rejected
from experiments.tiny_alfworld.recipe import Stage
from rollouts.prompt_forms.plain import PLAIN_FORM
from rollouts.prompts import Message, assistant, user

FIRST_SEED = 10_000_000  # beyond the seeds of any split; the floor plans are those for training
SENSELESS = 0.25  # of what is done instead: a command about things of the house that need not apply


@dataclass(frozen=True)
class Transcript:
    """Messages of user and assistant in turn, and of each of the assistant's whether it was the searcher's choice."""

    messages: list[Message]
    searched: list[bool]


def transcript(style: PromptStyle, stage: Stage, seed: int) -> Transcript:
    """The play that this seed draws: the house, how often something else is done, and what."""
    rng = random.Random(f"{stage.name}/{seed}")
    house = drawn(stage, rng)
    (chance,) = rng.choices([noise.chance for noise in stage.noises], [noise.weight for noise in stage.noises])
    searcher = Searcher(house.goal, house.opening)
    messages = [user(PLAIN_FORM.head(style, house.goal) + PLAIN_FORM.message(house.opening))]
    searched: list[bool] = []
    while not house.won and len(searched) < stage.max_turns:
        searched.append(rng.random() >= chance)
        command = searcher.act(house.commands) if searched[-1] else anything(house, rng)
        answer = house.step(command)
        searcher.saw(command, answer)
        messages += [assistant(command), user(PLAIN_FORM.message(answer))]
    return Transcript(messages[:-1], searched)


def drawn(stage: Stage, rng: random.Random) -> House:
    """A house of at most ``stage.max_places`` places, with a task of the first type or of any."""
    while True:
        kind = TYPES[0] if rng.random() < stage.first_type else rng.choice(TYPES)
        try:
            draft = generate.draw(kind, False, FIRST_SEED + rng.randrange(10**9))
        except Rejected:
            continue
        if len(draft.layout.receptacles) <= stage.max_places:
            return House(draft)


def anything(house: House, rng: random.Random) -> str:
    """A command that applies, of a verb drawn first; at times one that may not."""
    if rng.random() < SENSELESS:
        place, thing = rng.choice(list(house.places)), rng.choice(list(house.things))
        return rng.choice([f"go to {place}", f"take {thing} from {place}", f"move {thing} to {place}", f"open {place}"])
    verbs = defaultdict(list)
    for command in house.commands:
        verbs[command.split()[0]].append(command)
    return rng.choice(verbs[rng.choice(sorted(verbs))])
