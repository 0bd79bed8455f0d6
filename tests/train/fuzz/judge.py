"""What is wrong with how the front door answered."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

from fuzz.door import Outcome, end_of
from fuzz.overrides import Command, Piece
from fuzz.sanity import Flat, flat, nonsense
from fuzz.words import TELLING
from omegaconf import DictConfig, OmegaConf

from turngrid.records import run_folder

MOST_LINES = 3
LONGEST_NAME = 255
OUT_OF_PLACE = "settings stand together"  # what stands between flags is not read
NO_ANSWER = ("Traceback", "HYDRA_FULL_ERROR", "object_type=", "full_key:", "<class ")


class Judge:
    """What is wrong with an outcome, in one line; None where it is as it should be.

    Args:
        default: the config without overrides.
        known: every valid key, group and ``group=option``.
    """

    def __init__(self, default: Flat, known: Sequence[str]) -> None:
        self.default, self.known = default, frozenset(known)

    def __call__(self, command: Command, outcome: Outcome) -> str | None:
        return next(self._faults(command, outcome), None)

    def _faults(self, command: Command, outcome: Outcome) -> Iterator[str]:
        if outcome.crash:
            yield f"traceback: {outcome.crash}"
        elif outcome.code == 0:
            yield from self._accepted(command, outcome)
        else:
            yield from self._refused(command, outcome)

    def _accepted(self, command: Command, outcome: Outcome) -> Iterator[str]:
        for config in [] if tells(command) else outcome.configs:
            try:
                plain = flat(OmegaConf.to_container(config, resolve=True))
                folder = _folder_of(config)
            except Exception as error:  # noqa: BLE001 - any: a run would end with it
                yield f"accepted, and then {end_of(error)}"
                return
            if len(folder.encode()) > LONGEST_NAME:
                yield f"no file system has a name like {folder[:50]}..."
            if wrong := list(nonsense(plain, self.default)):
                yield f"nonsense: {'; '.join(wrong[:3])}"
        for piece in command.pieces:
            launched = {"-m", "--multirun"} & set(command.words) and piece.words == ("sweep=table10_algorithms",)
            if piece.wrong and not launched and (len(command.pieces) == 1 or not tells(command)):
                yield f"accepted, though {' '.join(piece.words)} is wrong"

    def _refused(self, command: Command, outcome: Outcome) -> Iterator[str]:
        lines, said = outcome.err.splitlines(), _plain(outcome.err)
        if not outcome.code:
            yield f"exit code {outcome.code}"
        if not 1 <= len(lines) <= MOST_LINES or not lines[0].startswith("turngrid: "):
            yield f"{len(lines)} lines: {lines[:2]}"
        if found := next((words for words in NO_ANSWER if words in outcome.err), None):
            yield f"answered with {found}: {said[:200]}"
        blamed = named(command, outcome)
        if not blamed:
            yield f"names nothing that was typed: {said[:250]}"
        if command.pieces == blamed[:1] and blamed[0].fine and not command.unset:
            yield f"refused, though it is sound: {said[:200]}"
        if len(blamed) == 1 and blamed[0].near and OUT_OF_PLACE not in said and not self._suggests(said, blamed[0]):
            yield f"does not suggest {blamed[0].near}: {said[:200]}"

    def _suggests(self, said: str, piece: Piece) -> bool:
        """The word that was meant, or another that is as near to what was typed."""
        wrong = piece.names[0]
        least = _nearness(wrong, piece.near)
        told = {word.rstrip(".,;?") for word in re.split(r"[\s()]+", said)} & self.known
        return any(word != wrong and _nearness(wrong, word) >= least for word in told)


def named(command: Command, outcome: Outcome) -> tuple[Piece, ...]:
    """The pieces that a refusal is about."""
    said = _plain(outcome.err)
    return tuple(piece for piece in command.pieces if any(_says(said, name) for name in piece.names))


def _folder_of(config: DictConfig) -> str:
    """Without the real hash, which is slow and asks no more of the config than that it can be
    resolved."""
    with mock.patch.object(run_folder, "identity", return_value="0" * 8):
        return run_folder.run_name(config)


def _nearness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _plain(text: str) -> str:
    return " ".join(text.split())


def _says(text: str, name: str) -> bool:
    """``name`` stands there as itself, not as a part of a longer one."""
    name = _plain(name)
    before = r"(?<![\w.])" if name[:1].isalnum() else ""
    after = r"(?!\w)" if name[-1:].isalnum() else ""
    return bool(name) and re.search(before + re.escape(name) + after, text) is not None


def tells(command: Command) -> bool:
    """It asks to be told something, so that no run's config is checked as a whole."""
    return any(word.split("=")[0] in TELLING for word in command.words)


def smallest(command: Command, fault: Callable[[Command], object]) -> Command:
    """The command without the pieces that the fault does not need."""
    for piece in command.pieces if len(command.pieces) > 1 else ():
        fewer = command.without([piece])
        if fault(fewer):
            return smallest(fewer, fault)
    bare = Command(command.pieces)
    return bare if command.unset and fault(bare) else command
