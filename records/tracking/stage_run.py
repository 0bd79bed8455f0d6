"""What trackers are told about one stage of a run. It travels to the stage's process in that stage's config file, and
never through environment variables, which would leak from one run into the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from records.provenance import first_started, last_attempt
from records.run_folder import trains_rl

TRACKERS = ("tensorboard", "wandb", "trackio")  # those of verl's loggers that we drive ourselves
SHOWN_NODES = ("env", "algo", "turn_reward", "budget", "model")
TAG_LETTERS, ID_LETTERS = 64, 80  # W&B refuses longer tags; ids stand in its addresses and folders


@dataclass(frozen=True)
class StageRun:
    """One stage (sft, rl, evaluation) of one run, as trackers show it; W&B shows all stages as one run.

    Attributes:
        folder: the run folder, which holds ``config.yaml``.
        name: what the user calls the run; the same for each of its stages.
        group: the sweep or multirun; else the run's stages are a group of their own.
        id: the same after a kill or a requeue; another after ``fresh=true``.
        tags: env, algorithm, reward, budget, model, curriculum, commit (10 hex), then the user's.
        trackers: which of ``TRACKERS``.
        offline: W&B without network.
        verl_names: what verl reports, under its own names too.
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
    verl_names: bool = False

    @classmethod
    def of(cls, config: DictConfig, folder: Path, stage: str) -> StageRun:
        tracking = config.tracking
        return cls(
            folder=str(folder),
            stage=stage,
            project=str(config.trainer.project_name),
            name=_name(config) or folder.name,
            group=str(tracking.get("group") or folder.name),
            id=f"{folder.name[-ID_LETTERS:]}-{first_started(folder)}",
            tags=_tags(config, folder),
            trackers=[name for name in config.trainer.logger if name in TRACKERS],
            offline=bool(tracking.get("offline", False)),
            verl_names=bool(tracking.get("verl_names", False)),
        )

    @classmethod
    def from_node(cls, node: Any) -> StageRun:
        """From a config file, where it lies as a mapping."""
        fields: Any = OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
        return cls(**fields)

    def node(self) -> dict[str, Any]:
        return asdict(self)

    def config(self) -> dict[str, Any]:
        """The run's whole resolved config, and with what it was started: commit, packages, folder."""
        composed: Any = OmegaConf.to_container(OmegaConf.load(Path(self.folder) / "config.yaml"))
        attempt = last_attempt(Path(self.folder))
        return _text_keys(composed) | {
            "run": {"id": self.id, "folder": Path(self.folder).name},
            "provenance": asdict(attempt) if attempt else {},
        }

    def is_logged(self) -> bool:
        """All of this stage is with its trackers. Only the evaluation asks: the other stages leave no model before."""
        return not self.trackers or (self._marker.exists() and self._marker.read_bytes() == self._mark.encode())

    def mark_logged(self) -> None:
        """After a kill before this, all is handed over again, which changes nothing."""
        self._marker.write_text(self._mark, encoding="utf-8")

    @property
    def _marker(self) -> Path:
        return Path(self.folder) / self.stage / ".tracked"

    @property
    def _mark(self) -> str:
        return json.dumps([self.id, self.trackers]) + "\n"


def _name(config: DictConfig) -> str:
    """``textworld-ppo-dense-s0`` for what a sweep calls ``algo=ppo reward=dense seed=0``: environment and algorithm (if RL trains),
    what varies beside them, the seed. A name of the user's own stays as it is; "" where there is none."""
    given = str(config.tracking.get("run_name") or "")
    words = [word.partition("=") for word in given.split(" ")]
    if not all(equals and value for _, equals, value in words):
        return given
    values = {axis: value for axis, _, value in words}
    seed = values.pop("seed", config.seed)
    varied = [value for axis, value in values.items() if axis not in ("env", "algo")]
    algo = [str(config.algo.name)] if trains_rl(config) else []
    return "-".join([str(config.env.name), *algo, *varied, f"s{seed}"])


def _tags(config: DictConfig, folder: Path) -> list[str]:
    """What a user filters by."""
    shown = [node for node in SHOWN_NODES if node != "algo" or trains_rl(config)]
    names = [OmegaConf.select(config, f"{node}.name") for node in shown]
    curriculum = OmegaConf.select(config, "curriculum.name", default="none")
    attempt = last_attempt(folder)
    commit = attempt.commit[:10] if attempt and attempt.commit else ""
    found = [*names, curriculum if curriculum != "none" else "", commit, *config.tracking.get("tags", [])]
    return list(dict.fromkeys(str(tag)[:TAG_LETTERS] for tag in found if tag))


def _text_keys(node: Any) -> Any:
    """JSON's keys are text: first step -> turns has numbers."""
    if isinstance(node, Mapping):
        return {str(key): _text_keys(value) for key, value in node.items()}
    return [_text_keys(value) for value in node] if isinstance(node, list) else node
