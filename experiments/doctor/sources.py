"""Metrics of a run folder, or of a file of verl, TensorBoard or Weights & Biases, under our names.

Only the metrics that rules read are kept in memory: a file may have gigabytes. Lines that cannot be
read are skipped and counted.
"""

import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from typing import Any

from omegaconf import OmegaConf

from turngrid.algorithms.chosen import algorithm
from turngrid.envs.extensions import CONF
from turngrid.experiments.evaluation.result import state
from turngrid.records.health.alarms import Curves, limits_of
from turngrid.records.metrics import family_name, in_families
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import ATTEMPTS
from turngrid.records.resume import RlFolder
from turngrid.records.run_folder import FAILURE, composed, read_failure

LONGEST = 2**24  # bytes of a line that is read
STEPS = ("step", "_step", "Step", "training/global_step", "verl/training/global_step", "global_step")
EVENTS = "*tfevents*"
WANDB = "*.wandb"
FORMATS = (
    "a run folder, verl's file logger (.jsonl), TensorBoard's event files, an offline file of Weights & Biases "
    "(.wandb), or a .csv with verl's names"
)
ONE_RUN = "use a CSV of one run, with one row a step"


@dataclass
class Source:
    """The metrics of one run.

    Attributes:
        skipped: what could not be read -> how often.
        rl: the files of a run of turngrid.
        sft: metrics of its SFT.
        failure: why its last attempt failed.
    """

    kind: str
    curves: Curves = field(default_factory=Curves)
    limits: Mapping[str, float] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    rl: RlFolder | None = None
    sft: Sequence[Mapping[str, Any]] = ()
    failure: str = ""


def read(path: Path) -> Source:
    """Read the metrics of a run.

    Raises:
        Refusal: nothing is there, or nothing in it can be read.
    """
    if not path.exists():
        raise Refusal(f"{path}: no such file or folder; use {FORMATS}")
    source = _of_folder(path) if path.is_dir() else _of_file(path)
    source.limits = source.limits or limits_of(OmegaConf.load(CONF / "config.yaml").health)
    if not (source.curves.steps or source.sft or source.failure):
        skipped = "".join(f"; {count} {what}" for what, count in source.skipped.items())
        raise Refusal(f"{path}: {source.kind} without a step of training{skipped}; use {FORMATS}")
    if source.curves.steps and not source.curves.columns:
        raise Refusal(f"{path}: no metric that a rule reads; use verl's names, such as actor/grad_norm")
    return source


def _of_folder(path: Path) -> Source:
    if _is_run(path):
        return _of_run(path)
    runs = [folder for folder in sorted(path.iterdir()) if _is_run(folder)]
    found = runs or sorted({file.parent for file in path.rglob(EVENTS)}) or sorted(path.rglob(WANDB))
    if len(found) > 1:
        raise Refusal(f"{path}: {len(found)} runs; use one or more of them, such as {found[0]}")
    if not found:
        raise Refusal(f"{path}: no metrics of a run; use {FORMATS}")
    if runs:
        return _of_run(found[0])
    return _of_events(found[0]) if found[0].is_dir() else _of_file(found[0])


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in (ATTEMPTS, FAILURE, "sft/metrics.jsonl", "rl/metrics.jsonl"))


def _of_file(path: Path) -> Source:
    if "tfevents" in path.name:
        return _of_events(path)
    kind, lines = KINDS.get(path.suffix, ("a file of JSON lines", _of_json))
    source = Source(kind)
    source.curves = Curves.of(lines(path, source.skipped))
    return source


def _of_run(folder: Path) -> Source:
    """Read a run of turngrid; limits are those of its config."""
    rl, config = RlFolder(folder), composed(folder)
    name = (config.get("algo") or {}).get("name")
    kind = f"a run folder ({state(folder)})" if (folder / ATTEMPTS).exists() else "a run folder"
    source = Source(kind, limits=limits_of(config.get("health") or {}), rl=rl)
    source.curves = Curves.of(_of_json(rl.metrics, source.skipped), not name or algorithm(name).needs_group)
    source.sft = list(_of_json(folder / "sft" / "metrics.jsonl", source.skipped))
    failure = read_failure(folder).splitlines()
    source.failure = "\n  ".join(line for line in failure if not line.startswith("  |"))  # no log
    return source


