"""The budget spent by a run, read from its folder; docs/budget.md lists what is charged.

An episode that was not recorded is not charged.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.records.files.json_lines import read_lines
from turngrid.records.models.locate import local_folder, run_of
from turngrid.records.stages import stage_ended, stage_seconds
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.store import read_episodes
from turngrid.tasks import demonstrations, early_experience
from turngrid.tasks.run import Run
from turngrid.tasks.schema import Budget

FILE = "ledger.jsonl"
SUMMED = ("count", "games", "units", "uncharged", "tokens", "episode_seconds", "wall_seconds")  # by kind


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    kind: str  # ``demonstration``, ``rl_episode``, ``evaluation/rl``,
    step: int  # training step; 0 outside RL
    count: int  # number of episodes
    units: float  # their charge in budget units
    tokens: int  # sampled or imitated tokens
    episode_seconds: float  # seconds spent in policy and environment, summed over parallel episodes
    games: int = 0  # distinct games that no earlier line of this kind has
    uncharged: float = 0.0  # cost in units of uncharged episodes
    wall_seconds: float | None = None  # elapsed seconds; None if unknown
    ended: float | None = None  # end in Unix seconds; None if unknown
    note: str = ""  # the run or the model


def of_episodes(kind: str, step: int, episodes: list[Episode], units: float, **more: Any) -> Entry:
    turns = [turn for episode in episodes for turn in episode.own_turns]
    tokens, seconds = sum(len(turn.action_ids) for turn in turns), sum(t.act_seconds + t.env_seconds for t in turns)
    games = len({episode.task for episode in episodes})
    return Entry(kind, step, len(episodes), float(units), tokens, seconds, **{"games": games, **more})


def read_ledger(path: Path) -> list[Entry]:
    return [Entry(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def spent(budget: Budget, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the sums by both ways of counting, whichever of them is charged."""
    demonstrated = sum(entry.units for entry in entries if entry.kind in ("demonstration", "alternative"))
    rl = [entry for entry in entries if entry.kind == "rl_episode"]
    cost = float(budget.episode_cost)
    kinds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry in entries:
        for name in SUMMED:
            kinds[entry.kind][name] += getattr(entry, name) or 0.0
    return {
        "count": budget.count,
        "units": sum(entry.units for entry in entries),
        "units_by_games": demonstrated + sum(entry.games for entry in rl) * cost,
        "units_by_rollouts": demonstrated + sum(entry.count for entry in rl) * cost,
        "kinds": {kind: {name: round(value, 3) for name, value in sums.items()} for kind, sums in kinds.items()},
    }


def ledger(run: Run) -> list[Entry]:
    """Return the run's ledger entries in the order of spending."""
    parts = (_priors, _demonstrations, _sft, _training, _never_charged)
    return [entry for part in parts for entry in part(run)]


def _priors(run: Run) -> Iterator[Entry]:
    """Return the entries of the runs that this one builds on, each with its own priors."""
    model = str(run.model.path)
    if folder := run_of(model):
        yield _other("prior", folder, _reached(folder, model))
    if run.demos.source == "episodes" and (folder := run_of(str(run.demos.run))):
        yield _other("demonstration_source", folder, _own(folder))


def _other(kind: str, run: Path, entries: list[Entry]) -> Entry:
    """Sum another run's entries into one line, which is not charged here."""
    kept = [entry for entry in entries if entry.units or entry.kind in ("prior", "demonstration_source")]
    names = ("count", "tokens", "episode_seconds", "games")
    sums = {name: sum(getattr(entry, name) for entry in kept) for name in names}
    uncharged = sum(entry.units + entry.uncharged for entry in kept)
    return Entry(kind, 0, units=0.0, uncharged=uncharged, note=f"not charged: {run}", **sums)


def _own(folder: Path) -> list[Entry]:
    if (folder / FILE).exists():
        with suppress(ValueError, TypeError):  # recompute a damaged ledger, but leave another run's folder unchanged
            return read_ledger(folder / FILE)
    return ledger(Run.read(folder))


def _reached(run: Path, path: str) -> list[Entry]:
    """Return the entries of ``run`` up to the point at which it saved the model ``path``."""
    folder = local_folder(path)
    assert folder is not None
    inside = folder.relative_to(run).parts
    steps = [int(part.removeprefix("global_step_")) for part in inside if part.startswith("global_step_")]
    last = steps[0] if steps else 0 if inside[:1] == ("sft",) else None
    return [entry for entry in _own(run) if last is None or entry.kind != "rl_episode" or entry.step <= last]


