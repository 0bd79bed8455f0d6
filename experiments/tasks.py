"""Which games a run plays, written down once: training, demonstrations, validation and test."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from omegaconf import DictConfig

from envs.catalogue import Catalogue
from envs.registry import world
from envs.types import TaskRef
from experiments.budget import Plan
from experiments.mixed_games import list_games
from experiments.mixture import task_weights

SKIPPED = Path("tasks") / "skipped.json"


def prepare_tasks(config: DictConfig, plan: Plan, folder: Path, avoid: Iterable[str] = ()) -> None:
    """Make (or find) the games of each split that the plan needs and list them in ``folder/tasks/SPLIT.jsonl``; what was
    skipped on the way is in ``folder/tasks/skipped.json``, counted by reason. No split but ``test`` gets a
    game whose fingerprint is in ``avoid``."""
    catalogue = Catalogue(world(config.env.name, config.env), cache_dir(config))
    counts = {
        "demonstrations": plan.demonstrations if config.demos.source == "walkthrough" else 0,
        "train": plan.games,
        "test": config.eval.games,
    }
    wanted = {split: count for split, count in counts.items() if count}
    listings = list_games(catalogue, task_weights(config.env), wanted, config.turn_reward.name, avoid)
    for split, listing in listings.items():
        write_tasks(task_file(folder, split), listing.tasks)
    skipped = {split: Counter(reason for _, reason in listing.rejected) for split, listing in listings.items()}
    (folder / SKIPPED).write_text(json.dumps(skipped, indent=2) + "\n", encoding="utf-8")


def skipped_games(folder: Path) -> dict[str, dict[str, int]]:
    """By split, how many seeds or files were no game, by reason."""
    return json.loads((folder / SKIPPED).read_text(encoding="utf-8"))


def cache_dir(config: DictConfig) -> Path | None:
    return Path(config.env.cache_dir).expanduser() if config.env.get("cache_dir") else None


def task_file(folder: Path, split: str) -> Path:
    return folder / "tasks" / f"{split}.jsonl"


def write_tasks(path: Path, tasks: Iterable[TaskRef]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text("".join(json.dumps(task.to_dict()) + "\n" for task in tasks), encoding="utf-8")
    draft.replace(path)


def read_tasks(path: Path) -> Sequence[TaskRef]:
    return [TaskRef.from_dict(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
