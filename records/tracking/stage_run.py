"""One stage of a run, as shown in trackers.

It is passed to the stage's process in the stage's config file, since environment variables would
leak from one run into the next.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.records.provenance import first_started, last_attempt
from turngrid.records.run_folder import trains_rl

TRACKERS = ("tensorboard", "wandb", "trackio")  # verl's loggers that are opened here
SHOWN_NODES = ("env", "algo", "turn_reward", "budget", "model")
TAG_LETTERS, ID_LETTERS = 64, 80  # W&B refuses longer tags; ids are in its URLs and folders


@dataclass(frozen=True)
class StageRun:
    """A stage (sft, rl, evaluation) of a run, as trackers show it; in W&B all stages are one run.

    Attributes:
        folder: the run folder, which holds ``config.yaml``.
        name: the user's name of the run, the same for each of its stages.
        group: the sweep or grid; else the folder's name.
        id: the same after a kill or a requeue; another after ``fresh=true``.
        tags: env, algorithm, reward, budget, model, curriculum, commit (10 hex), then the user's.
        trackers: which of ``TRACKERS``.
        offline: W&B without network.
    """

    folder: str
    stage: str
    project: str
    name: str
    group: str
    id: str
    tags: list[str]
    trackers: list[str]
    offline: bool = False

    @classmethod
    def of(cls, config: DictConfig, folder: Path, stage: str) -> StageRun:
        tracking = config.tracking
        return cls(
            folder=str(folder),
            stage=stage,
            project=str(config.trainer.project_name),
            name=str(tracking.get("run_name") or folder.name),
            group=str(tracking.get("group") or folder.name),
            id=f"{folder.name[-ID_LETTERS:]}-{first_started(folder)}",
            tags=_tags(config, folder),
            trackers=[name for name in config.trainer.logger if name in TRACKERS],
            offline=bool(tracking.get("offline", False)),
        )

    @classmethod
    def from_node(cls, node: Any) -> StageRun:
        """Build a stage from the mapping in a config file."""
        fields: Any = OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
        return cls(**fields)

    def node(self) -> dict[str, Any]:
        return asdict(self)

    def config(self) -> dict[str, Any]:
        """Return the run's resolved config, its id and folder, commit and packages."""
        composed: Any = OmegaConf.to_container(OmegaConf.load(Path(self.folder) / "config.yaml"))
        attempt = last_attempt(Path(self.folder))
        return json.loads(json.dumps(composed)) | {  # JSON makes text of keys that are numbers
            "run": {"id": self.id, "folder": Path(self.folder).name},
            "provenance": asdict(attempt) if attempt else {},
        }

    def is_logged(self) -> bool:
        """Return whether trackers have the evaluation; other stages need no mark."""
        return not self.trackers or (self._marker.exists() and self._marker.read_bytes() == self._mark.encode())

    def mark_logged(self) -> None:
        """Record that the trackers have every line. A kill before this repeats the logging."""
        self._marker.write_text(self._mark, encoding="utf-8")

    @property
    def _marker(self) -> Path:
        return Path(self.folder) / self.stage / ".tracked"

    @property
    def _mark(self) -> str:
        return json.dumps([self.id, self.trackers]) + "\n"


def _tags(config: DictConfig, folder: Path) -> list[str]:
    shown = [node for node in SHOWN_NODES if node != "algo" or trains_rl(config)]
    names = [OmegaConf.select(config, f"{node}.name") for node in shown]
    curriculum = OmegaConf.select(config, "curriculum.name", default="none")
    attempt = last_attempt(folder)
    commit = attempt.commit[:10] if attempt and attempt.commit else ""
    tags = [*names, curriculum if curriculum != "none" else "", commit, *config.tracking.get("tags", [])]
    return list(dict.fromkeys(str(tag)[:TAG_LETTERS] for tag in tags if tag))
