"""Who starts runs (``cluster.launcher``): this process, SLURM's jobs, or several processes on this machine at once.

Whoever it is, each run is the front door again in a process of its own, with that run's overrides.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf

from config import machine
from config.errors import ConfigError
from config.overrides import parse, quoted, search_paths

HERE, SLURM, PARALLEL = "here", "slurm", "local_parallel"
LAUNCHED = "TURNGRID_LAUNCHED"  # in the environment of a run that a launcher has started: it computes where it is
NAME = "turngrid"
STARTED = time.strftime("%Y-%m-%d_%H-%M-%S")  # names what this process launches without a sweep or a grid
WATCHED = ("tracking.group", "tracking.run_name")  # told to the trackers, and no part of what a run is

failures: list[str] = []  # a line for each run of this launch that did not end well


@dataclass(frozen=True)
class Run:
    """One run of a launch. ``number`` counts from 1; ``label`` is what a person tells it from the others by."""

    number: int
    overrides: tuple[str, ...]
    label: str

    @property
    def what(self) -> list[str]:
        """Its overrides without what only trackers are told."""
        return [text for text in self.overrides if _key(text) not in WATCHED]


def runs_of(job_overrides: Sequence[Sequence[str]], first: int, group: str) -> list[Run]:
    """The runs that Hydra asks for; ``group`` is their group in the trackers unless they have one."""
    shared = set.intersection(*map(set, job_overrides)) if len(job_overrides) > 1 else set()
    runs = []
    for number, overrides in enumerate(job_overrides, first + 1):
        name = " ".join(_own(overrides, shared)) if len(job_overrides) > 1 else ""
        told = watched(overrides, group, name)
        runs.append(Run(number, (*overrides, *told), label(overrides, shared)))
    return runs


def watched(overrides: Sequence[str], group: str, name: str) -> list[str]:
    """What trackers are told of a run in whose overrides it does not stand: its group, and in a grid what it differs by."""
    told = zip(WATCHED, (group, name), strict=True)
    own = [_key(text) for text in overrides]
    return [f"{key}={_literal(value)}" for key, value in told if value and key not in own]


def _literal(text: str) -> str:
    """A value that stands for itself, where it has quotes or the signs of an interpolation too."""
    return quoted(text.replace("${", r"\${"))


def _key(override: str) -> str:
    return override.lstrip("+~").split("=")[0]


def label(overrides: Sequence[str], shared: Iterable[str] = ()) -> str:
    """Its name in the sweep, or the overrides that not all runs have."""
    named = [override.value() for override in parse(overrides) if override.key_or_group == "tracking.run_name"]
    return str(named[-1]) if named else shlex.join(_own(overrides, shared))


def _own(overrides: Sequence[str], shared: Iterable[str]) -> Sequence[str]:
    """Those that tell it from the others; all of them where none does."""
    return [text for text in overrides if text not in shared and _key(text) not in WATCHED] or overrides


def command(run: Run, config_dir: str | None = None) -> list[str]:
    """``-P``: modules of the folder that we are in must not stand in for ours."""
    place = ["--config-dir", config_dir] if config_dir else []
    return [sys.executable, "-P", "-m", "train", *place, *run.overrides]


def elsewhere(config: DictConfig) -> bool:
    """Whether a run of this config is to be started by a launcher and has not been yet; plans are made here."""
    return config.cluster.launcher != HERE and not _planned(config) and LAUNCHED not in os.environ


def _planned(config: DictConfig) -> bool:
    return bool(config.estimate or config.estimate_gpu)


def hydra_arguments(config: DictConfig, args: argparse.Namespace) -> list[str]:
    """What makes Hydra launch the runs as ``config`` says; nothing where the command line names a launcher itself.

    Raises:
        ConfigError: no such launcher, or this machine cannot launch so; nothing has been started.
    """
    name = config.cluster.launcher
    if any(text.lstrip("+").startswith("hydra/launcher=") for text in args.overrides):
        return []
    if name == HERE:
        if not _planned(config):
            machine.check(config)  # each run would refuse it, one after the other
        return []
    if paths := search_paths(args.overrides):
        raise ConfigError(
            f"{paths[0]}: runs of cluster={config.cluster.name} find options of your own by --config-dir FOLDER"
        )
    if name == SLURM and (shutil.which("sbatch") is None or shutil.which("srun") is None):
        raise ConfigError(
            f"cluster={config.cluster.name} submits jobs and this machine has no sbatch: start it on a login node"
        )
    node = launcher_settings(config, args)
    ConfigStore.instance().store(group="hydra/launcher", name=NAME, node=node, provider=NAME)
    return [f"hydra/launcher={NAME}"]


def launcher_settings(config: DictConfig, args: argparse.Namespace) -> dict[str, object]:
    """What our launcher is made with. Raises: ConfigError: it could not launch."""
    name = config.cluster.launcher
    node = slurm_settings(config) if name == SLURM else _parallel(config)
    folder = str(Path(config.output_dir).expanduser().absolute() / name)
    return {**node, "folder": folder, "config_dir": str(Path(args.config_dir).absolute()) if args.config_dir else None}


def _parallel(config: DictConfig) -> dict[str, object]:
    at_once = config.cluster.runs_at_once
    machine.check_gpus(config)
    from hydra_plugins.turngrid_parallel import ParallelLauncher

    Plugins.instance().register(ParallelLauncher)
    launch = "train.launch.parallel.Launch"
    return {"_target_": _target(ParallelLauncher), "launch": launch, "places": _places(config, at_once)}


def _places(config: DictConfig, at_once: int | None) -> list[str | None]:
    """``CUDA_VISIBLE_DEVICES`` of each run that goes at the same time as others; None: as it is."""
    there = machine.gpus() if config.trainer.device == "cuda" else None
    if not there:
        return [None] * (at_once or max(2, len(os.sched_getaffinity(0)) // 2))
    each = int(config.trainer.n_gpus_per_node)
    names = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(there)))).split(",")
    groups = [",".join(names[start : start + each]) for start in range(0, there - each + 1, each)]
    return list(groups[: at_once or len(groups)])


def slurm_settings(config: DictConfig) -> dict[str, object]:
    """What our launcher for SLURM is made with. Raises: ConfigError: it could not work, whatever SLURM says."""
    _check_slurm(config)
    from hydra_plugins._turngrid_slurm import SlurmLauncher, keys

    Plugins.instance().register(SlurmLauncher)
    settings = OmegaConf.to_container(config.cluster.slurm, resolve=True)
    assert isinstance(settings, dict)
    return (
        keys()
        | {str(key): value for key, value in settings.items()}
        | {"_target_": _target(SlurmLauncher), "launch": "train.launch.slurm.launch", "name": NAME}
    )


def _target(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _check_slurm(config: DictConfig) -> None:
    """Raises: ConfigError."""
    slurm, name = config.cluster.slurm, config.cluster.name
    for module in ("submitit", "hydra_plugins.hydra_submitit_launcher"):
        if find_spec(module) is None:
            raise ConfigError(f"cluster={name} needs hydra-submitit-launcher: pip install 'turngrid[slurm]'")
    if slurm.signal_delay_s >= 60 * slurm.timeout_min:
        raise ConfigError(
            f"cluster.slurm.signal_delay_s={slurm.signal_delay_s} (seconds) must be less than "
            f"cluster.slurm.timeout_min={slurm.timeout_min} (minutes)"
        )
    if slurm.nodes > 1 and config.trainer.device == "cpu":
        raise ConfigError(
            f"cluster={name} computes on one node and cluster.slurm.nodes={slurm.nodes}: cluster=slurm_multinode"
        )
    if not isinstance(slurm.additional_parameters or {}, Mapping):
        raise ConfigError("cluster.slurm.additional_parameters: options of sbatch, as in {mail-type: FAIL}")
