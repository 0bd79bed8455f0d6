"""Credit of each sampled token of a step's episodes: advantages, returns, values.

Line i of ``rl/credit/STEP.jsonl`` belongs to line i of ``rl/episodes/STEP.jsonl``. It is ``null``
if that episode was not trained on. Equal numbers in a row are packed: ``[-0.8, 47]`` is 47 tokens
of -0.8, a bare number is one token.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from turngrid.envs.utils.files import write_whole


@dataclass(frozen=True)
class Credit:
    """Credit of one episode, an entry a sampled token, in the trained reward's unit.

    Attributes:
        layers: by name, an entry a turn: the estimator's advantage, then that of each method.
    """

    advantages: Sequence[float | None]  # None for a token that a rollout correction removed from the update
    returns: Sequence[float]
    values: Sequence[float] = ()  # empty without a critic
    layers: Mapping[str, Sequence[float]] = field(default_factory=dict)


def write_credit(path: Path, credits: Iterable[Credit | None]) -> None:
    """Write one line an episode, atomically."""
    write_whole(path, "".join(json.dumps(_packed(credit), separators=(",", ":")) + "\n" for credit in credits))


def _packed(credit: Credit | None) -> dict[str, Any] | None:
    if credit is None:
        return None
    fields = asdict(credit)
    layers = fields.pop("layers")
    return {name: pack_runs(numbers) for name, numbers in fields.items()} | ({"layers": layers} if layers else {})


def read_credit(path: Path) -> list[Credit | None]:
    """Return one entry for each episode of the step."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Credit(layers=line.pop("layers", {}), **{name: unpack_runs(packed) for name, packed in line.items()})
        if line
        else None
        for line in lines
    ]


def pack_runs(numbers: Sequence[float | None]) -> list[Any]:
    """Encode runs of equal numbers: ``[0.5, 0.5, 1.0]`` becomes ``[[0.5, 2], 1.0]``."""
    packed: list[Any] = []
    for number, equal in groupby(numbers):
        count = sum(1 for _ in equal)
        packed.append(number if count == 1 else [number, count])
    return packed


def unpack_runs(packed: Iterable[Any]) -> list[Any]:
    """Undo ``pack_runs``."""
    pairs = (entry if isinstance(entry, list) else (entry, 1) for entry in packed)
    return [number for number, count in pairs for _ in range(count)]


@dataclass(frozen=True)
class Replayed:
    """A line of ``rl/replayed/STEP.jsonl``: an episode that a buffer replayed in an update."""

    sampled_in: int  # the step that sampled it
    tokens: str  # ``tokens_of`` its rows
    advantage: float | None = None  # advantage of all its tokens, if it has a separate update
    instead: int | None = None  # line of the step's episode that it replaced


def tokens_of(rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> str:
    """Return a hash of rows, each of prompt and response ids."""
    text = json.dumps([[list(prompt), list(response)] for prompt, response in rows])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
