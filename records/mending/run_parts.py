"""The files of a run folder: what each must look like, and what a run does without it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch
from typing import Any

import msgspec

from envs.types import TaskRef
from records.provenance import Attempt
from records.replayed import Replayed


class Length(Enum):
    """How long a file may be beside what the inventory says of it."""

    SAME = "written once"
    GROWS = "appended to, or rewritten with more"
    ANY = "written anew by every attempt"


class _Episode(msgspec.Struct):
    task: str
    turns: list[dict[str, Any]]
    outcome: str


class _Credit(msgspec.Struct):
    advantages: list[Any]
    returns: list[Any]


class _Step(msgspec.Struct):
    step: int


class _Stage(msgspec.Struct):
    stage: str
    seconds: float
    ended: float


class _Entry(msgspec.Struct):
    kind: str
    units: float


@dataclass(frozen=True)
class Part:
    """Files that match ``pattern`` (``*`` also stands for folders).

    ``then``: what the run does where one is damaged. ``line``: the type of each line, where the file is JSON lines.
    ``keeps``: the lines that are whole stay in the file. ``may_be_empty``: there may have been nothing to write.
    """

    pattern: str
    then: str
    line: Any = None
    keeps: bool = False
    length: Length = Length.SAME
    may_be_empty: bool = False


AGAIN = "it is written again"
PARTS = (
    Part("config.yaml", AGAIN),
    Part("attempts.jsonl", "other starts of this run are not known", Attempt, True, Length.GROWS),
    Part("stages.jsonl", "what other stages took is not known", _Stage, True, Length.GROWS),
    Part("tasks/skipped.json", AGAIN, length=Length.ANY),
    Part("tasks/*.jsonl", "the games are listed again", TaskRef, length=Length.ANY),
    Part("episodes/demonstrations.jsonl", "the demonstrations are played again", _Episode, length=Length.GROWS),
    Part("episodes/alternatives.jsonl", "they are drawn again", _Episode, may_be_empty=True),
    Part("episodes/experience.jsonl", "its rows are made again", _Episode, length=Length.GROWS, may_be_empty=True),
    Part("episodes/left_out.json", "the count of what was left out is lost"),
    Part("sft/metrics.jsonl", "metrics of other SFT steps are lost", _Step, True, Length.GROWS),
    Part("sft/config.yaml", AGAIN),
    Part("rl/config.yaml", AGAIN),
    Part("rl/metrics.jsonl", "", _Step, True, Length.GROWS),  # records.mending.mend says more
    Part("rl/episodes/*.jsonl", "the step is charged by its metrics", _Episode, True),
    Part("rl/credit/*.jsonl", "the step has no credit to show", _Credit | None),
    Part("rl/replayed/*.jsonl", "which episodes it learned from again is not known", Replayed),
    Part("rl/validation/*.jsonl", "other episodes are lost", _Episode, True, may_be_empty=True),
    Part("rl/stale/*.jsonl", "other episodes are lost", _Episode, True),
    Part("rl/groups/*.jsonl", "the group is played again", _Episode),
    Part("rl/discarded/*/credit/*.jsonl", "the episodes beside it stay", _Credit | None, length=Length.ANY),
    Part("rl/discarded/*/replayed/*.jsonl", "the episodes beside it stay", Replayed, length=Length.ANY),
    Part("rl/discarded/*/metrics.jsonl", "other lines are lost", _Step, True, Length.ANY),
    Part("rl/discarded/*.jsonl", "other episodes are lost", _Episode, True, Length.ANY, may_be_empty=True),
    Part("evaluation/*.jsonl", "its games are played again", _Episode),
    Part("evaluation/config.yaml", AGAIN),
    Part("ledger.jsonl", AGAIN, _Entry),
    Part("learning_curve.png", "it is drawn again"),
    Part("result.json", "the run is brought to its end again"),
)


def part_of(name: str) -> Part | None:
    """``name``: a path inside the run folder."""
    return next((part for part in PARTS if fnmatch(name, part.pattern)), None)
