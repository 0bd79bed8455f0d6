"""Find episodes: single files, all episodes of a run, or all runs of a sweep."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from itertools import islice
from pathlib import Path

from turngrid.envs.games.catalogue import cache_root
from turngrid.envs.utils.names import meant
from turngrid.experiments.sweep import record
from turngrid.records.credit import Credit, Replayed, read_credit, tokens_of
from turngrid.records.files.json_lines import read_lines
from turngrid.records.models.locate import ASSET, PACKAGED, local_folder, run_of
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import ATTEMPTS
from turngrid.records.resume import RlFolder
from turngrid.records.run_folder import composed
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.row import to_rows
from turngrid.rollouts.store import read_episodes

TRAINING = "training"
DEMONSTRATIONS = "demonstrations"
EVALUATION = "evaluation"
TOKENIZER = "tokenizer.json"
PATTERNS = ("episodes/*.jsonl", "demonstrations/*.jsonl", "evaluation/**/*.jsonl", "rl/episodes/*.jsonl")


@dataclass(frozen=True)
class Shown:
    """An episode with the data that a page shows beside it.

    Attributes:
        compared: other numbers to show beside its own, by name, one per turn.
        again: later steps that learned from it again, each with its advantage there.
    """

    episode: Episode
    run: str = ""  # name of the run folder, or ""
    stage: str = ""  # ``training``, ``demonstrations`` or, for example, ``evaluation/rl``
    place: str = ""  # file and line in the run, from which the address is made
    credit: Credit | None = None
    tokenizer: Path | None = None  # folder of the tokenizer that its token ids belong to
    reward: str = ""  # name of the run's trained reward
    compared: Mapping[str, Sequence[float]] = field(default_factory=dict)
    again: Sequence[tuple[int, float | None]] = ()
    replaced: int | None = None  # step of the episode that was learned from instead

    @property
    def address(self) -> str:
        """Return the episode's address in the page: 10 hex digits made from run and place."""
        return hashlib.sha256(f"{self.run}:{self.place}".encode()).hexdigest()[:10]


@dataclass(frozen=True)
class EpisodeFile:
    """A file of episodes."""

    path: Path
    run: Path | None
    first: int | None = None  # number of its episodes to show

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
        """Count the episodes to show."""
        with self.path.open("rb") as file:
            return sum(1 for line in islice(file, self.first) if line.strip())

    def shown(self) -> Iterator[Shown]:
        """Yield the episodes in order.

        Raises:
            DamagedEpisodes: a line is no episode.
            Refusal: the credit file belongs to other episodes.
        """
        run = self.run.name if self.run else ""
        tokenizer = tokenizer_of(self.run, self.path.stem) if self.run else None
        reward = _reward(self.run) if self.run else ""
        file = self.path.parent.parent / "credit" / self.path.name
        credits = read_credit(file) if self.stage == TRAINING and file.exists() else []
        instead, later = self._replayed()
        for line, episode in enumerate(islice(read_episodes(self.path), self.first)):
            credit = credits[line] if line < len(credits) else None
            if credit is not None:
                self._check(credit, episode, line)
            place = f"{self.relative.as_posix()}:{line}"
            rows = to_rows(episode, "") if later and episode.turns else []
            again = later.get(tokens_of([(row.prompt_ids, row.response_ids) for row in rows]), ())
            yield Shown(episode, run, self.stage, place, credit, tokenizer, reward, {}, again, instead.get(line))

    def _replayed(self) -> tuple[dict[int, int], dict[str, list[tuple[int, float | None]]]]:
        """Return what was learned from in place of this step's episodes, and again from them later.

        The first is by line, as the step of the other episode; the second by an episode's tokens.
        """
        replayed = _replays(self.run) if self.run and self.step else []
        instead = {
            one.instead: one.sampled_in for step, one in replayed if step == self.step and one.instead is not None
        }
        later = defaultdict(list)
        for step, one in replayed:
            if one.sampled_in == self.step:
                later[one.tokens].append((step, one.advantage))
        return instead, later

    def _check(self, credit: Credit, episode: Episode, line: int) -> None:
        tokens = sum(len(turn.action_ids) - episode.muted(turn) for turn in episode.turns)
        if len(credit.advantages) != tokens:
            words = f"credit for {len(credit.advantages)} tokens, the episode has {tokens}"
            raise Refusal(f"{self.path}, line {line + 1}: {words}")

    @property
    def step(self) -> int:
        """Return the training step; 0 outside training and for an unfinished step."""
        return int(self.path.stem) if self.stage == TRAINING and self.path.stem.isdigit() else 0


