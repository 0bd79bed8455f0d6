"""Demonstrations from a run's wins: rejection sampling over its training episodes.

Games that this run tests or validates on are never used. Accepted episodes are ranked within each
game (fewest invalid actions, fewest turns, latest step). Every game gives one demonstration before
any game gives a second.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from turngrid.algorithms.registry import FORM, ROLES
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.resume import RlFolder
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.prompt_forms.registry import PLAIN, changed_text
from turngrid.rollouts.store import read_episodes
from turngrid.rollouts.window import summed_up
from turngrid.tasks.run import Run
from turngrid.tasks.splits import fingerprints


class DemosError(Refusal):
    """The run has too few demonstrations; the message is one line."""


@dataclass(frozen=True)
class Standards:
    """Conditions that a win must meet."""

    per_game: int  # demonstrations of one game
    max_invalid: int
    max_turns: int
    held_out: frozenset[str] = frozenset()  # keys of games

    def objection(self, episode: Episode) -> str:
        """Return why an episode is rejected, or ""."""
        if not episode.won:
            return "not won"
        if episode.task in self.held_out:
            return "a game that this run tests"
        if not episode.whole:
            return "not played from the game's start without help"
        if sum(not turn.valid for turn in episode.turns) > self.max_invalid:
            return f"more than {self.max_invalid} invalid actions"
        return f"more than {self.max_turns} turns" if len(episode.played_turns) > self.max_turns else ""


def source(run: Run) -> Path:
    """Return the run whose wins are used.

    Raises:
        DemosError: ``demos.run`` is unset, has no training episode, or used another environment or
            other prompts.
    """
    if not run.demos.run:
        raise DemosError("demos.source=episodes needs demos.run=RUN_FOLDER, the run whose wins are used")
    folder = Path(run.demos.run.removeprefix("run://")).expanduser().absolute()
    if not any(RlFolder(folder).episodes.glob("*.jsonl")):
        raise DemosError(f"demos.run={folder} has no training episodes (rl/episodes/*.jsonl)")
    theirs = Run.read(folder, "rl/config.yaml").config
    if theirs.env.name != run.env.name:
        raise DemosError(f"demos.run={folder} was played in env={theirs.env.name}; use that here too, or another run")
    prompt = OmegaConf.select(theirs, "prompt")
    if (form := summed_up(theirs.get(FORM))) != summed_up(run.config.get(FORM)):
        raise DemosError(f"demos.run={folder} used rollout_form={form or 'linear'}; choose it here too")
    if theirs.get(ROLES):
        raise DemosError(f"demos.run={folder} has the answers of several roles; use a run with roles=[]")
    if (library := theirs.get("library")) and library != run.config.get("library"):
        reason = f"was played with library={','.join(library)}"
        raise DemosError(f"demos.run={folder} {reason}; choose its library settings too, or use a run with library=[]")
    if changed_text(prompt) != changed_text(run.config.prompt):
        name = prompt.name if prompt else PLAIN
        raise DemosError(f"demos.run={folder} was played with prompt={name}: choose its prompt settings too")
    return folder


def select(played: Iterable[Episode], wanted: int, rules: Standards) -> tuple[list[Episode], Counter[str]]:
    """Return the best ``wanted`` episodes, game after game, and rejections by reason."""
    left_out: Counter[str] = Counter()
    games: dict[str, dict[tuple[str, ...], Episode]] = defaultdict(dict)
    for episode in played:
        if reason := rules.objection(episode):
            left_out[reason] += 1
            continue
        words = tuple(turn.action for turn in episode.played_turns)
        if words in games[episode.task]:
            left_out["the same actions as another"] += 1
        games[episode.task][words] = min(games[episode.task].get(words, episode), episode, key=_rank)
    ranked = [sorted(game.values(), key=_rank) for _, game in sorted(games.items())]
    left_out["more than enough of one game"] += sum(max(0, len(game) - rules.per_game) for game in ranked)
    rounds = [[game[rank] for game in ranked if rank < len(game)] for rank in range(rules.per_game)]
    return [episode for turn in rounds for episode in turn][:wanted], +left_out


def _rank(episode: Episode) -> tuple[int, int, int, int]:
    return (sum(not turn.valid for turn in episode.turns), len(episode.played_turns), -episode.step, episode.sample)


def draw(run: Run, wanted: int) -> list[Episode]:
    """Return ``wanted`` demonstrations of ``demos.run``; raise DemosError if it has fewer."""
    folder, demos = source(run), run.demos
    tested = set(fingerprints(run.folder, "test", "validation", "evaluation_sets/*").values())
    held_out = frozenset(key for key, same in fingerprints(folder, "train").items() if same in tested)
    rules = Standards(demos.per_game, demos.max_invalid, demos.max_turns or run.max_turns, held_out)
    files = sorted(RlFolder(folder).episodes.glob("*.jsonl"))
    episodes = (episode for path in files for episode in read_episodes(path))
    chosen, left_out = select(episodes, wanted, rules)
    if len(chosen) < wanted:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
        raise DemosError(
            f"demos.run={folder} gives {len(chosen)} demonstrations of the {wanted} to be bought (left out: {why})"
        )
    return chosen


# ---- as demonstrations


def as_demonstrations(episodes: Sequence[Episode], folder: Path, model: str, run: Run) -> list[Episode]:
    """Return copies of the episodes of the run in ``folder``, for ``model``, which ``run`` trains.

    They keep the sampled ids if the model has the same tokens, renders messages alike and sees as
    much of an episode. Else they have no ids and are not marked as sampled; the SFT stage then adds
    its own.
    """
    theirs = Run.read(folder, "rl/config.yaml")
    keep = same_tokens(model, str(theirs.config.actor_rollout_ref.model.path))
    keep = keep and (run.chat, run.window) == (theirs.chat, theirs.window)
    named = [replace(e, policy=f"{e.policy} of {folder.name}", trains_thoughts=True) for e in episodes]
    return named if keep else [without_ids(episode) for episode in named]


def without_ids(episode: Episode) -> Episode:
    return replace(episode, prompt_ids=[], turns=[bare(turn) for turn in episode.turns])


def bare(turn: Turn) -> Turn:
    """Return the turn without token ids; SFT adds those of its model."""
    return replace(turn, action_ids=[], context_ids=[], logprobs=[], sampled=False)


def same_tokens(first: str, second: str) -> bool:
    """Return whether two model folders on this disk have the same tokenizer and chat template."""
    return bool(_tokens(first)) and _tokens(first) == _tokens(second)


def _tokens(model: str) -> tuple[Any, ...]:
    tokenizer, template = Path(model) / "tokenizer.json", Path(model) / "chat_template.jinja"
    if not (tokenizer.exists() and template.exists()):
        return ()
    return json.loads(tokenizer.read_text(encoding="utf-8")), template.read_text(encoding="utf-8")
