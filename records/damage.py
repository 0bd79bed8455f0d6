"""Damaged parts of a run folder move to ``discarded/``; the stages then make them again.

RL resumes from the newest whole checkpoint before the damage. A finished run is not checked.
"""

import json
from pathlib import Path

from turngrid.envs.utils.files import first_free
from turngrid.records.files.checkpoints import flaw_at, flaw_in, folder_of, is_sealed, newest, seal, steps
from turngrid.records.files.json_lines import read_lines, whole_lines
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.resume import RlFolder

DISCARDED = "discarded"
# Patterns of files that are damaged if they are empty, and of records that may be empty.
FILLED = (
    *("*.json", "ledger.jsonl", "tasks/**/*.jsonl", "episodes/demonstrations.jsonl", "evaluation/**/*.jsonl"),
    *("rl/credit/*.jsonl", "rl/replayed/*.jsonl", "rl/groups/*.jsonl"),
)
RECORDS = ("episodes/*.json*", "rl/*/**/*.jsonl")


def discard(folder: Path, path: Path) -> Path:
    """Move a file or folder of a run to the run's ``discarded/``; return its new path."""
    target = first_free(lambda number: folder / DISCARDED / number / path.relative_to(folder))
    target.parent.mkdir(parents=True, exist_ok=True)
    return path.rename(target)


def discard_damaged(folder: Path) -> list[str]:
    """Discard the damaged parts of an unfinished run; return a line for each part.

    Raises:
        Refusal: a step's record is damaged and no checkpoint before that step is left.
    """
    result, model = folder / "result.json", folder / "sft" / "model"
    if result.exists() and not _wrong(result):
        return []
    flaw = flaw_in(model) if model.exists() else ""
    lines = [f"sft/model/{flaw}; SFT is done again{_moved(folder, folder / 'sft')}"] if flaw else []
    return lines + _checkpoints(folder) + discard_files(folder)


def discard_files(folder: Path) -> list[str]:
    """Discard damaged files of stages and damaged records; return a line for each."""
    filled, records = ({path for one in patterns for path in folder.glob(one)} for patterns in (FILLED, RECORDS))
    wrong = {path: _wrong(path, path in filled) for path in sorted(filled | records) if path.name[0] != "."}
    return [f"{path.relative_to(folder)} {words}{_moved(folder, path)}" for path, words in wrong.items() if words]


def _wrong(path: Path, filled: bool = True) -> str:
    """Return a file's damage, in words that follow its name; "" if it is whole."""
    if filled and not path.stat().st_size:
        return "is empty"
    if path.suffix != ".json":
        whole = whole_lines(path)
        return "" if all(whole) else f"is broken in line {whole.index(False) + 1}"
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return "cannot be read"
    return ""


def _moved(folder: Path, path: Path) -> str:
    return f"; moved to {discard(folder, path).relative_to(folder)}"


def _checkpoints(folder: Path) -> list[str]:
    """Discard checkpoints that RL cannot resume from; the newest one that is kept is sealed."""
    rl, root = RlFolder(folder), RlFolder(folder).checkpoints
    last, damage = newest(root, content=True), ""
    if record := _damaged_record(rl, last):
        before, damage = record
        last = newest(root, content=True, before=before)
        if not last:
            raise Refusal(f"{folder}: {damage}, and no checkpoint before step {before} is left; use fresh=true")
    then, lines = f"RL goes on from step {last}" if last else "RL begins again", []
    for step in (step for step in steps(root) if step > last):
        saved = folder_of(root, step)
        why = damage or f"rl/checkpoints/{saved.name}/{flaw_at(root, step, content=True)}"
        lines.append(f"{why}; {then}{_moved(folder, saved)}")
    if last and not is_sealed(folder_of(root, last)):
        seal(folder_of(root, last))
    return lines


def _damaged_record(rl: RlFolder, last: int) -> tuple[int, str] | None:
    """Return the first step up to ``last`` with damaged metrics or episodes, and the damage."""
    metrics = {line["step"]: line for line in read_lines(rl.metrics)}
    for step in range(1, last + 1):
        if step not in metrics:
            return step, f"rl/metrics.jsonl lacks step {step}"
        file, wanted = rl.step_episodes(step), int(metrics[step].get("rollout/episodes") or 0)
        whole = whole_lines(file)
        wanted = max(wanted, len(whole))
        if sum(whole) < wanted:
            return step, f"{file.relative_to(rl.root.parent)} has {sum(whole)} of {wanted} whole episodes"
    return None
