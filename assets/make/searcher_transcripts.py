"""Transcripts of ALFWorld's searcher, in which random commands replace some of its choices."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

from turngrid.assets.make.alfworld_recipe import Stage
from turngrid.assets.make.house import House
from turngrid.envs.alfworld import generate
from turngrid.envs.alfworld.kinds import TYPES
from turngrid.envs.alfworld.searcher import Searcher
from turngrid.envs.environment import PromptStyle, Rejected
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.stream import Message, assistant, user

FIRST_SEED = 10_000_000  # beyond the seeds of any split; floor plans are those of training
UNCHECKED = 0.25  # share of random commands that may be impossible in the current state


@dataclass(frozen=True)
class Transcript:
    """Messages of user and assistant in turn; ``searched``: for each action, True if the searcher
    chose it."""

    messages: list[Message]
    searched: list[bool]


def transcript(style: PromptStyle, stage: Stage, seed: int) -> Transcript:
    """Return the transcript of ``seed``, which decides house, share of random commands,
    commands."""
    rng = random.Random(f"{stage.name}/{seed}")
    house = draw_house(stage, rng)
    (chance,) = rng.choices([noise.chance for noise in stage.noises], [noise.weight for noise in stage.noises])
    searcher = Searcher(house.goal, house.opening)
    messages = [user(PLAIN_FORM.head(style, house.goal) + PLAIN_FORM.message(house.opening))]
    searched: list[bool] = []
    while not house.won and len(searched) < stage.max_turns:
        searched.append(rng.random() >= chance)
        command = searcher.act(house.commands) if searched[-1] else random_command(house, rng)
        answer = house.step(command)
        searcher.saw(command, answer)
        messages += [assistant(command), user(PLAIN_FORM.message(answer))]
    return Transcript(messages[:-1], searched)


def draw_house(stage: Stage, rng: random.Random) -> House:
    """Return a house of at most ``stage.max_places`` receptacles."""
    while True:
        kind = TYPES[0] if rng.random() < stage.first_type else rng.choice(TYPES)
        try:
            draft = generate.draw(kind, False, FIRST_SEED + rng.randrange(10**9))
        except Rejected:
            continue
        if len(draft.layout.receptacles) <= stage.max_places:
            return House(draft)


def random_command(house: House, rng: random.Random) -> str:
    """Return a possible command, its verb drawn first, or an unchecked one (``UNCHECKED``)."""
    if rng.random() < UNCHECKED:
        place, thing = rng.choice(list(house.places)), rng.choice(list(house.things))
        return rng.choice([f"go to {place}", f"take {thing} from {place}", f"move {thing} to {place}", f"open {place}"])
    verbs = defaultdict(list)
    for command in house.commands:
        verbs[command.split()[0]].append(command)
    return rng.choice(verbs[rng.choice(sorted(verbs))])