# ---- formats


def _of_json(path: Path, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield ours (flat) and verl's lines (``{"step": 1, "data": {...}}``); none without a file."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        for number, text in enumerate(_lines(file, skipped), 1):
            try:
                line = json.loads(text)
                metrics = line.get("data", line)
                step = line.get("step", metrics.get("training/global_step", number))
                yield {**in_families(metrics), "step": int(step)}
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
                skipped["lines that are no metrics"] += 1


def _lines(file: Any, skipped: Counter[str]) -> Iterator[bytes]:
    whole = True
    while text := file.readline(LONGEST):
        if whole and (text.endswith(b"\n") or len(text) < LONGEST):
            if text.strip():
                yield text
        elif whole:
            skipped[f"lines of more than {LONGEST >> 20} MiB"] += 1
        whole = text.endswith(b"\n")


def _of_csv(path: Path, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows in order of their steps; an empty cell is no value.

    A column may be named ``RUN - METRIC``, as Weights & Biases exports it.
    """
    csv.field_size_limit(LONGEST)
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.reader(file)
        head = [name.rpartition(" - ")[2] for name in next(rows, [])]
        step = next((name for name in STEPS if name in head), None)
        if step is None:
            raise Refusal(f"{path}: no column of steps; use a CSV whose head has one of {', '.join(STEPS)}")
        read = [name for name in map(family_name, head) if Curves().is_read(name)]
        if len({*read}) < len(read):
            raise Refusal(f"{path}: several columns of one metric; {ONE_RUN}")
        lines = sorted(_rows(rows, head, step, skipped), key=lambda line: line["step"])
    for line, later in pairwise(lines):
        if line["step"] == later["step"] and (twice := [n for n in line if n in later and line[n] != later[n]]):
            raise Refusal(f"{path}: step {line['step']} has two values of {twice[0]}; {ONE_RUN}")
    yield from lines


def _rows(rows: Iterator[list[str]], head: list[str], step: str, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    read, curves, at = [family_name(name) for name in head], Curves(), head.index(step)
    kept = [number for number, name in enumerate(read) if number != at and curves.is_read(name)]
    while True:
        try:
            row = next(rows, None)
            if row is None:
                return
            line: dict[str, Any] = {"step": int(float(row[at]))}
        except (csv.Error, ValueError, IndexError, OverflowError):
            skipped["rows that are no metrics"] += 1
            continue
        yield line | {read[number]: row[number] for number in kept if number < len(row) and row[number].strip()}


def _of_wandb(path: Path, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the logged steps of an offline run, which W&B's own command reads."""
    if (spec := find_spec("wandb")) is None or spec.origin is None:  # without one: a folder of that name
        raise Refusal(f"{path}: wandb is not installed, which reads this file; use pip install wandb")
    command = [sys.executable, "-P", "-m", "wandb", "leet", "inspect", "--json", str(path)]
    offline = {**os.environ, "WANDB_MODE": "offline"}  # else the command reports its use to W&B
    with TemporaryFile() as told, Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=told, env=offline) as process:
        for text in _lines(process.stdout, skipped):
            record = json.loads(text)
            if record["type"] == "history":
                metrics = record["history"]["item"]
                yield {**in_families(metrics), "step": metrics["_step"]}
        process.wait()
        told.seek(0)
        skipped.update(line.decode().strip() for line in told)


KINDS = {".csv": ("a CSV", _of_csv), ".wandb": ("an offline file of Weights & Biases", _of_wandb)}


def _of_events(path: Path) -> Source:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator  # a second to import
    from tensorboard.compat.tensorflow_stub.errors import DataLossError

    source, lines = Source("TensorBoard's event files"), dict[int, dict[str, Any]]()
    events = EventAccumulator(str(path), size_guidance={SCALARS: 0})
    try:
        events.Reload()
    except (DataLossError, ValueError) as error:
        source.skipped[f"damaged part: {error}"] += 1
    for tag in events.Tags()[SCALARS]:
        for event in events.Scalars(tag):
            lines.setdefault(event.step, {"step": event.step})[family_name(tag)] = event.value
    source.curves = Curves.of(lines[step] for step in sorted(lines))
    return source
