"""Steps of which the metrics are lost: what can be read off their episodes stands in for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from envs.utils.files import write_whole
from records.metrics import plain, read_metrics
from records.resume import RlFolder
from rollouts.episode import Episode
from rollouts.store import read_episodes


def fill_in(folder: Path, last: int, reward: str) -> str:
    """Give every step up to ``last`` a line; in words, which steps have lost what. "" where none has."""
    rl = RlFolder(folder)
    there = {line["step"]: line for line in read_metrics(rl.metrics)}
    lost = [step for step in range(1, last + 1) if step not in there]
    read_off = {step: _read_off(rl.step_episodes(step), step, reward) for step in lost}
    made = {step: line for step, line in read_off.items() if line}
    if made:
        lines = dict(sorted({**there, **made}.items()))
        write_whole(rl.metrics, "".join(json.dumps(line) + "\n" for line in lines.values()))
    listed = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
    return f"of step {listed} {'only ' if made else 'not even '}what its episodes tell is left" if lost else ""


def _read_off(path: Path, step: int, reward: str) -> dict[str, object]:
    from records.step_metrics import step_metrics  # scipy: not before it is needed

    groups = _groups(list(read_episodes(path))) if path.exists() else []
    return {"step": step, **plain(step_metrics(groups, reward))} if groups else {}


def _groups(episodes: Sequence[Episode]) -> list[list[Episode]]:
    """A record has a prompt's samples one after the other, in order of their numbers."""
    groups: list[list[Episode]] = []
    for episode in episodes:
        if not groups or episode.sample <= groups[-1][-1].sample:
            groups.append([])
        groups[-1].append(episode)
    return groups
