"""Example X of the methods' specifications: two groups of episodes small enough to work out by
hand."""

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from turngrid.algorithms.slots import Tokens
from turngrid.algorithms.turn_table import turn_table
from turngrid.algorithms.turns import Turns

Path = tuple[str, list[float], list[float], list[float], int]
Paths = dict[str, Path]

# episode -> path "state action state ...", rewards, entropies (nats), values, outcome, how often
# its turns are valid
PATHS: Paths = {
    "P_0": ("S0 a S1 b S2", [0, 1], [0.2, 0.4], [0.5, 0.6], 0),
    "P_1": ("S0 a S1 c S0 b S3", [0, 0, 0], [0.6, 0.8, 0.5], [0.4, 0.3, 0.2], 2),
    "P_2": ("S0 b S3 c S4", [0, 0], [0.3, 0.9], [0.5, 0.1], 1),
    "P_3": ("S0 a S1 b S2 c S5", [0, 0.25, 0.5], [0.1, 0.2, 0.7], [0.5, 0.7, 0.4], 1),
    "Q_4": ("U0 a U1 b U3", [0, 0], [0.5, 0.5], [0.2, 0.1], 1),
    "Q_5": ("U0 b U2 a U4", [0, 1], [0.5, 0.5], [0.3, 0.8], 0),
    "Q_6": ("U0 a U1 b U3", [0, 0], [0.5, 0.5], [0.2, 0.2], 1),
}
SPANS = {"switch": (0, 2), "subgoal": (2, 4), "action": (4, 6)}  # the parts of an answer of six tokens
GRPO = [1.09141, -0.84887, -0.84887, 0.60634, -0.57735, 1.15470, -0.57735]
GRPO_WITHOUT_STD = [0.5625, -0.4375, -0.4375, 0.3125, -1 / 3, 2 / 3, -1 / 3]


def example_x(windows: bool = False, dead: bool = False, padding: int = 0, paths: Paths = PATHS) -> Turns:
    """``windows``: an episode's first turn has a row of its own; ``dead``: each group has an
    episode without an action too; ``padding``: rows as verl adds them, with the records of the
    first; ``paths``: other episodes than example X."""
    rows: list[dict[str, object]] = []
    for name in paths:
        rows += episode_rows(name, windows, paths)
    if dead:
        rows += [
            {**row, "episode": f"{row['episode']}dead", "mask": [0], "reward": [5.0]} for row in rows[:1] + rows[-1:]
        ]
    rows += [{**rows[0], "episode": f"pad_{i}", "group": "pad", "mask": [0], "reward": [0.0]} for i in range(padding)]
    return table(rows)


def random_paths(seed: int, groups: int = 4, samples: int = 5) -> Paths:
    """Episodes of 1 to 6 turns in few states, of which some end at once, some groups score the
    same, and some turns say nothing."""
    draw = random.Random(seed)
    paths: Paths = {}
    for group, sample in itertools.product(range(groups), range(samples)):
        count = draw.randint(1, 6)
        words = [f"S{draw.randint(0, 3)}" if place % 2 == 0 else draw.choice("abc") for place in range(2 * count + 1)]
        reward = [0.0] * (count - 1) + [float(draw.random() < 0.5) if group else 0.0]
        entropy, values = ([draw.random() for _ in range(count)] for _ in range(2))
        paths[f"{group}_{sample}"] = (" ".join(words), reward, entropy, values, draw.randint(0, 3))
    return paths


def episode_rows(name: str, windows: bool, paths: Paths = PATHS) -> list[dict[str, object]]:
    path, reward, entropy, values, outcome = paths[name]
    parts, count = path.split(), len(reward)
    cuts = [0, 1, count] if windows and count > 1 else [0, count]
    return [
        {
            "episode": name,
            "group": name[0],
            **_tokens([(2 + t % 2, reward[t], entropy[t], values[t]) for t in range(first, last)]),
            "state": [hash_of(parts[2 * t]) for t in range(first, last)],
            "after": [hash_of(parts[2 * t + 2]) for t in range(first, last)],
            "action": [hash_of(parts[2 * t + 1]) for t in range(first, last)],
            "named_half": [reward[t] / 2 for t in range(first, last)],
            "named_plan_share": [0.25 * (parts[2 * t + 1] == "b") for t in range(first, last)],
            "valid": [int((name, t) != ("P_1", 1)) for t in range(first, last)],
            "garbled": [int((name, t) == ("Q_6", 1)) for t in range(first, last)],
            "outcome": [outcome],
            "label": [1 + (len(path) + t) % 2 for t in range(first, last)],
            **_spans([2 + t % 2 for t in range(first, last)]),
        }
        for first, last in pairwise(cuts)
    ]


