"""Checks of episodes that ran among faults: each is there once, with its own text, and
repeatable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.fault_policies import Key
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import Observation, StepResult, TaskRef
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import Reply, TurnContext

Said = Mapping[Key, Sequence[tuple[str, str]]]


def key_of(episode: Episode) -> Key:
    return episode.task, episode.sample


def lost_or_doubled(wanted: Iterable[Key], episodes: Iterable[Episode]) -> Iterator[str]:
    """Yield the plans without exactly one finished record."""
    found = list(episodes)
    counts, specs = Counter(map(key_of, found)), Counter(wanted)
    yield from (f"{key} was lost" for key in specs - counts)
    yield from (f"{key} was counted twice" for key in counts - specs)
    yield from (f"{key_of(one)} did not end: {one.error}" for one in found if one.outcome is Outcome.ERROR)


def not_as_played(said: Said, episodes: Iterable[Episode]) -> Iterator[str]:
    """Yield the records that differ from what their policy was shown and answered."""
    for episode in episodes:
        record = [(turn.observation, turn.action) for turn in episode.turns]
        if record != [(shown, _as_stored(text)) for shown, text in said.get(key_of(episode), [])]:
            yield f"the record of {key_of(episode)} is not what its policy saw and said"


def anothers_text(episodes: Iterable[Episode]) -> Iterator[str]:
    """Yield the records in which the same actions in the same game showed another text."""
    known: dict[tuple[str, tuple[str, ...]], str] = {}
    for episode in episodes:
        texts = [*(turn.observation for turn in episode.turns), episode.final_observation]
        actions = [turn.action for turn in episode.turns]
        for turn, text in enumerate(texts):
            if known.setdefault((episode.task, tuple(actions[:turn])), text) != text:
                yield f"{key_of(episode)} shows another text before turn {turn} than the same game elsewhere"
                break


async def not_repeatable(episode: Episode, spec: EpisodeSpec, env: TextEnv) -> str:
    """Run the record's actions again through the loop, on one env of this process.

    Returns how the result differs from the record, or "".
    """
    again = await run_episode(_Recorded(episode), _Here(env), spec, None)
    one, other = _without_timings(episode), _without_timings(again)
    different = [name for name in one if one[name] != other[name]]
    return f"{key_of(episode)} is another when it is played again: {', '.join(different)}" if different else ""


@dataclass(frozen=True)
class _Recorded:
    """A policy that repeats the record's answers."""

    episode: Episode

    @property
    def name(self) -> str:
        return self.episode.policy

    async def act(self, context: TurnContext) -> Reply:
        turns = self.episode.turns
        return Reply(turns[context.turn].action if context.turn < len(turns) else "")


@dataclass(frozen=True)
class _Here:
    """A session without a pool."""

    env: TextEnv

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        return self.env.reset(task, seed)

    async def step(self, action: str) -> StepResult:
        return self.env.step(action)

    async def finish(self) -> StepResult:
        return self.env.finish()


def _without_timings(episode: Episode) -> dict[str, Any]:
    record = {**episode.to_dict(), "retries": 0}
    for turn in record["turns"]:
        turn.update(act_seconds=0.0, env_seconds=0.0)
    return record


def _as_stored(text: str) -> str:
    """Return a text as it is stored: half a character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
