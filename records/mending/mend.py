"""What damage did to a run folder is found before a run goes on in it: named in a line each, set aside, and what can be is kept.

Every stage then finds files that are whole or not there, and does what it does after a kill. A run that is finished is not
touched: what is damaged is named, and the result stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from envs.utils.files import write_whole
from records.files import checkpoints, inventory
from records.files.damage import keep_instead, set_aside
from records.files.json_lines import read_lines
from records.files.manifest import Flaw, flaw_in, is_small, seal, size_is_wrong
from records.mending.lost_steps import fill_in
from records.mending.run_parts import Length, Part, part_of
from records.resume import RlFolder

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # forty times as fast, where PyYAML has libyaml
PNG_BEGIN, PNG_END = b"\x89PNG\r\n", b"IEND\xaeB`\x82"
METRICS = "rl/metrics.jsonl"
BY_STEP = re.compile(r"rl/(?:episodes|credit|replayed|validation)/(\d+)[./]")


def mend(folder: Path, reward: str) -> list[str]:
    """Make ``folder`` fit to go on in; returns a line for every damaged file. ``reward``: the one that is trained on."""
    if not any(inventory.files(folder)):
        return []
    lines: list[str] = []
    known = _known(folder, lines)
    if (folder / "result.json").exists() and not _wrong(folder / "result.json", "result.json", None):
        return lines + [f"{flaw}; the run is finished and its result stands" for flaw in _found(folder, known)]
    lines += _sft(folder, known)
    step = _go_on_from(folder, lines)
    for name in _names(folder, known):
        if wrong := _wrong(folder / name, name, _size(name, known, step)):
            lines.append(_mended(folder, name, wrong, step, reward))
        else:
            _end_last_line(folder / name, name)
    if not any(line.startswith(METRICS) for line in lines):
        words = fill_in(folder, step, reward) if step else ""  # steps that it lacks although it looks whole
        lines += [f"{METRICS} lacks lines; {words}"] if words else []
    return lines


def mend_evaluation(folder: Path) -> list[str]:
    """In an evaluation without a run: what it played, to which policies can be added at any time."""
    names = [path.relative_to(folder).as_posix() for path in sorted((folder / "evaluation").rglob("*.jsonl"))]
    found = {name: _wrong(folder / name, name, None) for name in names}
    return [_mended(folder, name, wrong, 0, "") for name, wrong in found.items() if wrong]


# ---- what is wrong


def _known(folder: Path, lines: list[str]) -> Mapping[str, int]:
    try:
        return inventory.read(folder)
    except FileNotFoundError:
        lines.append(f"{inventory.FILE} is missing; it is written again")
    except ValueError:
        aside = set_aside(folder / inventory.FILE)
        lines.append(f"{inventory.FILE} cannot be read; it is written again{_kept(aside)}")
    return {}


def _found(folder: Path, known: Mapping[str, int]) -> Iterator[str]:
    """In a finished run, by size alone where files are large."""
    root, imitated = RlFolder(folder).checkpoints, folder / "sft" / "model"
    saved = checkpoints.newest(root, content=is_small(root))
    models = [flaw for _, flaw in saved.flaws]
    if imitated.parent.exists() and (flaw := flaw_in(imitated, content=is_small(imitated))):
        models.append(flaw)
    yield from (f"{flaw.path.relative_to(folder)} {flaw.wrong}" for flaw in models)
    for name in _names(folder, known):
        if wrong := _wrong(folder / name, name, known.get(name)):
            yield f"{name} {wrong}"
    if checkpoints.said(root) != (str(saved.step) if saved.step else None) and not saved.flaws:
        yield f"rl/checkpoints/{checkpoints.TRACKER} does not name step {saved.step}"


def _names(folder: Path, known: Mapping[str, int]) -> list[str]:
    """Of files that are there or should be. What an unfinished SFT left is not asked for: it begins again."""
    there = {path.relative_to(folder).as_posix() for path in inventory.files(folder)}
    names = sorted(there | known.keys())
    imitated = (folder / "sft" / "model").exists()
    return [name for name in names if part_of(name) and (imitated or not name.startswith("sft/"))]


def _size(name: str, known: Mapping[str, int], step: int) -> int | None:
    """What the inventory says, but for the files of steps beyond the checkpoint, which are played again."""
    of_step = BY_STEP.match(name)
    return None if of_step and int(of_step[1]) > step else known.get(name)


def _wrong(path: Path, name: str, size: int | None) -> str:
    """In words that follow its name; "" where nothing is. ``size``: in bytes, as the inventory has it."""
    part = part_of(name)
    assert part is not None
    if not path.exists():
        return "is missing" if size is not None else ""
    words = size_is_wrong(path, size) if size is not None and part.length is not Length.ANY else ""
    if words and (part.length is Length.SAME or path.stat().st_size < (size or 0)):
        return words
    return _reads_wrong(path, part, size)


def _reads_wrong(path: Path, part: Part, size: int | None) -> str:
    if not path.stat().st_size:
        return "" if part.may_be_empty and not size else "is empty"
    if part.line is None:
        return "" if _opens(path) else "cannot be read"
    lines = read_lines(path, part.line)
    killed = part.keeps and part.length is Length.GROWS and lines.torn_by_a_kill(size)
    return lines.wrong or ("is broken in its last line" if lines.torn and not killed else "")


def _opens(path: Path) -> bool:
    data = path.read_bytes()
    if path.suffix == ".png":
        return data.startswith(PNG_BEGIN) and data.rstrip().endswith(PNG_END)
    try:
        if path.suffix == ".json":
            return isinstance(json.loads(data), dict)
        kinds = [type(event) for event in yaml.parse(data, Loader=LOADER)]  # a fifth of the time that a mapping takes
        return kinds[2] is yaml.MappingStartEvent
    except (yaml.YAMLError, ValueError):
        return False


# ---- what is done about it


def _mended(folder: Path, name: str, wrong: str, step: int, reward: str) -> str:
    """The line that says so; the metrics have one of their own, which says which steps they lost."""
    path, part = folder / name, part_of(name)
    assert part is not None
    lines = read_lines(path, part.line) if part.keeps else None
    if not path.exists():
        aside = None
    elif lines and lines.whole:
        aside = keep_instead(path, lines.text())
        _keep_credit(path, list(lines.whole))
    else:
        aside = set_aside(path)
    stay = f"{len(lines.whole)} whole lines stay" if lines and lines.whole else ""
    then = fill_in(folder, step, reward) if name == METRICS else part.then
    return "; ".join(filter(None, (f"{name} {wrong}", stay, then))) + _kept(aside)


def _keep_credit(episodes: Path, numbers: list[int]) -> None:
    """Credit has a line an episode: it loses those that the episodes lost."""
    credit = episodes.parent.parent / "credit" / episodes.name
    if episodes.parent.name == "episodes" and credit.exists():
        lines = credit.read_bytes().split(b"\n")
        write_whole(credit, b"".join(lines[number - 1] + b"\n" for number in numbers if number < len(lines)))


def _end_last_line(path: Path, name: str) -> None:
    """What a kill cut short is dropped, so that nothing is appended to it."""
    part = part_of(name)
    if part and part.keeps and part.length is Length.GROWS and (lines := read_lines(path, part.line)).torn:
        write_whole(path, lines.text())


def _sft(folder: Path, known: Mapping[str, int]) -> list[str]:
    model = folder / "sft" / "model"
    if not model.exists():
        return ["sft/model is missing; SFT is done again"] if "sft/model/manifest.json" in known else []
    flaw = flaw_in(model, content=True)
    if flaw is None:
        return []
    name = flaw.path.relative_to(folder)
    if flaw.unsealed:
        return [f"{name} {flaw.wrong}; the model's files can be read, and it stands{_sealed_anew(flaw)}"]
    return [f"{name} {flaw.wrong}; SFT is done again{_kept(set_aside(folder / 'sft'))}"]


def _go_on_from(folder: Path, lines: list[str]) -> int:
    """The step of the newest whole checkpoint, now also where verl looks for it; newer ones are set aside."""
    root = RlFolder(folder).checkpoints
    if not root.exists():
        return 0
    found = checkpoints.newest(root, content=True)
    then = f"RL goes on from step {found.step}" if found.step else "RL begins again"
    for step, flaw in found.flaws:
        name, place = flaw.path.relative_to(folder), checkpoints.folder_of(root, step)
        if flaw.unsealed:
            lines.append(f"{name} {flaw.wrong}; the checkpoint's files can be read, and {then}{_sealed_anew(flaw)}")
        else:
            lines.append(f"{name} {flaw.wrong}; {then}{_kept(set_aside(place))}")
    lines += _hint(root, found, then)
    return found.step


def _hint(root: Path, found: checkpoints.Newest, then: str) -> list[str]:
    """verl's file, which says where verl goes on from."""
    said, explained = checkpoints.said(root), {str(step) for step, _ in found.flaws}
    if said == str(found.step) or (said is None and not found.step):
        return []
    path, lines = root / checkpoints.TRACKER, []
    if said not in explained:
        aside = set_aside(path) if path.exists() else None
        wrong = "is missing" if said is None else f"says {said!r}" if said else "is empty"
        lines = [f"rl/checkpoints/{path.name} {wrong}; {then} by the checkpoints that are whole{_kept(aside)}"]
    checkpoints.say_newest(root, found.step)
    return lines


def _sealed_anew(flaw: Flaw) -> str:
    aside = set_aside(flaw.path) if flaw.path.exists() else None
    seal(flaw.path.parent)
    return _kept(aside)


def _kept(aside: Path | None) -> str:
    return f"; kept as {aside.name}" if aside else ""
