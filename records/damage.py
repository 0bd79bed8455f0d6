"""Damaged parts of a run folder move to ``discarded/``; the stages then make them again.

RL resumes from the newest whole checkpoint before the first damaged step. A finished run is not
checked.
"""

from __future__ import annotations

import json
from pathlib import Path

from turngrid.records.files import checkpoints
from turngrid.records.files.json_lines import broken_line, count_lines
from turngrid.records.files.manifest import MANIFEST, flaw_in, seal
from turngrid.records.metrics import read_metrics
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.resume import RlFolder

DISCARDED = "discarded"
# Files that a stage makes again, and records that no stage resumes from; the latter may be empty.
FILLED = (
    "*.json",
    "ledger.jsonl",
    "tasks/**/*.jsonl",
    "episodes/demonstrations.jsonl",
    "evaluation/**/*.jsonl",
    *(f"rl/{name}/*.jsonl" for name in ("credit", "replayed", "groups")),
)
MAYBE_EMPTY = (
    "episodes/*.json*",
    *(f"rl/{name}/**/*.jsonl" for name in ("episodes", "validation", "stale", "discarded")),
)


def discard(folder: Path, path: Path) -> Path:
    """Move a file or folder of a run to the run's ``discarded/``; return its new path."""
    targets = (folder / DISCARDED / f"{number:03d}" / path.relative_to(folder) for number in range(1000))
    target = next(target for target in targets if not target.exists())
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    return target


def discard_damaged(folder: Path) -> list[str]:
    """Discard the damaged parts of an unfinished run; return a line for each part.

    Raises:
        Refusal: a step's record is damaged and no checkpoint before that step is left.
    """
    result = folder / "result.json"
    if result.exists() and not _wrong(result):
        return []
    return _sft(folder) + _checkpoints(folder) + discard_files(folder)


def discard_files(folder: Path) -> list[str]:
    """Discard damaged files that a stage makes again; return a line for each."""
    empty = {path for pattern in FILLED for path in folder.glob(pattern) if not path.stat().st_size}
    paths = {path for pattern in (*FILLED, *MAYBE_EMPTY) for path in folder.glob(pattern)}
    wrong = {path: "is empty" if path in empty else _wrong(path) for path in sorted(paths) if path.name[0] != "."}
    return [f"{path.relative_to(folder)} {words}{_moved(folder, path)}" for path, words in wrong.items() if words]


def _wrong(path: Path) -> str:
    """Return a file's damage, in words that follow its name; "" if it is whole."""
    if path.suffix != ".json":
        number = broken_line(path)
        return f"is broken in line {number}" if number else ""
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return "cannot be read"
    return ""


def _moved(folder: Path, path: Path) -> str:
    return f"; moved to {discard(folder, path).relative_to(folder)}"


def _sft(folder: Path) -> list[str]:
    model = folder / "sft" / "model"
    flaw = flaw_in(model, content=True) if model.exists() else None
    if flaw is None:
        return []
    return [f"{flaw.path.relative_to(folder)} {flaw.wrong}; SFT is done again{_moved(folder, folder / 'sft')}"]


def _checkpoints(folder: Path) -> list[str]:
    """Discard checkpoints that RL cannot resume from; the newest one that is kept is sealed."""
    rl = RlFolder(folder)
    root = rl.checkpoints
    newest = checkpoints.newest(root, content=True)
    wrong = {step: f"{flaw.path.relative_to(folder)} {flaw.wrong}" for step, flaw in newest.flaws}
    if record := _damaged_record(rl, newest.step):
        newest = checkpoints.newest(root, content=True, before=record[0])
        if not newest.step:
            raise Refusal(f"{folder}: {record[1]}, and no checkpoint before step {record[0]} is left; use fresh=true")
        wrong = {step: wrong.get(step, record[1]) for step in checkpoints.steps(root) if step > newest.step}
    then = f"RL goes on from step {newest.step}" if newest.step else "RL begins again"
    lines = [f"{why}; {then}{_moved(folder, checkpoints.folder_of(root, step))}" for step, why in wrong.items()]
    if newest.step and not (checkpoints.folder_of(root, newest.step) / MANIFEST).exists():
        seal(checkpoints.folder_of(root, newest.step))
    return lines


def _damaged_record(rl: RlFolder, last: int) -> tuple[int, str] | None:
    """Return the first step up to ``last`` with damaged metrics or episodes, and the damage."""
    metrics = {line["step"]: line for line in read_metrics(rl.metrics)}
    for step in range(1, last + 1):
        if step not in metrics:
            return step, f"rl/metrics.jsonl lacks step {step}"
        file, wanted = rl.step_episodes(step), int(metrics[step].get("rollout/episodes") or 0)
        whole, lines = count_lines(file)
        if whole < max(wanted, lines):
            return step, f"{file.relative_to(rl.root.parent)} has {whole} of {wanted} whole episodes"
    return None