@cache
def _replays(run: Path) -> list[tuple[int, Replayed]]:
    """Return the replayed episodes of a run, each with the step that learned from it again."""
    files = sorted(RlFolder(run).replayed.glob("*.jsonl"))
    return [(int(path.stem), Replayed(**line)) for path in files for line in read_lines(path)]


@cache
def _reward(run: Path) -> str:
    return str((composed(run).get("turn_reward") or {}).get("name", ""))


def episode_files(paths: Iterable[Path]) -> list[EpisodeFile]:
    """Return the files under ``paths``; Refusal if one has none, or runs have one name."""
    found = [file for path in paths for file in _files(path.expanduser().absolute())]
    refuse_twins(file.run for file in found if file.run)
    return found


def refuse_twins(folders: Iterable[Path]) -> None:
    """Raise Refusal if two folders have one name, by which pages tell them apart."""
    first: dict[str, Path] = {}
    for folder in folders:
        if (other := first.setdefault(folder.name, folder)) != folder:
            raise Refusal(f"{other} and {folder} have one name; name one of them")


def _files(path: Path) -> list[EpisodeFile]:
    if path.is_file():
        return [EpisodeFile(path, _run_around(path))]
    if not path.is_dir():
        names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise Refusal(f"{path} does not exist{meant(path.name, names, f'{path.parent}/', cutoff=0.3)}")
    sweep = record.read(path)
    folders = [path.parents[1] / run.folder for run in sweep.runs] if sweep else [path]
    files = [file for folder in folders for pattern in PATTERNS for file in sorted(folder.glob(pattern))]
    if not files and not (path / ATTEMPTS).exists():
        files = sorted(path.glob("**/*.jsonl" if EVALUATION in path.parts else "*.jsonl"))
    if not files:
        runs = sorted(mark.parent.name for mark in path.glob(f"*/{ATTEMPTS}"))
        hint = f"; name a run in it, such as {path / runs[0]}" if runs else f" (no {', no '.join(PATTERNS)})"
        raise Refusal(f"{path} holds no episodes{hint}")
    return [EpisodeFile(file, _run_around(file)) for file in files]


def _run_around(path: Path) -> Path | None:
    """Return the run folder, or the folder of an evaluation without a run, that contains a file."""
    evaluated = (folder.parent for folder in path.parents if folder.name == EVALUATION)
    return run_of(str(path)) or next(evaluated, None)


def tokenizer_of(run: Path, policy: str = "") -> Path | None:
    """Return a folder with ``tokenizer.json``, of a checkpoint or the first model, or None.

    Args:
        run: a run folder, or the folder of an evaluation without a run.
        policy: the policy whose tokenizer to use, if an evaluation compares several models.
    """
    return next((folder for folder in _candidates(run, policy) if (folder / TOKENIZER).exists()), None)


def _candidates(run: Path, policy: str) -> Iterator[Path]:
    rl = RlFolder(run)
    if step := rl.saved_step():
        yield rl.model(step)
    yield run / "sft" / "model"
    result = run / "result.json"
    content = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    models = [entry.get("path", "") for entry in content.get("policies", []) if entry.get("name") == policy]
    yield from filter(None, map(_folder, [*models, str(composed(run).get("model", {}).get("path") or "")]))


def _folder(model: str) -> Path | None:
    """Return the local folder of a ``model.path``, without downloading."""
    if model.startswith(ASSET):
        return Path(str(files("turngrid.assets"))) / model.removeprefix(ASSET)
    if model.startswith(PACKAGED):
        return cache_root() / "models" / model.removeprefix(PACKAGED)
    if not model or (folder := local_folder(model)):
        return folder if model else None
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model, TOKENIZER)  # an earlier download
    return Path(cached).parent if isinstance(cached, str) else None
