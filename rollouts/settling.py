"""How an episode ends: its outcome, what is graded and scored once it is over, and what each of its turns earned."""

from __future__ import annotations

import asyncio

from envs.types import StepResult
from rewards.reward import one_a_turn
from rollouts.begin import Session
from rollouts.episode import Episode, Outcome
from rollouts.spec import EpisodeSpec

CUT_OFF = (Outcome.OUT_OF_TURNS, Outcome.OUT_OF_CONTEXT)


def ended(episode: Episode, result: StepResult) -> bool:
    """A game that is over was won, or it was not; ``terminated`` alone never counts as success."""
    if result.won:
        episode.outcome = Outcome.WON
    elif result.lost or result.terminated:
        episode.outcome = Outcome.LOST
    return result.over


def void(episode: Episode, kind: str) -> bool:
    """Whether the newest turn ends the episode, as ``EpisodeSpec.void`` has it; it is lost then."""
    turn = episode.turns[-1]
    if not kind or (turn.parsed and (turn.valid or kind == "unparsed")):
        return False
    episode.outcome = Outcome.LOST
    return True


def out_of_context(episode: Episode) -> None:
    """The row ends with the last action: what came after it is what had no room, or a summary that nothing came of."""
    episode.outcome = Outcome.OUT_OF_CONTEXT
    if episode.turns and episode.turns[-1].summary:
        episode.turns.pop()
    if episode.turns:
        episode.turns[-1].context_ids = []


async def settle(session: Session, episode: Episode, spec: EpisodeSpec) -> None:
    """Grade what was cut off, where the environment does that, then score and reward. Raises: EnvError: it failed."""
    oldest, newest = episode.versions()
    if oldest == newest:  # kept by turn only where they differ
        for turn in episode.turns:
            turn.versions = []
    if spec.grade_unfinished and episode.outcome in CUT_OFF:
        await _grade(session, episode)
    if spec.task.max_score > 0:
        earned = sum(turn.score_delta for turn in [*episode.prefix, *episode.turns])
        episode.score = min(1.0, max(0.0, earned / spec.task.max_score))  # some games can end below 0
    await _reward(episode, spec)


async def _grade(session: Session, episode: Episode) -> None:
    """What stands when the turns or the context are used up counts: it goes to the last turn."""
    result = await session.finish()
    if result.won:
        episode.outcome = Outcome.WON
    if episode.turns:
        episode.turns[-1].score_delta += result.score_delta
        episode.turns[-1].info |= result.info


async def _reward(episode: Episode, spec: EpisodeSpec) -> None:
    chosen = {spec.reward.name: spec.reward} if spec.reward else {}
    played = episode.played_turns
    for name, reward in {**spec.named, **chosen}.items():
        asked = (played, episode.won, spec.task.max_score)
        if getattr(reward, "blocking", False):
            values = await asyncio.to_thread(reward.turn_rewards, *asked)
        else:
            values = reward.turn_rewards(*asked)
        for turn, value in zip(played, one_a_turn(f"reward={name}", values, len(played)), strict=True):
            turn.rewards[name] = value
        for turn in episode.turns:
            turn.rewards.setdefault(name, 0.0)  # a summary's
