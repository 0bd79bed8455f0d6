"""The agent's commands to look and to edit: their syntax and their answers."""

import re
from collections.abc import Sequence

from turngrid.envs.functions import CommandFunction
from turngrid.envs.repair.source_rules import parsed
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.types import InvalidAction

MAX_ACTION_CHARS = 8000
FORM = (
    "Answer with one command: ls [DIR], show FILE [FROM-TO], search TEXT, replace FILE: OLD => NEW, "
    "edit FILE FROM-TO with the new lines below it, test [FILE or test id], submit."
)
FUNCTIONS = (
    CommandFunction("ls", "the entries of a folder", pattern="ls {folder}", optional=("folder",)),
    CommandFunction("show", 'a file\'s lines, such as "10-30"', pattern="show {file} {lines}", optional=("lines",)),
    CommandFunction("search", "where a text stands", pattern="search {text}"),
    CommandFunction(
        "replace",
        "change a text that stands once in a file, on one line",
        pattern="replace {file}: {old} => {new}",
    ),
    CommandFunction(
        "edit", "put text in the place of lines", pattern="edit {file} {lines}\n{text}", optional=("text",)
    ),
    CommandFunction(
        "test", "run the tests, a file of them or one by its id", pattern="test {target}", optional=("target",)
    ),
    CommandFunction("submit", "hand the repair in", pattern="submit"),
)
_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")
_EDIT = re.compile(r"(\S+)\s+(?:lines?\s+)?(\d+)(?:\s*-\s*(\d+))?:?")
_ARROW = re.compile(r"\s=>(?=\s|\Z)")
_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\U0010ffff]|[\ud800-\udfff]")
_FENCE = re.compile(r"\s*```\w*\s*")
_LINE_DIGITS = 9  # Python refuses to convert thousands of digits


def clean(action: str) -> str:
    """Remove code fences, control characters and blank lines before the command.

    Lines below the command are kept for ``edit`` only, unchanged.
    """
    text = _UNPRINTABLE.sub("", action[:MAX_ACTION_CHARS].replace("\r\n", "\n").replace("\r", "\n"))
    lines = [line for line in text.split("\n") if not _FENCE.fullmatch(line)]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return ""
    head = lines[filled[0]].strip()
    below = lines[filled[0] + 1 : filled[-1] + 1]
    return "\n".join([head, *below]) if head.split(" ", 1)[0] == "edit" else head


def ls(workspace: Workspace, argument: str) -> str:
    """List the entries of a folder, subfolders with a slash."""
    folder = "" if argument == "." else argument.rstrip("/")
    prefix = f"{folder}/" if folder else ""
    below = [path.removeprefix(prefix) for path in workspace.paths if path.startswith(prefix)]
    if not below:
        raise InvalidAction(f"There is no folder {argument}.")
    entries = {name.split("/", 1)[0] + ("/" if "/" in name else "") for name in below}
    return "\n".join(sorted(entries))


def show(workspace: Workspace, argument: str, most: int) -> str:
    """Show a file's lines with their numbers, ``most`` from the top or of the asked ones."""
    path, _, span = argument.partition(" ")
    match = _RANGE.fullmatch(span.replace("lines", "").strip()) if span.strip() else None
    if span.strip() and not match:
        raise InvalidAction("show takes a file and line numbers, such as show a.py 10-30.")
    first = _line(match[1]) if match else 1
    last = _line(match[2] or match[1]) if match else first + most - 1
    return window(path, lines_of(read(workspace, path)), first, min(last, first + most - 1))


def window(path: str, lines: Sequence[str], first: int, last: int) -> str:
    """Return lines ``first`` to ``last`` (from 1) with their numbers, below path and range."""
    first, last = max(1, first), min(last, len(lines))
    if first > last:
        raise InvalidAction(f"{path} has {len(lines)} lines.")
    shown = "\n".join(f"{number}| {lines[number - 1]}" for number in range(first, last + 1))
    return f"{path}, lines {first}-{last} of {len(lines)}:\n{shown}"


def search(workspace: Workspace, argument: str, most: int) -> str:
    wanted = argument.strip("\"'") or argument
    if not wanted:
        raise InvalidAction("search takes a text to look for.")
    hits = []
    for path in workspace.paths:
        try:
            lines = lines_of(workspace.text(path))
        except UnicodeDecodeError:
            continue
        hits += [f"{path}:{n}: {line.strip()[:120]}" for n, line in enumerate(lines, 1) if wanted in line]
        if len(hits) > most:
            return "\n".join([*hits[:most], "... and more"])
    return "\n".join(hits) or f"{wanted} is nowhere."


