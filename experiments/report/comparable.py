"""Which runs of a folder can be compared: those that played the same test games in the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from envs.utils.names import file_name
from experiments.report.runs import Run, apart
from records.run_folder import outside_identity

Key = frozenset[tuple[object, ...]]
OF_TEST = ("env.", "eval.")  # keys that decide which games are played, and how
DIGITS = 8


@dataclass(frozen=True)
class Groups:
    """``runs``: name of a group -> its runs. ``left_out``: a line for each run that is in none."""

    runs: dict[str, list[Run]]
    left_out: tuple[str, ...] = ()


def comparable(runs: Sequence[Run]) -> Groups:
    """Runs without a result belong to the group of a finished run with the same environment and evaluation.

    A run that no other can be compared with is left out, unless there is no other kind.
    """
    keys = {_settings(run): _key(run) for run in runs if run.result}
    placed = apart([run for run in runs if _settings(run) in keys], lambda run: keys[_settings(run)])
    several = {key: group for key, group in placed.items() if len(group) > 1} or placed
    alone = [run for key, group in placed.items() if key not in several for run in group]
    left_out = [f"{run.name}: no other run played its test games" for run in alone]
    left_out += [
        f"{run.name}: {run.state}, and no run like it is finished" for run in runs if _settings(run) not in keys
    ]
    if not placed:
        return Groups({"": list(runs)})
    names = _names([next(run for run in group if run.result) for group in several.values()])
    return Groups(dict(zip(names, several.values(), strict=True)), tuple(left_out))


def _key(run: Run) -> Key:
    return frozenset(
        (one.env, one.task, one.games_hash, one.samples_per_game, one.temperature, one.max_turns)
        for one in run.evaluations
    )


def _settings(run: Run) -> str:
    outside = outside_identity()
    return repr(sorted(item for item in run.settings.items() if item[0].startswith(OF_TEST) and item[0] not in outside))


def _names(runs: Sequence[Run]) -> list[str]:
    """As short as tells the groups apart, given a finished run of each: ``textworld-w2-o3-q4``."""
    parts = [_parts(run) for run in runs]
    shown = next(n for n in range(2, len(parts[0]) + 1) if len({part[:n] for part in parts}) == len(parts))
    return [file_name("-".join(part[:shown]), also="+") for part in parts]


def _parts(run: Run) -> tuple[str, ...]:
    first = run.evaluations[0]
    tasks = "+".join(dict.fromkeys(task for _, task in run.evaluation_sets))
    digits = hashlib.sha256(repr(sorted(_key(run), key=repr)).encode()).hexdigest()[:DIGITS]
    return (first.env, tasks, f"{first.max_turns}_turns", f"{first.games}_games", f"t{first.temperature:g}", digits)
