"""What a run has spent, read off what lies in its folder: nothing is charged that left no episode behind.

Charged: demonstrations and RL episodes of steps that count (design: up to the last checkpoint after a kill). Listed and
never charged: replayed turns, the prior (another run's model that this one starts from), the run that demonstrations were taken from,
SFT passes, retries, dropped groups, groups that were too old to be trained on, discarded steps, validation, evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from records.ledger_entries import FILE, Entry, of_episodes, read_ledger
from records.metrics import read_metrics
from records.models.locate import local_folder, run_of
from records.resume import RlFolder
from records.stages import stage_ended, stage_seconds
from rollouts.episode import Episode
from rollouts.store import read_episodes
from tasks import demonstrations, early_experience, rejection

TOLD = ("games", "tokens")  # running totals in the metrics


def ledger(config: DictConfig, folder: Path) -> list[Entry]:
    """Every entry in the order in which it was spent."""
    made = [_priors(config), _demonstrations(config, folder), _alternatives(config, folder), _sft(config, folder)]
    played = [_training(config, RlFolder(folder)), _never_charged(config, folder)]
    return [entry for entries in (*made, *played) for entry in entries]


# ---- other runs


def _priors(config: DictConfig) -> Iterator[Entry]:
    """What the runs that this one builds on have spent, each with its own priors."""
    if run := run_of(str(config.model.path)):
        yield _other("prior", run, _reached(run, str(config.model.path)))
    if OmegaConf.select(config, "demos.source") == "episodes":
        run = rejection.source(config)
        yield _other("demonstration_source", run, _own(run))


def _other(kind: str, run: Path, entries: list[Entry]) -> Entry:
    """One line for another run: its charge is not ours."""
    kept = [entry for entry in entries if entry.units or entry.kind in ("prior", "demonstration_source")]
    return Entry(
        kind,
        0,
        sum(entry.count for entry in kept),
        0.0,
        sum(entry.tokens for entry in kept),
        sum(entry.episode_seconds for entry in kept),
        games=sum(entry.games for entry in kept),
        uncharged=sum(entry.units + entry.uncharged for entry in kept),
        note=f"not charged: {run}",
    )


def _own(run: Path) -> list[Entry]:
    if (run / FILE).exists():
        with suppress(ValueError, TypeError):  # a damaged one is made anew, here alone: that run is not ours
            return read_ledger(run / FILE)
    config = OmegaConf.load(run / "config.yaml")
    assert isinstance(config, DictConfig)
    return ledger(config, run)


def _reached(run: Path, path: str) -> list[Entry]:
    """What the run had spent when it made this model: all of it, or what came before an earlier checkpoint."""
    folder = local_folder(path)
    assert folder is not None
    inside = folder.relative_to(run).parts
    steps = [int(part.removeprefix("global_step_")) for part in inside if part.startswith("global_step_")]
    last = steps[0] if steps else 0 if inside[:1] == ("sft",) else None
    return [entry for entry in _own(run) if last is None or entry.kind != "rl_episode" or entry.step <= last]


# ---- this run


def _demonstrations(config: DictConfig, folder: Path) -> Iterator[Entry]:
    path = demonstrations.episodes_file(folder)
    if path.exists():
        episodes = list(read_episodes(path))
        units = len(episodes) * config.budget.demo_cost
        yield of_episodes("demonstration", 0, episodes, units, **_clocks(folder, "demonstrations"))


def _alternatives(config: DictConfig, folder: Path) -> Iterator[Entry]:
    """What the model did at the demonstrations' states: a fixed price a demonstration, however many of its actions differed."""
    path = early_experience.alternatives_file(folder)
    if path.exists():
        units = len(list(read_episodes(demonstrations.episodes_file(folder)))) * config.budget.experience_cost
        yield of_episodes("alternative", 0, list(read_episodes(path)), units, **_clocks(folder, "experience"))


def _sft(config: DictConfig, folder: Path) -> Iterator[Entry]:
    """SFT reads each of its rows once an epoch; what it costs is the demonstrations, so it is charged nothing."""
    path, more = demonstrations.episodes_file(folder), early_experience.rows_file(folder)
    if (folder / "sft" / "model").exists() and path.exists():
        epochs = int(config.model.sft.epochs)
        read = early_experience.passes(early_experience.kind_of(config), epochs)
        files = ((path, read.demonstrations), (more, read.others))
        rows = [(episode, times) for file, times in files if file.exists() for episode in read_episodes(file)]
        tokens = sum(times * len(turn.action_ids) for episode, times in rows for turn in episode.turns)
        count = sum(times for _, times in rows)
        yield Entry("sft", 0, count, 0.0, tokens, 0.0, **_clocks(folder, "sft"), note=f"{epochs} epochs")


