"""Per-game success of a model on a panel, read off its episodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from experiments.evaluation import episodes_file
from experiments.matrix import Cell
from experiments.report.runs import Run


class Line(msgspec.Struct):
    """What a win needs of an episode; all else in the line is skipped unread."""

    task: str
    outcome: str


@dataclass(frozen=True)
class Wins:
    """One run's model on one panel.

    Attributes:
        cell: what the run's result says of it.
        shares: one value a game, shape (games,), in [0, 1]: the share of its plays that were won; None where the
            episodes are not there.
    """

    run: Run
    cell: Cell
    shares: np.ndarray | None

    @property
    def mean(self) -> float:
        return self.cell.successes / (self.cell.games * self.cell.plays)


_decoder = msgspec.json.Decoder(Line)


def wins_of(run: Run, cell: Cell) -> Wins:
    """Read once for as long as the run is held."""
    key = (cell.player, cell.env, cell.task)
    if key not in run.read_once:
        run.read_once[key] = Wins(run, cell, _shares(run, cell))
    return run.read_once[key]


def _shares(run: Run, cell: Cell) -> np.ndarray | None:
    """None also where the episodes do not add up to what the result says."""
    won = _won(run, cell)
    if won is None or sum(won) != cell.successes:
        return None
    return np.asarray(won, dtype=float).reshape(cell.games, cell.plays).mean(axis=1)


def _won(run: Run, cell: Cell) -> list[bool] | None:
    """Game by game, the plays of each one after the other; a mixture's panel also has cells for each of its tasks."""
    first, labelled = (episodes_file(run.folder, cell.player, label) for label in ("", _label(run, cell)))
    lines = _read(labelled) if labelled.exists() else _read(first)
    whole = labelled.exists() or (cell.env, cell.task) == run.panels[0]
    chosen = lines if whole else [line for line in lines if f"/{cell.task}/" in f"/{line.task}/"]
    return [line.outcome == "won" for line in chosen] if len(chosen) == cell.games * cell.plays else None


def _label(run: Run, cell: Cell) -> str:
    """As ``experiments.panels`` names the folder of any round but the first."""
    task = cell.task if cell.env == run.settings.get("env.name", cell.env) else f"{cell.env}-{cell.task}"
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in f"{task}-t{cell.temperature:g}")


def outcomes(path: Path) -> list[str]:
    """How the episodes of a file ended, in order."""
    return [line.outcome for line in _read(path)]


def _read(path: Path) -> list[Line]:
    return _decoder.decode_lines(path.read_bytes()) if path.exists() else []
