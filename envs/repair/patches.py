"""Unified diffs: read, apply to texts, and made from them. No file is touched and no program is started."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\ No newline at end of file"


class PatchError(ValueError):
    """The text is no unified diff, or it does not fit the files; the message says where."""


@dataclass
class Hunk:
    """``start`` is the first old line, counted from 1; ``lines`` begin with a blank, ``-`` or ``+``."""

    start: int
    lines: list[str] = field(default_factory=list)

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[:1] in (" ", "-")]

    @property
    def new(self) -> list[str]:
        return [line[1:] for line in self.lines if line[:1] in (" ", "+")]


@dataclass
class FilePatch:
    """``old`` is "" for a new file, ``new`` for one that is removed."""

    old: str
    new: str
    hunks: list[Hunk] = field(default_factory=list)


def parse(patch: str) -> list[FilePatch]:
    """The files of a unified diff, git's or diff's.

    Raises:
        PatchError: binary content, or lines that belong nowhere.
    """
    files: list[FilePatch] = []
    lines = iter(patch.split("\n"))
    for line in lines:
        if line.startswith(("GIT binary patch", "Binary files ")):
            raise PatchError("the patch has binary content")
        if line.startswith("diff --git "):
            old, _, new = line.removeprefix("diff --git a/").partition(" b/")
            files.append(FilePatch(old, new))
        elif line.startswith("--- "):
            _take_names(files, line, next(lines, ""))
        elif match := _HUNK.match(line):
            if not files:
                raise PatchError("a hunk comes before any file name")
            files[-1].hunks.append(_hunk(match, lines))
    return files


def apply(patch: str, read: Callable[[str], str]) -> dict[str, str | None]:
    """What each file of ``patch`` becomes; None for one that is removed. ``read`` gives a file's text now.

    A hunk may have moved: it is put where its old lines are found nearest to where it says.

    Raises:
        PatchError: a hunk fits nowhere, or a file cannot be read.
    """
    result: dict[str, str | None] = {}
    for change in parse(patch):
        try:
            text = read(change.old) if change.old else ""
        except (KeyError, OSError, UnicodeDecodeError) as error:
            raise PatchError(f"the patch changes {change.old}, which is not there") from error
        if change.old and change.old != change.new:
            result[change.old] = None
        if change.new:
            result[change.new] = _apply_file(change, text)
    return result


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """A unified diff in git's form from path -> text to path -> text."""
    parts = [_diff_file(path, before.get(path), after.get(path)) for path in sorted({*before, *after})]
    return "".join(parts)


def _take_names(files: list[FilePatch], old: str, new: str) -> None:
    if not new.startswith("+++ "):
        raise PatchError(f"no +++ line after {old!r}")
    names = (_name(old, "a/"), _name(new, "b/"))
    if files and not files[-1].hunks and files[-1].new in names and old.startswith(("--- a/", "--- /dev/null")):
        files[-1].old, files[-1].new = names
    else:
        files.append(FilePatch(*names))


def _name(line: str, prefix: str) -> str:
    name = line[4:].split("\t")[0].rstrip()
    return "" if name == "/dev/null" else name.removeprefix(prefix)


def _hunk(match: re.Match[str], lines: object) -> Hunk:
    start, old_count, _, new_count = match.groups()
    hunk = Hunk(int(start))
    old_left, new_left = int(old_count or 1), int(new_count or 1)
    while old_left > 0 or new_left > 0:
        line = next(lines, None)  # type: ignore[call-overload]
        if line is None or (line and line[0] not in " +-\\"):
            raise PatchError(f"the hunk at line {start} is cut off")
        if line == _NO_NEWLINE:
            continue
        line = line or " "  # some mailers strip the blank of an empty line
        old_left -= line[0] in " -"
        new_left -= line[0] in " +"
        hunk.lines.append(line)
    return hunk


def _apply_file(change: FilePatch, text: str) -> str:
    lines = text.split("\n")
    shift = 0
    for hunk in change.hunks:
        place = _find(lines, hunk.old, max(0, hunk.start - 1 + shift)) if hunk.old else max(0, hunk.start + shift)
        if place is None:
            raise PatchError(f"the hunk at line {hunk.start} of {change.old} does not fit")
        if not change.old:
            place = 0
        lines[place : place + len(hunk.old)] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
    return "\n".join(lines)


def _find(lines: list[str], wanted: list[str], near: int) -> int | None:
    places = (place for place in range(len(lines) - len(wanted) + 1) if lines[place : place + len(wanted)] == wanted)
    return min(places, key=lambda place: abs(place - near), default=None)


def _diff_file(path: str, before: str | None, after: str | None) -> str:
    if before == after:
        return ""
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    lines = difflib.unified_diff(_lines(before), _lines(after), *names)
    text = "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n{text}"


def _lines(text: str | None) -> list[str]:
    """Cut at newlines alone: a form feed or another separator is part of its line."""
    parts = (text or "").split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
