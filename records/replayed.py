"""Which earlier episodes an update learned from once more: ``rl/replayed/STEP.jsonl``, written where a buffer gave any back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from envs.utils.files import write_whole

Ids = Sequence[tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True)
class Replayed:
    """``played``: the step in which it was; ``tokens``: ``tokens_of`` its rows. ``advantage``: of all its tokens, in an update of its own.
    ``instead``: the line of the episode of this step in whose place it was learned from; its advantage is then what the step gave it."""

    played: int
    tokens: str
    advantage: float | None = None
    instead: int | None = None


def tokens_of(rows: Ids) -> str:
    """The same for the same tokens. ``rows``: prompt and response ids of each row."""
    text = json.dumps([[list(prompt), list(response)] for prompt, response in rows])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def write_replayed(path: Path, replayed: Iterable[Replayed]) -> None:
    write_whole(path, "".join(json.dumps(asdict(one)) + "\n" for one in replayed))


def read_replayed(path: Path) -> list[Replayed]:
    return [Replayed(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
