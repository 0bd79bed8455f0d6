"""A run's folder: named by its settings, held by one process, with a record of every attempt.

Each stage writes its results atomically; ``result.json`` comes last and marks the run as finished.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout
from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import SLOTS
from turngrid.envs.extensions import CONF
from turngrid.envs.utils.files import first_free, write_whole
from turngrid.envs.utils.names import file_name
from turngrid.records.damage import discard_damaged
from turngrid.records.extended import copy_run
from turngrid.records.process.exit_codes import Refusal, say
from turngrid.records.provenance import ATTEMPTS, Attempt
from turngrid.rollouts.prompt_forms.registry import non_default

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # forty times as fast, if PyYAML has libyaml
WHERE_AND_HOW = ("cluster", "tracking", "health")  # groups that set where a run computes and who watches it
SERVERS = "rollout"  # all servers sample the same tokens, up to rounding and random numbers
OUTPUT_KEYS = (
    "output_dir",
    "fresh",
    "estimate",
    "estimate_gpu",
    "dry_run",
    "env.workers",
    "env.cache_dir",
    "env.step_deadline_s",
    "eval.servers",
)
WEIGHTS = "algorithm.rollout_correction.rollout_is"
BYPASS = "algorithm.rollout_correction.bypass_mode"
OLD = ".old"
FAILURE = "failure.json"
Plain = dict[str, Any]


@cache
def outside_identity() -> tuple[str, ...]:
    """Return the dotted keys that are not part of a run's identity."""
    keys = {*OUTPUT_KEYS, *WHERE_AND_HOW}
    for group in (*WHERE_AND_HOW, SERVERS):
        for file in sorted((CONF / group).glob("*.yaml")):
            keys |= {key for key, _ in flattened(OmegaConf.to_container(OmegaConf.load(file)))} - {"defaults"}
    return tuple(sorted(key for key in keys if key.split(".")[0] not in WHERE_AND_HOW or key in WHERE_AND_HOW))


