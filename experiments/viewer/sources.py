"""Where episodes are: single files, everything that a run has played, or all runs of a sweep."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path

from envs.utils.names import meant
from experiments.sweep import record
from experiments.viewer.tokenizer import tokenizer_of
from records.credit import Credit, read_credit
from records.process.exit_codes import Refusal
from records.replayed import read_replayed, tokens_of
from records.resume import RlFolder
from records.run_folder import composed
from rollouts.episode import Episode
from rollouts.row import to_rows
from rollouts.store import DamagedEpisodes, read_episodes

TRAINING = "training"
DEMONSTRATIONS = "demonstrations"
EVALUATION = "evaluation"
RUN_MARK = "attempts.jsonl"
PATTERNS = ("episodes/*.jsonl", "demonstrations/*.jsonl", "evaluation/**/*.jsonl", "rl/episodes/*.jsonl")


class SourceError(Refusal):
    """There is nothing to show under this path; the message is one line."""


@dataclass(frozen=True)
class Shown:
    """An episode and what is known of it beside the episode itself.

    ``run`` is the run folder's name, empty outside one; ``stage`` says when it was played (``training``,
    ``demonstrations``, ``evaluation/rl``); ``place`` is file and line inside the run, which makes its address.
    ``tokenizer``: the folder of the tokenizer that its ids are of. ``reward``: the name of the run's chosen reward. ``compared``: numbers
    to be shown side by side, by name, one entry a turn. ``again``: later steps that learned from it once more, with the advantage that they gave it;
    ``replaced``: the step of the episode that was learned from in its place.
    """

    episode: Episode
    run: str = ""
    stage: str = ""
    place: str = ""
    credit: Credit | None = None
    tokenizer: Path | None = None
    reward: str = ""
    compared: Mapping[str, Sequence[float]] = field(default_factory=dict)
    again: Sequence[tuple[int, float | None]] = ()
    replaced: int | None = None

    @property
    def address(self) -> str:
        """What stands after ``#`` in a link to it: 10 hex digits, the same whenever a page is made."""
        return hashlib.sha256(f"{self.run}:{self.place}".encode()).hexdigest()[:10]


@dataclass(frozen=True)
class EpisodeFile:
    """A file of episodes; ``run`` is the run folder around it, if there is one. ``first``: no more than so many of it."""

    path: Path
    run: Path | None
    first: int | None = None

    @cached_property
    def relative(self) -> Path:
        return self.path.relative_to(self.run) if self.run else Path(self.path.name)

    @property
    def stage(self) -> str:
        parts = self.relative.with_suffix("").parts
        if parts[:2] == ("rl", "episodes"):
            return TRAINING
        return DEMONSTRATIONS if DEMONSTRATIONS in parts else "/".join(parts)

    @cached_property
    def count(self) -> int:
        """Episodes that are shown of it."""
        with self.path.open("rb") as file:
            return sum(1 for line in islice(file, self.first) if line.strip())

    def shown(self) -> Iterator[Shown]:
        """Its episodes in order.

        Raises:
            ValueError: a line is no episode, or the credit beside it is of other episodes.
        """
        run = self.run.name if self.run else ""
        tokenizer = tokenizer_of(self.run, self.path.stem) if self.run else None
        reward = _reward(self.run) if self.run else ""
        credits = self._credit()
        known = replays(self.run) if self.run and self.step else Replays({}, {})
        for line, episode in enumerate(islice(self._episodes(), self.first)):
            credit = credits[line] if line < len(credits) else None
            _check(episode, credit, f"{self.path}, line {line + 1}")
            place = f"{self.relative.as_posix()}:{line}"
            again, replaced = known.of(self.step, line, episode)
            yield Shown(episode, run, self.stage, place, credit, tokenizer, reward, {}, again, replaced)

    @property
    def step(self) -> int:
        """0 outside training, and of groups of a step that is not whole."""
        return int(self.path.stem) if self.stage == TRAINING and self.path.stem.isdigit() else 0

    def _episodes(self) -> Iterator[Episode]:
        try:
            yield from read_episodes(self.path)
        except DamagedEpisodes as error:
            raise SourceError(str(error)) from error

    def _credit(self) -> Sequence[Credit | None]:
        path = self.path.parent.parent / "credit" / self.path.name
        return read_credit(path) if self.stage == TRAINING and path.exists() else []


@dataclass(frozen=True)
class Replays:
    """Of a run. ``again``: steps and advantages by the step in which an episode was played and by its tokens; ``instead``: the step of the
    episode that took the place of a step's, by step and line."""

    again: Mapping[tuple[int, str], Sequence[tuple[int, float | None]]]
    instead: Mapping[tuple[int, int], int]

    def of(self, step: int, line: int, episode: Episode) -> tuple[Sequence[tuple[int, float | None]], int | None]:
        if not any(played == step for played, _ in self.again) or not episode.turns:
            return (), self.instead.get((step, line))
        tokens = tokens_of([(row.prompt_ids, row.response_ids) for row in to_rows(episode, "")])
        return self.again.get((step, tokens), ()), self.instead.get((step, line))


@cache
def replays(run: Path) -> Replays:
    again: dict[tuple[int, str], list[tuple[int, float | None]]] = defaultdict(list)
    instead = {}
    for path in sorted(RlFolder(run).replayed.glob("*.jsonl")):
        for one in read_replayed(path):
            again[one.played, one.tokens].append((int(path.stem), one.advantage))
            if one.instead is not None:
                instead[int(path.stem), one.instead] = one.played
    return Replays(dict(again), instead)


@cache
def _reward(run: Path) -> str:
    return str((composed(run).get("turn_reward") or {}).get("name", ""))


def _check(episode: Episode, credit: Credit | None, where: str) -> None:
    tokens = sum(len(turn.action_ids) - episode.muted(turn) for turn in episode.turns)
    if credit is not None and len(credit.advantages) != tokens:
        raise SourceError(f"{where}: credit for {len(credit.advantages)} tokens, the episode has {tokens}")


def episode_files(paths: Iterable[Path]) -> list[EpisodeFile]:
    """Raises: SourceError: no file or folder, or a folder without episodes."""
    return [file for path in paths for file in _files(path.expanduser().absolute())]


def _files(path: Path) -> list[EpisodeFile]:
    if path.is_file():
        return [EpisodeFile(path, _run_around(path))]
    if not path.is_dir():
        names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SourceError(f"{path} does not exist{meant(path.name, names, f'{path.parent}/', cutoff=0.3)}")
    sweep = record.read(path)
    folders = [path.parents[1] / run.folder for run in sweep.runs] if sweep else [path]
    found = [file for folder in folders for pattern in PATTERNS for file in sorted(folder.glob(pattern))]
    if not found and not (path / RUN_MARK).exists():
        found = sorted(path.glob("**/*.jsonl" if EVALUATION in path.parts else "*.jsonl"))
    if not found:
        raise SourceError(f"{path} holds no episodes{_runs_in(path)}")
    return [EpisodeFile(file, _run_around(file)) for file in found]


def _run_around(path: Path) -> Path | None:
    """The run, or the evaluation without a run, that a file lies in."""
    marked = (folder for folder in path.parents if (folder / RUN_MARK).exists())
    played = (folder.parent for folder in path.parents if folder.name == EVALUATION)
    return next(chain(marked, played), None)


def _runs_in(path: Path) -> str:
    runs = sorted(mark.parent.name for mark in path.glob(f"*/{RUN_MARK}"))
    return f"; name a run in it, such as {path / runs[0]}" if runs else f" (no {', no '.join(PATTERNS)})"
