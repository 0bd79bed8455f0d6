"""What a run has spent, read off what lies in its folder: nothing is charged that left no episode behind.

Charged: demonstrations and RL episodes of steps that count (design: up to the last checkpoint after a kill). Listed and
never charged: retries, dropped groups, evaluation, discarded steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig

from experiments import demonstrations
from experiments.resume import RlFolder
from rollouts.episode import Episode
from rollouts.store import read_episodes


@dataclass(frozen=True)
class Entry:
    """One line: ``count`` episodes of a ``kind``, their charge in budget ``units``, the tokens that were sampled or
    imitated, and the seconds spent in policy and world, summed over episodes that ran side by side."""

    kind: str
    step: int
    count: int
    units: float
    tokens: int
    episode_seconds: float


def ledger(config: DictConfig, folder: Path) -> list[Entry]:
    """Every entry in the order in which it was spent."""
    entries = list(_demonstrations(config, folder)) + list(_training(config, RlFolder(folder)))
    return entries + list(_evaluations(folder))


def write_ledger(path: Path, entries: list[Entry]) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in entries), encoding="utf-8")
    draft.replace(path)


def _demonstrations(config: DictConfig, folder: Path) -> Iterator[Entry]:
    path = demonstrations.episodes_file(folder)
    if path.exists():
        episodes = list(read_episodes(path))
        yield _entry("demonstration", 0, episodes, len(episodes) * config.budget.demo_cost)


def _training(config: DictConfig, rl: RlFolder) -> Iterator[Entry]:
    known: set[str] = set()
    for path in sorted(rl.episodes.glob("*.jsonl")):
        episodes = list(read_episodes(path))
        games = {episode.task for episode in episodes} - known
        known |= games
        charged = len(games) if config.budget.count == "games" else len(episodes)
        yield _entry("rl_episode", int(path.stem), episodes, charged * config.budget.episode_cost)
        retries = sum(episode.retries for episode in episodes)
        if retries:
            yield Entry("retry", int(path.stem), retries, 0.0, 0, 0.0)


def _evaluations(folder: Path) -> Iterator[Entry]:
    for path in sorted((folder / "evaluation").glob("*.jsonl")):
        yield _entry(f"evaluation/{path.stem}", 0, list(read_episodes(path)), 0.0)


def _entry(kind: str, step: int, episodes: list[Episode], units: float) -> Entry:
    turns = [turn for episode in episodes for turn in episode.turns]
    seconds = sum(turn.act_seconds + turn.env_seconds for turn in turns)
    return Entry(kind, step, len(episodes), float(units), sum(len(turn.action_ids) for turn in turns), seconds)
