"""What a run found: one ``StageResult`` a model that was evaluated, kept as ``result.json`` in the run folder."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.statistics import Interval, wilson
from rollouts.episode import Episode

FILE = "result.json"


@dataclass(frozen=True)
class StageResult:
    """One model on the test panel, and what making that model cost.

    Attributes:
        name: the stage that made it: ``base``, ``sft`` or ``rl``.
        successes: games won; ``won``, never ``done``.
        games: games played, each once.
        low, high: 95 % Wilson bounds of successes / games, in [0, 1].
        mean_turns_to_success: over the games won; None where none was.
        invalid_share: actions that the world did not understand, of all actions; in [0, 1].
        outcomes: games by how they ended.
        temperature, max_turns: how the games were played.
        checkpoint: the folder or name of the model.
        panel_hash: which games these were.
        units: budget units that the stage spent.
        tokens: tokens that the model sampled while it was trained.
        seconds: wall seconds of the stage over all attempts, evaluation not counted.
    """

    name: str
    successes: int
    games: int
    low: float
    high: float
    mean_turns_to_success: float | None
    invalid_share: float
    outcomes: Mapping[str, int]
    temperature: float
    max_turns: int
    checkpoint: str
    panel_hash: str
    units: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def interval(self) -> Interval:
        return Interval(self.successes / self.games, self.low, self.high)


@dataclass(frozen=True)
class RunResult:
    """A finished run. ``plot`` is relative to the run folder; ``units_left`` is what the budget still held."""

    name: str
    folder: str
    seed: int
    stages: Sequence[StageResult]
    units: float
    units_left: float = 0.0
    seconds: float = 0.0
    plot: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)

    def stage(self, name: str) -> StageResult | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunResult:
        data = json.loads(text)
        return cls(**{**data, "stages": [StageResult(**stage) for stage in data["stages"]]})

    def write(self, folder: Path) -> Path:
        """Write ``result.json`` whole or not at all."""
        path = folder / FILE
        draft = path.with_name(f".{FILE}.{os.getpid()}")
        draft.write_text(self.to_json(), encoding="utf-8")
        draft.replace(path)
        return path

    @classmethod
    def read(cls, folder: Path) -> RunResult | None:
        """The result of a finished run, None where there is none yet."""
        path = folder / FILE
        return cls.from_json(path.read_text(encoding="utf-8")) if path.exists() else None


def summarise(episodes: Sequence[Episode]) -> dict[str, Any]:
    """The fields of ``StageResult`` that the played games decide, from one episode a game.

    Raises:
        ValueError: no episode.
    """
    won = [episode for episode in episodes if episode.won]
    turns = [turn for episode in episodes for turn in episode.turns]
    interval = wilson(len(won), len(episodes))
    return {
        "successes": len(won),
        "games": len(episodes),
        "low": interval.low,
        "high": interval.high,
        "mean_turns_to_success": fmean(len(episode.turns) for episode in won) if won else None,
        "invalid_share": sum(not turn.valid for turn in turns) / max(len(turns), 1),
        "outcomes": dict(sorted(Counter(str(episode.outcome) for episode in episodes).items())),
    }