def replace(workspace: Workspace, argument: str) -> str:
    path, old, new = _parts(argument)
    text = read(workspace, path)
    if (times := text.count(old)) != 1:
        raise InvalidAction(f"{old} stands {times} times in {path}; it must be there once.")
    line = text[: text.index(old)].count("\n") + 1
    return _changed(workspace, path, text.replace(old, new), line, line)


def _parts(argument: str) -> tuple[str, str, str]:
    """Split FILE: OLD => NEW, without one pattern, which takes minutes over a line of spaces."""
    file, *rest = argument.split(None, 1) or [""]
    arrow = _ARROW.search(rest[0]) if rest else None
    if len(file) < 2 or not file.endswith(":") or not arrow:
        raise InvalidAction("replace takes FILE: OLD => NEW, on one line.")
    return file[:-1], rest[0][: arrow.start()].rstrip(), rest[0][arrow.end() + 1 :]


def edit(workspace: Workspace, argument: str, body: Sequence[str]) -> str:
    """Run ``edit FILE FROM-TO``: replace these lines with ``body``.

    If TO is FROM - 1, insert ``body`` before FROM. A new file begins with 1-0.

    Raises:
        InvalidAction: no such file or lines, or the change is refused.
    """
    match = _EDIT.fullmatch(argument)
    if not match:
        raise InvalidAction("edit takes a file and line numbers, such as edit a.py 10-12, then the new lines below it.")
    path, first, last = match[1], _line(match[2]), _line(match[3] or match[2])
    is_new = path not in workspace.paths
    lines = [] if is_new else lines_of(read(workspace, path))
    if is_new and (first, last) != (1, 0):
        raise InvalidAction(f"There is no file {path}; a new one begins with edit {path} 1-0.")
    if not 1 <= first <= len(lines) + 1 or not first - 1 <= last <= len(lines):
        raise InvalidAction(f"{path} has {len(lines)} lines; {first}-{last} is not among them.")
    changed = [*lines[: first - 1], *body, *lines[last:]]
    return _changed(workspace, path, "\n".join(changed) + "\n" * bool(changed), first, first + len(body) - 1)


def _changed(workspace: Workspace, path: str, text: str, first: int, last: int) -> str:
    try:
        refusal = workspace.write(path, text)
    except ValueError as error:
        raise InvalidAction(f"{error}.") from error
    if refusal:
        raise InvalidAction(f"{refusal.message}. Nothing was changed.", refused=refusal.reason)
    notes = []
    if workspace.instance.is_protected(path):
        notes.append("Changes to tests and their configuration do not count: they are restored before grading.")
    if path.endswith(".py") and (problem := syntax_problem(text)):
        notes.append(f"{path} is now broken: {problem}.")
    lines = lines_of(text)
    around = window(path, lines, first - 2, min(last + 2, first + 20)) if lines else f"{path} is empty now."
    return "\n".join(["Edited.", *notes, around])


def syntax_problem(text: str) -> str:
    """Return why Python cannot parse ``text``, or ""."""
    try:
        parsed(text)
    except SyntaxError as error:
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return type(error).__name__
    return ""


def read(workspace: Workspace, path: str) -> str:
    """Return a file's text.

    Raises:
        InvalidAction: no such text file.
    """
    if path.startswith("/") or ".." in path.split("/"):
        raise InvalidAction("Paths are those that ls shows, inside the repository.")
    try:
        return workspace.text(path)
    except KeyError:
        near = [known for known in workspace.paths if known.rsplit("/", 1)[-1] == path.rsplit("/", 1)[-1]]
        hint = f" There is {near[0]}." if near else ""
        raise InvalidAction(f"There is no file {path or 'without a name'}.{hint}") from None
    except UnicodeDecodeError:
        raise InvalidAction(f"{path} is not a text file.") from None


def _line(digits: str) -> int:
    """Return a line's number; one of too many digits is cut, and is still past any end."""
    return int(digits.lstrip("0")[:_LINE_DIGITS] or "0")


def lines_of(text: str) -> list[str]:
    """Split into lines; a newline at the end begins no further line."""
    return text.removesuffix("\n").split("\n") if text else []


def cut(text: str, lines: int, chars: int) -> str:
    kept = "\n".join(text.split("\n")[: lines + 4])
    if len(kept) > chars:
        kept = kept[:chars].rsplit("\n", 1)[0] if "\n" in kept[:chars] else kept[:chars]
    return kept if len(kept) == len(text) else f"{kept}\n... (cut)"