def _demonstrations(run: Run) -> Iterator[Entry]:
    """Charge demonstrations, and their alternatives at a fixed price for each demonstration."""
    path, others = demonstrations.episodes_file(run.folder), early_experience.alternatives_file(run.folder)
    episodes, budget = list(read_episodes(path)) if path.exists() else [], run.budget
    if path.exists():
        units = len(episodes) * budget.demo_cost
        yield of_episodes("demonstration", 0, episodes, units, **_clocks(run, "demonstrations"))
    if others.exists():
        units = len(episodes) * budget.experience_cost
        yield of_episodes("alternative", 0, list(read_episodes(others)), units, **_clocks(run, "experience"))


def _sft(run: Run) -> Iterator[Entry]:
    """Count the rows that SFT reads, which cost nothing: demonstrations are charged already."""
    path, more = demonstrations.episodes_file(run.folder), early_experience.rows_file(run.folder)
    if (run.folder / "sft" / "model").exists() and path.exists():
        epochs = int(run.model.sft.epochs)
        ahead = run.demos.experience == early_experience.WORLD_MODEL  # predictions in the first epoch
        files = ((path, epochs - 1), (more, 1)) if ahead else ((path, epochs), (more, epochs))
        rows = [(episode, times) for file, times in files if file.exists() for episode in read_episodes(file)]
        tokens = sum(times * len(turn.action_ids) for episode, times in rows for turn in episode.turns)
        count = sum(times for _, times in rows)
        yield Entry("sft", 0, count, 0.0, tokens, 0.0, **_clocks(run, "sft"), note=f"{epochs} epochs")


def _clocks(run: Run, stage: str) -> dict[str, Any]:
    return {"wall_seconds": stage_seconds(run.folder).get(stage), "ended": stage_ended(run.folder).get(stage)}


def _training(run: Run) -> Iterator[Entry]:
    rl, budget, samples = run.rl, run.budget, int(run.config.actor_rollout_ref.rollout.n)
    known: set[str] = set()
    lines = {line["step"]: line for line in read_lines(rl.metrics)}
    for path in sorted(rl.episodes.glob("*.jsonl")):
        step, episodes = int(path.stem), list(read_episodes(path))
        line = lines.get(step, {})
        new = {episode.task for episode in episodes} - known
        known |= new
        units = float(budget.episode_cost * len(new if budget.count == "games" else episodes))
        clocks = {"wall_seconds": line.get("timing/step"), "ended": path.stat().st_mtime}
        yield of_episodes("rl_episode", step, episodes, units, games=len(new), **clocks)
        if lost := int(line.get("rollout/failed_groups") or 0) * samples:
            cost = lost * float(budget.episode_cost)  # of groups lost to errors of the environment
            yield Entry("dropped_group", step, lost, 0.0, 0, 0.0, uncharged=cost)
        if written := read_lines(rl.library / path.name):
            tokens = sum(text["tokens"] for text in written)
            yield Entry("written", step, len(written), 0.0, tokens, 0.0, note="texts of the policy for a library")


def _never_charged(run: Run) -> Iterator[Entry]:
    """Return a line for everything that is listed and never charged.

    There is one for each checkpoint before which an asynchronous trainer dropped groups, each
    attempt that was killed beyond its last checkpoint, each validation, and each evaluation file.
    """
    rl, root = run.rl, run.folder / "evaluation"
    for step in sorted({file.parent for file in rl.stale.glob("*/*.jsonl")}):
        files = sorted(step.glob("*.jsonl"))
        yield from _uncharged(run, "stale", files, int(step.name), note="too old to be trained on")
    for attempt in sorted(rl.discarded.glob("*")):
        files = sorted(file for kind in ("episodes", "validation") for file in (attempt / kind).rglob("*.jsonl"))
        yield from _uncharged(run, "discarded", files, note="beyond the last checkpoint")
    for path in sorted(rl.validation.glob("*.jsonl")):
        yield from _uncharged(run, "validation", [path], int(path.stem))
    for path in sorted(root.rglob("*.jsonl")):
        yield from _uncharged(run, f"evaluation/{path.relative_to(root).with_suffix('').as_posix()}", [path], 0)


def _uncharged(run: Run, kind: str, files: Sequence[Path], step: int | None = None, note: str = "") -> Iterator[Entry]:
    """Return a line for the episodes in ``files``.

    If ``step`` is None, use the first episode's; return nothing if there are no episodes.
    """
    episodes = [episode for file in files for episode in read_episodes(file)]
    if episodes or step is not None:
        first = min(episode.step for episode in episodes) if step is None else step
        cost = len(episodes) * float(run.budget.episode_cost)
        ended = max(file.stat().st_mtime for file in files)
        yield of_episodes(kind, first, episodes, 0.0, uncharged=cost, ended=ended, note=note)
