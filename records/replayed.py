"""Earlier episodes that a buffer replayed in an update: ``rl/replayed/STEP.jsonl``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from turngrid.records.files.json_lines import write_lines

Ids = Sequence[tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True)
class Replayed:
    """A replayed episode.

    Attributes:
        played: the step that sampled it.
        tokens: ``tokens_of`` its rows.
        advantage: advantage of all its tokens, if it has a separate update.
        instead: line of the step's episode that it replaced; its advantage is then computed in the
            step.
    """

    played: int
    tokens: str
    advantage: float | None = None
    instead: int | None = None


def tokens_of(rows: Ids) -> str:
    """Return a hash of rows, each of prompt and response ids."""
    text = json.dumps([[list(prompt), list(response)] for prompt, response in rows])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def write_replayed(path: Path, replayed: Iterable[Replayed]) -> None:
    write_lines(path, map(asdict, replayed))


def read_replayed(path: Path) -> list[Replayed]:
    return [Replayed(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
