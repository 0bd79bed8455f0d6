"""The ledger: its lines, its file, and sums over its lines."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from turngrid.records.files.json_lines import write_lines
from turngrid.rollouts.episode import Episode

FILE = "ledger.jsonl"


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Attributes:
        kind: ``demonstration``, ``rl_episode``, ``evaluation/rl``, ...
        step: training step; 0 outside RL.
        count: number of episodes.
        units: their charge in budget units.
        tokens: sampled or imitated tokens.
        episode_seconds: seconds spent in policy and environment, summed over parallel episodes.
        games: distinct games that no earlier line of this kind has.
        uncharged: cost in units of uncharged episodes.
        wall_seconds: elapsed seconds; None if unknown.
        ended: end in Unix seconds; None if unknown.
        note: the run or the model.
    """

    kind: str
    step: int
    count: int
    units: float
    tokens: int
    episode_seconds: float
    games: int = 0
    uncharged: float = 0.0
    wall_seconds: float | None = None
    ended: float | None = None
    note: str = ""


def of_episodes(kind: str, step: int, episodes: list[Episode], units: float, **more: Any) -> Entry:
    turns = [turn for episode in episodes for turn in episode.own_turns]
    tokens, seconds = sum(len(turn.action_ids) for turn in turns), sum(t.act_seconds + t.env_seconds for t in turns)
    games = len({episode.task for episode in episodes})
    return Entry(kind, step, len(episodes), float(units), tokens, seconds, **{"games": games, **more})


def write_ledger(path: Path, entries: Iterable[Entry]) -> None:
    write_lines(path, map(asdict, entries))


def read_ledger(path: Path) -> list[Entry]:
    return [Entry(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def spent(config: DictConfig, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the sums by both ways of counting, whichever of them is charged."""
    demonstrated = sum(entry.units for entry in entries if entry.kind in ("demonstration", "alternative"))
    rl = [entry for entry in entries if entry.kind == "rl_episode"]
    cost = float(config.budget.episode_cost)
    return {
        "count": config.budget.count,
        "units": sum(entry.units for entry in entries),
        "units_by_games": demonstrated + sum(entry.games for entry in rl) * cost,
        "units_by_rollouts": demonstrated + sum(entry.count for entry in rl) * cost,
        "kinds": _by_kind(entries),
    }


def _by_kind(entries: Iterable[Entry]) -> dict[str, dict[str, float]]:
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry in entries:
        for name in ("count", "games", "units", "uncharged", "tokens", "episode_seconds"):
            sums[entry.kind][name] += getattr(entry, name)
        sums[entry.kind]["wall_seconds"] += entry.wall_seconds or 0.0
    return {kind: {name: round(value, 3) for name, value in sum_.items()} for kind, sum_ in sums.items()}
