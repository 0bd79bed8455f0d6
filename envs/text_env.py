"""The agent's side of every text environment: clean actions in, score changes and outcomes out."""

from __future__ import annotations

import abc
import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from envs.printable import printable
from envs.types import EnvError, Observation, StepResult, TaskRef

MAX_ACTION_CHARS = 120
NOT_ALLOWED = "That command is not allowed here."

# Control characters, backslashes, and the general punctuation of print (curly quotes, dashes, ...).
_NO_WORDS = re.compile(r"[\x00-\x1f\x7f-\xbf\\\u2000-\u206f]")


def sanitise(action: str, limit: int = MAX_ACTION_CHARS) -> str:
    """The first line of ``action`` that says something, in printable ASCII, at most ``limit`` characters.

    A newline would send a second command and desynchronise everything after it; a backslash is an escape for the
    interpreters; words of other alphabets are left out whole, since a piece of one may be a command ("n").

    >>> sanitise("  open   box\\nquit")
    'open box'
    >>> sanitise("\\u201copen \\u00fcn\\u00ef box\\u201d")
    'open box'
    """
    first = next((line for line in action[: limit * 100].splitlines() if line.strip()), "")
    words = (word for word in _NO_WORDS.sub(" ", first).split() if word.isascii())
    return " ".join(words)[:limit].rstrip()


def accepted_file(task: TaskRef, digest: Callable[[Path], str] | None = None) -> Path:
    """The task's game file; ``digest`` where its environment hashes more than that file.

    Raises:
        EnvError: it is missing, or not the one that was accepted.
    """
    file = Path(task.game_file)
    found = (digest(file) if digest else hashlib.sha256(file.read_bytes()).hexdigest()) if file.is_file() else ""
    if found != task.sha256:
        raise EnvError(f"{task.key}: the game file {file} is missing or is not the one that was accepted")
    return file


def _printable(seen: Observation) -> Observation:
    """The one place through which an environment's words leave it, for prompts, terminals, records and pages."""
    return replace(seen, text=printable(seen.text), goal=printable(seen.goal), legal=tuple(map(printable, seen.legal)))


@dataclass(frozen=True)
class RawStep:
    """What an environment reports: ``score`` is cumulative, in the game's own points."""

    observation: Observation
    score: float
    won: bool = False
    lost: bool = False
    terminated: bool = False
    truncated: bool = False
    valid: bool = True
    info: dict[str, Any] = field(default_factory=dict)


class TextEnv(abc.ABC):
    """One game at a time; ``reset`` may be called again and again, with the same task or another.

    A subclass implements ``_reset`` and ``_step`` and names its ``banned_verbs``: commands that talk to the program
    rather than to the environment (quit, save, ...). They are answered here and never reach the game.
    """

    banned_verbs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._score = 0.0
        self._playing = False

    def reset(self, task: TaskRef, seed: int) -> Observation:
        """Start an episode. ``seed`` fixes whatever the environment itself draws while it is played."""
        self._playing = False
        observation = _printable(self._reset(task, seed))
        self._score, self._playing = 0.0, True
        return observation

    def step(self, action: str) -> StepResult:
        """Play one action, whatever text it is.

        Raises:
            EnvError: no episode is open (none was started, or the last one has ended), or the environment failed.
        """
        if not self._playing:
            raise EnvError("no episode is open: reset first")
        command = self.clean(action)
        if self.refuses(command):
            return self._refused(parsed=bool(command))
        return self._outcome(self._step(command))

    def finish(self) -> StepResult:
        """Grade the open episode as it stands, because it was cut off; it is over. Only environments that say
        ``grades_unfinished`` know how.

        Raises:
            EnvError: no episode is open, or the environment failed.
        """
        if not self._playing:
            raise EnvError("no episode is open: reset first")
        result = self._outcome(self._finish())
        self._playing = False
        return result

    def _outcome(self, raw: RawStep) -> StepResult:
        if not math.isfinite(raw.score):
            raise EnvError(f"{type(self).__name__} gave the score {raw.score}, which is no finite number")
        delta, self._score = float(raw.score) - self._score, float(raw.score)
        flags = raw.won, raw.lost, raw.terminated, raw.truncated, raw.valid
        won, lost, ended, cut, valid = map(bool, flags)  # games of other packages have numpy's
        over = won or lost or ended
        self._playing = not (over or cut)
        return StepResult(_printable(raw.observation), delta, won, lost and not won, over, cut, valid, raw.info)

    def clean(self, action: str) -> str:
        """The command that the environment will see; an environment narrows this to its own grammar."""
        return sanitise(action)

    def refuses(self, command: str) -> bool:
        """True for nothing at all, and for the verbs that would end, rewind or reconfigure the program."""
        verb = command.split(" ", 1)[0].lower().strip("\"'.,;:!?")
        return not verb or verb in self.banned_verbs

    def _refused(self, parsed: bool) -> StepResult:
        shown = _printable(self._observe(NOT_ALLOWED))
        return StepResult(
            shown, 0.0, won=False, lost=False, terminated=False, truncated=False, valid=False, parsed=parsed
        )

    def _observe(self, message: str) -> Observation:
        """What is shown when the environment itself was not asked; environments add the state that they always show."""
        return Observation(text=message)

    @abc.abstractmethod
    def _reset(self, task: TaskRef, seed: int) -> Observation: ...

    @abc.abstractmethod
    def _step(self, command: str) -> RawStep: ...

    def _finish(self) -> RawStep:
        raise NotImplementedError(f"{type(self).__name__} does not grade unfinished episodes")

    def saved(self) -> Any:
        """The open episode as it stands, for ``restore``; None where it can only be played again from its start."""
        return None

    def restore(self, saved: Any) -> None:
        """Go back to what ``saved`` gave, of the same game and this object."""
        raise NotImplementedError(f"{type(self).__name__} does not save episodes")

    def close(self) -> None:
        """Give back what the environment holds. The object is not used again."""
        self._playing = False
