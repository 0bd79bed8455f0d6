"""From what a TextWorld game prints to what the agent reads: one paragraph, no terminal junk.

The study's form: the room's name as a sentence, then the feedback without duplicates, then the inventory.
"""

from __future__ import annotations

import re

_STATUS = re.compile(r"\n?>\s*(?:-=\s*(?P<room>.+?)\s*=-)?\s*(?:-?\d+/(?P<moves>\d+))?\s*\Z")
_HEADER = re.compile(r"^-=\s*(?P<room>.+?)\s*=-$", re.MULTILINE)
_END = re.compile(r"\*\*\* .+? \*\*\*")
# Printed by the games when the score moves: shown, it would make the observations depend on the reward's density.
_SCORE = re.compile(r"Your score has just gone (?:up|down) by [^.]*\.")
_BANNER = re.compile(r"\$\$|____|^[\s|\\/$_]+$")


def room_and_moves(raw: str) -> tuple[str, int]:
    """The room's name and the number of turns played, from the trailing status line; ("", -1) where there is none."""
    status = _STATUS.search(raw)
    if not status or not status["room"]:
        return "", -1
    return status["room"].lower(), int(status["moves"] or -1)


def opening(raw: str) -> str:
    """The part of the first feedback that describes the room: banner and objective come before the room's header."""
    header = _HEADER.search(raw)
    return raw[header.start() :] if header else raw


def feedback_lines(raw: str) -> list[str]:
    """The distinct lines that answer the last command, in order."""
    text = _END.split(_STATUS.sub("", raw))[0]
    lines = (" ".join(_SCORE.sub("", line).split()) for line in _HEADER.sub("", text).splitlines())
    return list(dict.fromkeys(line for line in lines if line and not _BANNER.search(line)))


def observation_text(room: str, lines: list[str], inventory: str) -> str:
    """The paragraph that is shown."""
    parts = [f"You are now in the {room}."] if room else []
    carried = " ".join(inventory.split())
    return " ".join([*parts, *lines, *([carried] if carried and carried not in lines else [])])


def goal_text(objective: str) -> str:
    """The objective as one paragraph."""
    return " ".join(objective.split())
