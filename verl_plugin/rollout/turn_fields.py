"""Fields of a row that describe its turns, for methods (``turngrid.algorithms.turns``)."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, product
from typing import Any

import torch
from torch import Tensor

from turngrid.algorithms.registry import CLUSTER
from turngrid.algorithms.turn_table import ENDS, NAMED, span_field
from turngrid.algorithms.turns import OUTCOMES
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.forms.tree import roots_of, samplers_of
from turngrid.rollouts.prompt_forms.form import PLAIN_FORM, PromptForm

PREFIX = "turn_"
MOST_TURNS = 10**7  # of an episode (turngrid.tasks.schema.TURNS); numbers the turns of a group
REPEATED, TIMES = 20, 10  # an answer that repeats this many tokens this often is garbled (SPEAR's numbers)
NO_SPAN = (0, 0)
TreePlace = tuple[int, Sequence[int]]  # the tree's first sample, and the sample that generated each turn
UNDECODABLE = "\N{REPLACEMENT CHARACTER}"


def tree_places(episodes: Sequence[Episode]) -> dict[int, TreePlace]:
    """Return each sample's position in the trees of its group."""
    ordered = sorted(episodes, key=lambda episode: episode.sample)
    samplers = samplers_of(ordered)
    return {sample: (root, samplers[sample]) for sample, root in roots_of(ordered).items()}


def turn_fields(
    episode: Episode,
    first: int,
    last: int,
    state: str,
    named: Iterable[str] = (),
    tree: TreePlace | None = None,
    form: PromptForm = PLAIN_FORM,
    cluster: Callable[[str], str] = str,
    roles: Sequence[str] = (),
) -> dict[str, Tensor]:
    """Return the fields of the row of turns ``first`` to ``last``, with an entry for each turn.

    ``turn_outcome`` and ``turn_tree`` have one entry. A turn that does not act has a unique state.

    Args:
        state: the kind of state by which turns are compared, of ``STATES``.
        named: rewards besides the trained one that are sent with the row.
        tree: the episode's position in the tree of its group.
        form: its labels and parts are sent with the row.
        cluster: returns what observations of one cluster have in common, for ``state=cluster``.
        roles: the names of the run's roles, in the order of their numbers.
    """
    before, after = _states(episode, state, cluster)
    turns = episode.turns[first:last]
    numbers = {
        "state": before[first:last],
        "after": after[first:last],
        "action": [text_hash(turn.action) for turn in turns],
        "valid": [int(turn.valid) for turn in turns],
        "parsed": [int(turn.parsed) for turn in turns],
        "garbled": [int(garbled(turn)) for turn in turns],
        "aside": [int(turn.aside) for turn in turns],
        "outcome": [OUTCOMES.index(episode.outcome.value)],
    }
    if tree:
        root, samplers = tree
        nodes = [sampler * MOST_TURNS + number for number, sampler in enumerate(samplers)]
        numbers |= {"node": nodes[first:last], "tree": [root]}
    if episode.plays:
        numbers["attempt"] = [turn.attempt for turn in turns]
    if episode.seat or roles:
        numbers["role"] = [roles.index(turn.role) if roles else int(episode.seat) for turn in turns]
    if form.labels:
        numbers["label"] = [form.labels.index(turn.label) + 1 if turn.label else 0 for turn in turns]
    for part, (number, end) in product(form.parts, enumerate(ENDS)):
        numbers[span_field(part, end)] = [turn.spans.get(part, NO_SPAN)[number] for turn in turns]
    rewards = {f"{NAMED}{name}": [turn.rewards.get(name, 0.0) for turn in turns] for name in named}
    return {
        **{f"{PREFIX}{name}": torch.tensor(column, dtype=torch.int64) for name, column in numbers.items()},
        **{f"{PREFIX}{name}": torch.tensor(column, dtype=torch.float64) for name, column in rewards.items()},
    }


def _states(episode: Episode, state: str, cluster: Callable[[str], str]) -> tuple[list[int], list[int]]:
    states = _of_environment(episode, state, cluster)
    indices = [0, *accumulate(not turn.aside for turn in episode.turns)]
    numbered = enumerate(zip(episode.turns, indices[:-1], strict=True))
    before = [text_hash(f"{episode.sample} {n}") if turn.aside else states[index] for n, (turn, index) in numbered]
    return before, [states[index] for index in indices[1:]]


def _of_environment(episode: Episode, state: str, cluster: Callable[[str], str]) -> list[int]:
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
    """Return the fields without which verl computes no row; (tokens,) int64 each."""
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
