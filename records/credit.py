"""What an update was told about each sampled token of a step's episodes: advantages, returns, values.

``rl/credit/STEP.jsonl`` stands beside ``rl/episodes/STEP.jsonl`` and has the same lines: line i belongs to episode i, and
is ``null`` where that episode was not trained on. Most estimators give many tokens in a row the same number, so a row of
equal numbers is written once: ``[-0.8, 47]`` is 47 tokens of -0.8, a bare number is one token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from envs.utils.files import write_whole


@dataclass(frozen=True)
class Credit:
    """Of one episode, one entry a sampled token, in order of the turns; ``layers`` have one entry a turn.

    ``advantages``: None where the token was taken out of the update (by a rollout correction). ``values`` is empty
    without a critic. All in units of the trained reward, unless the algorithm normalises advantages.
    ``layers``: with ``credit=``, the turn's advantage as the estimator made it and after each method, by their names in order; empty
    without.
    """

    advantages: Sequence[float | None]
    returns: Sequence[float]
    values: Sequence[float] = ()
    layers: Mapping[str, Sequence[float]] = field(default_factory=dict)


def write_credit(path: Path, credits: Iterable[Credit | None]) -> None:
    """Write all or nothing, one line an episode."""
    write_whole(path, "".join(json.dumps(_packed(credit), separators=(",", ":")) + "\n" for credit in credits))


def read_credit(path: Path) -> list[Credit | None]:
    """As many entries as the step has episodes."""
    return [_credit(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _packed(credit: Credit | None) -> dict[str, Any] | None:
    if credit is None:
        return None
    found = asdict(credit)
    layers = found.pop("layers")
    return {name: pack_runs(numbers) for name, numbers in found.items()} | ({"layers": layers} if layers else {})


def _credit(found: dict[str, Any] | None) -> Credit | None:
    if not found or not found["advantages"]:  # of an episode that a filter left out it was once written without numbers
        return None
    layers = found.pop("layers", {})
    return Credit(**{name: unpack_runs(numbers) for name, numbers in found.items()}, layers=layers)


def pack_runs(numbers: Sequence[float | None]) -> list[Any]:
    """``[0.5, 0.5, 1.0]`` -> ``[[0.5, 2], 1.0]``."""
    packed: list[Any] = []
    for number, equal in groupby(numbers):
        count = sum(1 for _ in equal)
        packed.append(number if count == 1 else [number, count])
    return packed


def unpack_runs(packed: Iterable[Any]) -> list[Any]:
    """The other way round."""
    numbers: list[Any] = []
    for entry in packed:
        number, count = entry if isinstance(entry, list) else (entry, 1)
        numbers.extend([number] * count)
    return numbers
