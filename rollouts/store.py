"""Episodes on disk: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from envs.whole import write_whole
from rollouts.episode import Episode


class DamagedEpisodes(ValueError):
    """A file of episodes that cannot be read to its end; the message is one line and names it."""


def write_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """All or nothing. Half a character becomes a question mark, as it did on its way to the game."""
    write_whole(path, b"".join(_line(episode.to_dict()) + b"\n" for episode in episodes))


def _line(record: dict[str, Any]) -> bytes:
    """An episode of 16,000 tokens takes 9 ms of json's time and 1 of msgspec's, which knows neither half a character nor numpy's
    numbers nor a number that is none: it says null of that, as of None."""
    try:
        line = msgspec.json.encode(record)
    except (UnicodeEncodeError, TypeError):
        line = b"null"
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") if b"null" in line else line


def read_episodes(path: Path) -> Iterator[Episode]:
    """Raises: DamagedEpisodes: a line cannot be read as one."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _episode(line, f"{path}, line {number}")


def _episode(line: bytes, where: str) -> Episode:
    try:
        return Episode.from_dict(_record(line))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedEpisodes(f"{where} is no episode: {error!r}") from error


def _record(line: bytes) -> dict[str, Any]:
    """The same for reading: a number that is none is no JSON, but json's."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(line)
