"""Demonstrations from a run's own wins: rejection sampling over the episodes that it played while it was trained.

Its test games are never used. What passes is ranked within each game (fewest invalid actions, fewest turns, latest step),
and the games are gone through in turn, so that no game has two demonstrations before every game has one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from algorithms.registry import FORM
from records.process.exit_codes import Refusal
from records.resume import RlFolder
from rollouts.chat_settings import ChatSettings, chat_settings
from rollouts.episode import Episode
from rollouts.prompt_forms.registry import PLAIN, changed_text
from rollouts.store import read_episodes
from rollouts.window import summed_up


class DemosError(Refusal):
    """The run does not hold the demonstrations asked for; the message is one line."""


@dataclass(frozen=True)
class Standards:
    """What a win must be like.

    Attributes:
        per_game: demonstrations of one game at most.
        max_invalid: actions that the environment did not understand, at most.
        max_turns: actions at most.
    """

    per_game: int = 1
    max_invalid: int = 0
    max_turns: int = 12

    def objection(self, episode: Episode) -> str:
        """Why this episode is no demonstration; empty if it is one."""
        if not episode.won:
            return "not won"
        if not episode.whole:
            return "not played from the game's start without help"
        if sum(not turn.valid for turn in episode.turns) > self.max_invalid:
            return f"more than {self.max_invalid} invalid actions"
        return f"more than {self.max_turns} turns" if len(episode.played_turns) > self.max_turns else ""


def source(config: DictConfig) -> Path:
    """The run that is drawn from.

    Raises:
        DemosError: there is none, or it has played no training episode.
    """
    if not config.demos.run:
        raise DemosError("demos.source=episodes needs demos.run=RUN_FOLDER, the run whose wins are taken")
    run = Path(config.demos.run.removeprefix("run://")).expanduser().absolute()
    if not any(RlFolder(run).episodes.glob("*.jsonl")):
        raise DemosError(f"demos.run={run} holds no training episodes (rl/episodes/*.jsonl)")
    played = cast(DictConfig, OmegaConf.load(RlFolder(run).config))
    theirs = OmegaConf.select(played, "prompt")
    if (form := summed_up(played.get(FORM))) != summed_up(config.get(FORM)):
        raise DemosError(f"demos.run={run} was played with rollout_form={form or 'linear'}: choose it too")
    if changed_text(theirs) != changed_text(config.prompt):
        raise DemosError(
            f"demos.run={run} was played with prompt={theirs.name if theirs else PLAIN}: choose its prompt settings too"
        )
    return run


def select(played: Iterable[Episode], wanted: int, rules: Standards) -> tuple[list[Episode], Counter[str]]:
    """The best ``wanted`` episodes in the order of their games' turns, and how many were left out by reason."""
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
    rounds = [[game[place] for game in ranked if place < len(game)] for place in range(rules.per_game)]
    return [episode for turn in rounds for episode in turn][:wanted], +left_out


def _rank(episode: Episode) -> tuple[int, int, int, int]:
    return (sum(not turn.valid for turn in episode.turns), len(episode.played_turns), -episode.step, episode.sample)


def draw(config: DictConfig, wanted: int) -> tuple[list[Episode], Counter[str]]:
    """``wanted`` demonstrations from the run that ``config.demos`` names.

    Raises:
        DemosError: it holds fewer.
    """
    run, demos = source(config), config.demos
    rules = Standards(demos.per_game, demos.max_invalid, demos.max_turns or config.env.max_turns)
    played = (episode for path in sorted(RlFolder(run).episodes.glob("*.jsonl")) for episode in read_episodes(path))
    chosen, left_out = select(played, wanted, rules)
    if len(chosen) < wanted:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
        raise DemosError(
            f"demos.run={run} gives {len(chosen)} demonstrations of the {wanted} to be bought (left out: {why})"
        )
    return chosen, left_out


# ---- as demonstrations


def as_demonstrations(episodes: Sequence[Episode], run: Path, model: str, chat: ChatSettings) -> list[Episode]:
    """Copies for ``model`` to learn from: the ids as they were sampled if it has the same tokens and messages are rendered
    alike, else none, so that the SFT stage fills in its own; then they are no longer marked as sampled."""
    config = OmegaConf.load(RlFolder(run).config)
    assert isinstance(config, DictConfig)
    keep = same_tokens(model, str(config.actor_rollout_ref.model.path)) and chat == chat_settings(config)
    named = [replace(e, policy=f"{e.policy} of {run.name}", trains_thoughts=True) for e in episodes]
    return named if keep else [without_ids(episode) for episode in named]


def without_ids(episode: Episode) -> Episode:
    bare: dict[str, Any] = {"action_ids": [], "context_ids": [], "logprobs": [], "sampled": False}
    return replace(episode, prompt_ids=[], turns=[replace(turn, **bare) for turn in episode.turns])


def same_tokens(ours: str, theirs: str) -> bool:
    """Both folders have the same tokenizer and chat template; False where one is not on this disk."""
    return bool(_tokens(ours)) and _tokens(ours) == _tokens(theirs)


def _tokens(model: str) -> tuple[Any, ...]:
    tokenizer, template = Path(model) / "tokenizer.json", Path(model) / "chat_template.jinja"
    if not (tokenizer.exists() and template.exists()):
        return ()
    return json.loads(tokenizer.read_text(encoding="utf-8")), template.read_text(encoding="utf-8")
