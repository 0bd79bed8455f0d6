"""Unified diffs of texts: parse, apply, make. No file is changed and no program is started."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from turngrid.envs.types import EnvError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NO_NEWLINE = "\\ No newline at end of file"


class PatchError(EnvError):
    """The text is no unified diff, or does not fit the files; the message says where."""


@dataclass(frozen=True)
class Hunk:
    """From line ``start`` on (counted from 1) the lines ``old`` become ``new``."""

    start: int
    old: list[str]
    new: list[str]


@dataclass
class FilePatch:
    """Hunks of one file; ``old`` is "" for a new file, ``new`` for a removed one."""

    old: str
    new: str
    hunks: list[Hunk] = field(default_factory=list)


def parse(patch: str) -> list[FilePatch]:
    """Return the files of a unified diff.

    Raises:
        PatchError: binary content, a hunk without a file name, or a hunk that is cut off.
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
            named = FilePatch(_name(line, "--- a/"), _name(next(lines, ""), "+++ b/"))
            if files and not files[-1].hunks and files[-1].new in (named.old, named.new):
                files.pop()  # the file's line "diff --git"
            files.append(named)
        elif match := _HUNK.match(line):
            if not files:
                raise PatchError("a hunk comes before any file name")
            files[-1].hunks.append(_hunk(match, lines))
    return files


def apply(patch: str, read: Callable[[str], str]) -> dict[str, str | None]:
    """Return each file's new text, None if removed; ``read`` gives the old text of a path.

    Raises:
        PatchError: a hunk does not fit, or a file cannot be read.
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
    """Return the changes from path -> text to path -> text as a unified diff in git's form."""
    return "".join(_diff_file(path, before.get(path), after.get(path)) for path in sorted({*before, *after}))


def _name(line: str, prefix: str) -> str:
    if line[:4] != prefix[:4]:
        raise PatchError(f"no +++ line before {line!r}")
    name = line[4:].split("\t")[0].rstrip()
    return "" if name == "/dev/null" else name.removeprefix(prefix[4:])


def _hunk(match: re.Match[str], lines: Iterator[str]) -> Hunk:
    start, old_count, new_count = match.groups()
    old: list[str] = []
    new: list[str] = []
    while len(old) < int(old_count or 1) or len(new) < int(new_count or 1):
        line = next(lines, "?") or " "  # some mailers strip the blank of an empty line
        if line[0] not in " +-\\":
            raise PatchError(f"the hunk at line {start} is cut off")
        old += [line[1:]] if line[0] in " -" else []
        new += [line[1:]] if line[0] in " +" else []
    return Hunk(int(start), old, new)


def _apply_file(change: FilePatch, text: str) -> str:
    lines, shift = text.split("\n"), 0
    for hunk in change.hunks:
        first = hunk.start + shift - bool(hunk.old)
        end = first + len(hunk.old)
        if lines[first:end] != hunk.old:
            raise PatchError(f"the hunk at line {hunk.start} of {change.old} does not fit")
        lines[first:end] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
    return "\n".join(lines)


def _diff_file(path: str, before: str | None, after: str | None) -> str:
    if before == after:
        return ""
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    lines = difflib.unified_diff(_lines(before), _lines(after), *names)
    text = "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n{text}"


def _lines(text: str | None) -> list[str]:
    """Split at newlines alone: a form feed or another separator is part of its line."""
    parts = (text or "").split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
