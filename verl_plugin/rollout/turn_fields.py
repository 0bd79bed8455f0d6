"""Fields of a row that describe its turns, for methods (``turngrid.algorithms.turns``)."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from typing import Any

import torch
from torch import Tensor

from turngrid.algorithms.registry import CLUSTER
from turngrid.algorithms.turn_table import ENDS, NAMED, span_field
from turngrid.algorithms.turns import OUTCOMES
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.forms.tree import roots_of, samplers_of
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM

PREFIX = "turn_"
MOST_TURNS = 10**7  # above an episode's (tasks.schema.TURNS): sampler * MOST_TURNS + turn is unique in a group
REPEATED, TIMES = 20, 10  # an answer that repeats this many tokens this often is garbled (SPEAR's numbers)
NO_SPAN = (0, 0)
TreePlace = tuple[int, Sequence[int]]  # the tree's first sample, and the sample that generated each turn
UNDECODABLE = "\N{REPLACEMENT CHARACTER}"


def tree_places(episodes: Sequence[Episode]) -> dict[int, TreePlace]:
    """Return each sample's position in the trees of its group."""
    ordered = sorted(episodes, key=lambda episode: episode.sample)
    samplers = samplers_of(ordered)
    return {sample: (root, samplers[sample]) for sample, root in roots_of(ordered).items()}


@dataclass(frozen=True)
class RowTurns:
    """The turns of a row, and what describes them.

    Attributes:
        numbers: the turns' indices in the episode.
        state: the kind of state by which turns are compared, of ``STATES``.
        form: its labels and parts are sent with the row.
        cluster: maps an observation to the first one of its cluster, for ``state=cluster``.
        roles: the names of the run's roles, in the order of their numbers.
    """

    episode: Episode
    turns: Sequence[Turn]
    numbers: Sequence[int]
    state: str
    tree: TreePlace | None = None
    form: PromptForm = PLAIN_FORM
    cluster: Callable[[str], str] = str
    roles: Sequence[str] = ()

    def role(self, turn: Turn) -> int:
        return self.roles.index(turn.role) if self.roles else int(self.episode.seat)

    @cached_property
    def states(self) -> tuple[list[int], list[int]]:
        """The states before and after each turn. A turn that does not act has a unique state."""
        states = _state_hashes(self.episode, self.state, self.cluster)
        acted = [0, *accumulate(not turn.aside for turn in self.episode.turns)]
        numbered = zip(self.numbers, self.turns, strict=True)
        before = [text_hash(f"{self.episode.sample} {n}") if turn.aside else states[acted[n]] for n, turn in numbered]
        return before, [states[acted[n + 1]] for n in self.numbers]


# How a row's columns are read, by attribute of ``Turns``; empty columns are left out.
COLUMNS: dict[str, Callable[[RowTurns], Sequence[int]]] = {
    "state": lambda row: row.states[0],
    "after": lambda row: row.states[1],
    "action": lambda row: [text_hash(turn.action) for turn in row.turns],
    "valid": lambda row: [turn.valid for turn in row.turns],
    "parsed": lambda row: [turn.parsed for turn in row.turns],
    "garbled": lambda row: [garbled(turn) for turn in row.turns],
    "outcome": lambda row: [OUTCOMES.index(row.episode.outcome.value)],
    "node": lambda row: [row.tree[1][n] * MOST_TURNS + n for n in row.numbers] if row.tree else [],
    "tree": lambda row: [row.tree[0]] if row.tree else [],
    "attempt": lambda row: [turn.attempt for turn in row.turns] if row.episode.plays else [],
    "role": lambda row: [row.role(turn) for turn in row.turns] if row.roles or row.episode.seat else [],
    "label": lambda row: [("", *row.form.labels).index(turn.label) for turn in row.turns] if row.form.labels else [],
    "aside": lambda row: [turn.aside for turn in row.turns],
}


def turn_fields(
    episode: Episode, first: int, last: int, state: str, named: Iterable[str] = (), **more: Any
) -> dict[str, Tensor]:
    """Return the fields of turns ``first`` to ``last``, given ``more`` attributes of ``RowTurns``.

    Args:
        named: rewards besides the trained one that are sent with the row.
    """
    row = RowTurns(episode, episode.turns[first:last], range(first, last), state, **more)
    numbers = {name: column for name, read in COLUMNS.items() if (column := read(row))}
    for part, (end, which) in product(row.form.parts, enumerate(ENDS)):
        numbers[span_field(part, which)] = [turn.spans.get(part, NO_SPAN)[end] for turn in row.turns]
    fields = {name: torch.tensor(column, dtype=torch.int64) for name, column in numbers.items()}
    for name in named:
        rewards = [turn.rewards.get(name, 0.0) for turn in row.turns]
        fields[f"{NAMED}{name}"] = torch.tensor(rewards, dtype=torch.float64)
    return {f"{PREFIX}{name}": column for name, column in fields.items()}


def _state_hashes(episode: Episode, state: str, cluster: Callable[[str], str]) -> list[int]:
    turns = episode.played_turns
    seen = [turn.observation for turn in turns] + [episode.final_observation]
    if state == CLUSTER:
        return [text_hash(cluster(text)) for text in seen]
    if state == "observation":
        return [text_hash(text) for text in seen]
    if state == "observation+turn":
        return [text_hash(f"{number}\n{text.strip()}") for number, text in enumerate(seen)]
    if state == "observation+goal":
        return [text_hash(f"{episode.goal}\n{text.strip()}") for text in seen]
    parts = [part for turn in turns for part in (turn.observation, turn.action)] + [seen[-1]]
    return [text_hash("\n".join(part.strip() for part in parts[: 2 * number + 1])) for number in range(len(seen))]


def verl_fields(prompts: Tensor, responses: Tensor, mask: Tensor) -> dict[str, Any]:
    """Return the fields that verl needs of every row; (tokens,) int64 each."""
    input_ids = torch.cat([prompts, responses])
    return {
        "prompts": prompts,
        "responses": responses,
        "response_mask": mask,
        "loss_mask": mask,
        "input_ids": input_ids,
        "position_ids": torch.arange(len(input_ids)),
        "multi_modal_inputs": {},
    }


def lengths(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the lengths of a row under the names of verl's tags."""
    prompt, response = len(row["prompts"]), len(row["responses"])
    return {"prompt_len": prompt, "response_len": response, "seq_len": prompt + response}


def garbled(turn: Turn) -> bool:
    """Return whether an answer has undecodable characters, or repeats itself."""
    ids = turn.action_ids
    parts = Counter(tuple(ids[first : first + REPEATED]) for first in range(len(ids) - REPEATED + 1))
    return UNDECODABLE in turn.response or max(parts.values(), default=0) >= TIMES


def text_hash(text: str) -> int:
    """Return a 64-bit hash of the stripped text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.strip().encode(), digest_size=8).digest(), "big", signed=True)