def _clocks(folder: Path, stage: str) -> dict[str, Any]:
    return {"wall_seconds": stage_seconds(folder).get(stage), "ended": stage_ended(folder).get(stage)}


def _training(config: DictConfig, rl: RlFolder) -> Iterator[Entry]:
    known: set[str] = set()
    lines = {line["step"]: line for line in read_metrics(rl.metrics)}
    files = {int(path.stem): path for path in rl.episodes.glob("*.jsonl")}
    cost = config.budget.episode_cost
    for step in sorted({*files, *(step for step, line in lines.items() if line.get("rollout/episodes"))}):
        path, line = files.get(step), lines.get(step, {})
        episodes = list(read_episodes(path)) if path else []
        new = {episode.task for episode in episodes} - known
        known |= new
        entry = of_episodes("rl_episode", step, episodes, 0.0, games=len(new), wall_seconds=line.get("timing/step"))
        entry = replace(_as_told(entry, lines), ended=path.stat().st_mtime if path else None)
        charged = entry.games if config.budget.count == "games" else entry.count
        yield replace(entry, units=float(charged * cost))
        yield from _replayed(step, episodes)
        yield from _lost(step, sum(episode.retries for episode in episodes), line, config)


def _replayed(step: int, episodes: Sequence[Episode]) -> Iterator[Entry]:
    """Turns that a rollout form put before the policy's own: tokens that were read, not sampled."""
    begun = [episode for episode in episodes if episode.prefix]
    if begun:
        tokens = sum(episode.prefix_tokens for episode in begun)
        yield Entry("replayed_prefix", step, len(begun), 0.0, tokens, 0.0, note="not charged: part of the prompt")


def _as_told(entry: Entry, lines: Mapping[int, Mapping[str, Any]]) -> Entry:
    """A step whose record has lost episodes is charged by what its metrics counted when it had them all."""
    now, before = lines.get(entry.step, {}), lines.get(entry.step - 1, {})
    if entry.count >= int(now.get("rollout/episodes") or 0):
        return entry
    told = {name: int((now.get(f"budget/{name}") or 0) - (before.get(f"budget/{name}") or 0)) for name in TOLD}
    counted = {"count": int(now["rollout/episodes"]), **{name: max(told[name], getattr(entry, name)) for name in TOLD}}
    return replace(entry, **counted, note="part of its record is lost: as the metrics count it")


def _lost(step: int, retries: int, line: dict[str, Any], config: DictConfig) -> Iterator[Entry]:
    """Play that the environment spoilt."""
    dropped = int(line.get("rollout/failed_groups") or 0) * int(config.actor_rollout_ref.rollout.n)
    for kind, count in (("retry", retries), ("dropped_group", dropped)):
        if count:
            yield Entry(kind, step, count, 0.0, 0, 0.0, uncharged=count * float(config.budget.episode_cost))


def _never_charged(config: DictConfig, folder: Path) -> Iterator[Entry]:
    """One line a checkpoint for what an asynchronous trainer dropped before it, an attempt for what was killed beyond its last
    checkpoint, a validation, an evaluation's file."""
    rl, root = RlFolder(folder), folder / "evaluation"
    for place in sorted({file.parent for file in rl.stale.glob("*/*.jsonl")}):
        files = sorted(place.glob("*.jsonl"))
        yield from _uncharged(config, "stale", files, int(place.name), note="too old to be trained on")
    for attempt in sorted(rl.discarded.glob("*")):
        files = sorted(file for kind in ("episodes", "validation") for file in (attempt / kind).rglob("*.jsonl"))
        yield from _uncharged(config, "discarded", files, note="beyond the last checkpoint")
    for path in sorted(rl.validation.glob("*.jsonl")):
        yield from _uncharged(config, "validation", [path], int(path.stem))
    for path in sorted(root.rglob("*.jsonl")):
        yield from _uncharged(config, f"evaluation/{path.relative_to(root).with_suffix('').as_posix()}", [path], 0)


def _uncharged(
    config: DictConfig, kind: str, files: Sequence[Path], step: int | None = None, note: str = ""
) -> Iterator[Entry]:
    """A line for the episodes in ``files``; ``step``: None is the first of theirs, and then no episode has no line."""
    episodes = [episode for file in files for episode in read_episodes(file)]
    if episodes or step is not None:
        first = min(episode.step for episode in episodes) if step is None else step
        cost = len(episodes) * float(config.budget.episode_cost)
        ended = max(file.stat().st_mtime for file in files)
        yield of_episodes(kind, first, episodes, 0.0, uncharged=cost, ended=ended, note=note)