def dotted(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nodes and leaves by their dotted keys."""
    for name, value in node.items():
        yield f"{prefix}{name}", value
        if isinstance(value, dict):
            yield from dotted(value, f"{prefix}{name}.")


def flattened(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves by their dotted keys; a list and an empty node are leaves."""
    return ((key, value) for key, value in dotted(node) if not isinstance(value, dict) or not value)


def identity(config: DictConfig) -> str:
    """Return 8 hex digits of a hash of ``identifying``."""
    return hashlib.sha256(json.dumps(identifying(config), sort_keys=True, default=str).encode()).hexdigest()[:8]


def identifying(config: DictConfig) -> Plain:
    """Return the resolved config without the keys outside the identity.

    A null key counts as missing. Methods of a slot count in order, even if they have no settings.
    """
    whole: Any = OmegaConf.to_container(OmegaConf.create(_blanked(config)), resolve=True)
    whole["prompt"] = non_default(whole.get("prompt"))  # default settings of a prompt form are not in a run's name
    settings = _without_nulls(whole)
    for slot in SLOTS:
        chosen, known = list(whole.get(slot) or {}), settings.get(slot, {})
        if len(chosen) > 1 or [*known] != chosen:
            settings[slot] = [[name, known.get(name)] for name in chosen]
    return settings


def _blanked(config: DictConfig) -> Plain:
    """Return the config with null for every key outside the identity."""
    whole: Any = OmegaConf.to_container(config)
    for key in outside_identity():
        _put(whole, key, None)
    if OmegaConf.select(config, "health.name") == "rollback":  # it changes what is learned
        whole["health"] = OmegaConf.to_container(config.health)
    for key, value in _correction(config).items():
        _put(whole, key, value)
    if whole.get("precision") == "auto":  # it follows from the model and the machine
        whole["precision"] = None
    if whole.get("extend"):
        whole["extend"] = Path(whole["extend"]).name  # the folder may move
    return whole


def _correction(config: DictConfig) -> Plain:
    """Return what is typed of two keys whose defaults depend on the cluster; null for a default.

    A typed value counts also if it is the cluster's default, but for ``bypass_mode=false`` where
    it is false anyway. Asynchronous modes set ``bypass_mode`` themselves.
    """
    node = OmegaConf.select(config, "algorithm.rollout_correction")
    if node is None or config.trainer.v1.trainer_mode != "sync":
        return {BYPASS: None}
    typed = {key: node[key] for key in node if not OmegaConf.is_interpolation(node, key)}
    bypass, false_anyway = typed.get("bypass_mode"), config.trainer.device == "cuda" or typed.get("rollout_is")
    counts = {BYPASS: None if bypass is False and (false_anyway or typed.get("rollout_rs")) else bypass}
    return {**counts, WEIGHTS: "none"} if typed.get("rollout_is", "") is None else counts


def _put(node: Plain, key: str, value: Any) -> None:
    """Set a dotted key; missing nodes are made."""
    *above, last = key.split(".")
    for name in above:
        if not isinstance(node.get(name), dict):
            node[name] = {}
        node = node[name]
    node[last] = value


def _without_nulls(node: Any) -> Any:
    """Drop nulls and empty nodes, except in ``kwargs``, which is passed on verbatim."""
    if not isinstance(node, dict):
        return node
    kept = {key: value if key == "kwargs" else _without_nulls(value) for key, value in node.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def run_name(config: DictConfig) -> str:
    """Return ``<env>-<task>-<algo>-<reward>-<budget>-<model>-s<seed>-<8 hex>``.

    A curriculum comes after the task. A run without RL has no algorithm in its name.
    """
    return f"{run_stem(config)}-{identity(config)}"


def run_stem(config: DictConfig) -> str:
    """Return a run's name without the hash."""
    return file_name("-".join([*name_parts(config).values(), f"s{config.seed}"]), also="+")


def name_parts(config: DictConfig) -> dict[str, str]:
    """Return the words of a run's name by key, without seed and hash."""
    algorithm = ["algo.name"] if trains_rl(config) else []
    keys = ["env.name", "env.task", "curriculum.name", *algorithm, "turn_reward.name", "budget.name", "model.name"]
    parts = {key: str(OmegaConf.select(config, key, default="none")) for key in keys}
    return {key: word for key, word in parts.items() if (key, word) != ("curriculum.name", "none")}


def trains_rl(config: DictConfig) -> bool:
    """Return whether the budget leaves anything to RL."""
    return OmegaConf.select(config, "budget.sft_share", default=0) != 1


def begun_folder(config: DictConfig) -> Path:
    """Return the folder of the run that this one resumes or extends, which may not exist."""
    return Path(config.extend or Path(config.output_dir) / run_name(config)).expanduser()


@contextmanager
def open_run(config: DictConfig, root: Path, overrides: Sequence[str] = ()) -> Iterator[Path]:
    """Make the run's folder, yield its path and hold it until the block ends.

    With ``config.fresh`` an earlier run of that name is moved to ``root/.old/``. With
    ``config.extend`` a new folder begins as a copy of that run. Damaged parts are discarded.

    Raises:
        Refusal: another process holds the folder or the run to extend, no folder can be made there,
            or it is damaged and cannot be resumed.
    """
    path = (root / run_name(config)).absolute()
    if config.fresh:
        put_aside(path)
    if config.get("extend") and not path.exists():
        _begin_extension(config, path)
    with held(path):
        for note in (*discard_damaged(path), *Attempt.now(overrides).record(path / ATTEMPTS)):
            say(f"note: {note}")
        write_whole(path / "config.yaml", OmegaConf.to_yaml(config, resolve=True))
        (path / FAILURE).unlink(missing_ok=True)
        try:
            yield path
        except Exception as error:
            record = {"message": str(error) or type(error).__name__, "ended": time.time()}
            write_whole(path / FAILURE, json.dumps(record) + "\n")
            raise


def _begin_extension(config: DictConfig, path: Path) -> None:
    """Copy the extended run to ``path``, unless another process has done so."""
    source = Path(config.extend).expanduser().absolute()
    with held(source, ".lock.extending", waits=True), held(source):  # extensions wait for each other
        if not path.exists():
            same_evaluation = composed(source).get("eval") == OmegaConf.to_container(config.eval, resolve=True)
            step = copy_run(source, path, same_evaluation)
            say(f"note: this run goes on from step {step} of {source.name}, which stays as it is")


def read_failure(path: Path) -> str:
    """Return the message of a failed last attempt, else ""."""
    file = path / FAILURE
    try:
        return str(json.loads(file.read_bytes())["message"]) if file.exists() else ""
    except ValueError:
        return f"{FAILURE} cannot be read"


@contextmanager
def held(path: Path, name: str = ".lock", waits: bool = False) -> Iterator[None]:
    """Make a folder and hold it until the block ends or the process is killed.

    Raises:
        Refusal: another process holds it and this one does not wait, or it cannot be made.
    """
    lock = FileLock(path / name)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        if not waits:
            raise Refusal(f"{path}: another process is at work there; wait for its end") from error
        say(f"note: waiting for another process at {path}")
        lock.acquire()
    except OSError as error:  # such as a full disk
        raise Refusal(f"output_dir={path.parent}: no run folder can be made there ({error.strerror})") from error
    try:
        yield
    finally:
        lock.release()


def composed(run: Path) -> dict[str, Any]:
    """Return the run's recorded config, {} without one; Refusal if it is not YAML."""
    config = run / "config.yaml"
    try:
        whole = yaml.load(config.read_text(encoding="utf-8"), Loader=LOADER) if config.exists() else None
    except yaml.YAMLError as error:
        raise Refusal(f"{config} is not YAML; the run's command writes it anew") from error
    return whole if isinstance(whole, dict) else {}


def put_aside(path: Path) -> None:
    """Move a run, if it exists, to ``.old/`` beside it; raise Refusal if it is held."""
    if not path.exists():
        return
    with held(path):
        old = path.parent / OLD
        old.mkdir(exist_ok=True)
        path.rename(first_free(lambda number: old / f"{path.name}.{number}"))
