"""From a reference repair to the commands that make it: the expert's walkthrough."""

from __future__ import annotations

import difflib

from envs.repair import patches
from envs.repair.commands import clean, lines_of
from envs.repair.workspace import Workspace

_AROUND = 5
_MAX_LINES = 30


def plan(workspace: Workspace) -> tuple[str, ...]:
    """Look at each place, edit it, submit; () where the instance has no reference patch, or one that cannot be made
    with these commands (a file removed, an edit that is too long).

    Raises:
        PatchError: the patch does not fit the repository.
    """
    instance = workspace.instance
    changed = patches.apply(instance.patch, workspace.base_text)
    counted = {path: text for path, text in changed.items() if not instance.is_protected(path)}
    if not counted or any(text is None for text in counted.values()):
        return ()
    commands = [command for path, text in sorted(counted.items()) for command in _file(workspace, path, text or "")]
    makeable = all(clean(command) == command for command in commands)
    return (*commands, "submit") if commands and makeable else ()


def _file(workspace: Workspace, path: str, text: str) -> list[str]:
    """Edits of one file, from its end to its start, so that the line numbers of the next one stay right."""
    is_new = path not in workspace.paths
    before, after = [] if is_new else lines_of(workspace.base_text(path)), lines_of(text)
    commands = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, stop, new_start, new_stop in reversed(matcher.get_opcodes()):
        if kind == "equal":
            continue
        if not is_new:
            first, last = max(1, start + 1 - _AROUND), min(len(before), stop + _AROUND)
            commands.append(f"show {path} {first}-{min(last, first + _MAX_LINES)}")
        commands.append("\n".join([f"edit {path} {start + 1}-{stop}", *after[new_start:new_stop]]))
    return commands