def _spans(sizes: list[int]) -> dict[str, list[int]]:
    """The first token says whether the subgoal stays, the last one is the action's, and what there
    is between names the subgoal."""
    ends = {
        "switch": lambda size: (0, 1),
        "subgoal": lambda size: (1, size - 1),
        "action": lambda size: (size - 1, size),
    }
    return {
        f"span_{part}_{end}": [of(size)[number] for size in sizes]
        for part, of in ends.items()
        for number, end in enumerate(("first", "last"))
    }


def _tokens(turns: list[tuple[int, float, float, float]]) -> dict[str, list[float]]:
    """Two or three action tokens a turn, then two of context, on which nothing that stands there
    may be read."""
    found: dict[str, list[float]] = {"mask": [], "reward": [], "entropy": [], "values": []}
    for size, reward, entropy, value in turns:
        found["mask"] += [1] * size + [0, 0]
        found["reward"] += [0.0] * (size - 1) + [reward, 0.0, 0.0]
        found["entropy"] += [entropy] * size + [9.0, 9.0]
        found["values"] += [value] * size + [9.0, 9.0]
    return found


def taking(states: Iterable[str], rewards: list[float], outcome: int = 0) -> Path:
    """An episode that goes through these states, always by the same action."""
    zeros = [0.0] * len(rewards)
    return " a ".join(states), rewards, zeros, zeros, outcome


def one_episode(
    rewards: list[float], values: list[list[float]], outcome: int = 0, aside: list[int] | None = None
) -> tuple[Turns, Tokens]:
    """Of so many tokens a turn, with an observation of two tokens after each."""
    row: dict[str, Any] = {"mask": [], "reward": [], "values": []}
    for reward, own in zip(rewards, values, strict=True):
        row["mask"] += [1] * len(own) + [0, 0]
        row["reward"] += [0.0] * (len(own) - 1) + [reward, 0.0, 0.0]
        row["values"] += [*own, 9.0, 9.0]
    count = len(rewards)
    row |= {"entropy": row["values"], "aside": aside or [0] * count, "label": [1] * count}
    for part, (first, last) in SPANS.items():
        row |= {f"span_{part}_first": [first] * count, f"span_{part}_last": [last] * count}
    row |= {name: list(range(count)) for name in ("state", "after", "action", "valid")}
    turns = table([{"episode": "e_0", "group": "e", "outcome": [outcome], **row}])
    return turns, Tokens(turns.place >= 0, torch.tensor([row["reward"]]), torch.tensor([row["values"]]))


def table(rows: list[dict[str, object]]) -> Turns:
    longest = max(len(row["mask"]) for row in rows)  # type: ignore[arg-type]

    def tokens(name: str) -> Tensor:
        padded = [list(row[name])[: len(row["mask"])] for row in rows]  # type: ignore[call-overload]
        return torch.tensor([row + [0.0] * (longest - len(row)) for row in padded])

    members: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        members.setdefault(str(row["episode"]), []).append(number)
    records = {
        name: [torch.tensor(row[name]) for row in rows]
        for name in rows[0]
        if name not in ("episode", "group", "mask", "reward", "entropy", "values") and all(name in row for row in rows)
    }
    columns = {"loss_mask": tokens("mask").long(), "reward": tokens("reward")}
    columns |= {"entropy": tokens("entropy"), "values": tokens("values")}
    turns = turn_table(columns, {**records, "parsed": records["valid"]}, members, [str(row["group"]) for row in rows])
    scored = torch.where(columns["loss_mask"].bool(), -columns["values"], torch.nan)  # of whatever contexts
    return replace(turns, log_prob=-columns["entropy"], scored=scored)


def hash_of(text: str) -> int:
    return sum(ord(letter) * 131**place for place, letter in enumerate(text))


def spread(scores: list[float], turns: Turns) -> Tensor:
    """(E, K): one number an episode on all of its turns."""
    return torch.tensor(scores, dtype=torch.float64).unsqueeze(1) * turns.mask


def by_turn(matrix: Tensor, turns: Turns) -> list[list[float]]:
    """An episode's numbers, of the turns that it has."""
    return [row[mask].tolist() for row, mask in zip(matrix, turns.mask, strict=True)]


def credit_of(credit: Any, turns: Turns) -> list[list[float]]:
    """What a credit method makes of advantages of 0."""
    return by_turn(credit(turns, torch.zeros(turns.mask.shape).double()), turns)
