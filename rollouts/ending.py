"""The end of an episode or of a play of it: outcome, score, and the rewards of its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from turngrid.envs.types import Observation, StepResult
from turngrid.rewards.reward import TRAINED, RewardView, Transform, one_a_turn
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.spec import EpisodeSpec, Session

CUT_OFF = (Outcome.OUT_OF_TURNS, Outcome.OUT_OF_CONTEXT)


def share_out(episodes: Mapping[str, Episode], result: StepResult) -> None:
    """Put each seat's score on its last turn, which may lie before the action that changed it.

    At the end of the game, also what the environment reports, and the outcome by the seat's total.
    """
    if not result.scores:
        return
    for seat, episode in episodes.items():
        last = episode.turns[-1]
        last.score_delta += result.scores.get(seat, 0.0)
        if result.over:
            last.info |= result.info
            total = sum(turn.score_delta for turn in episode.turns)
            episode.outcome = Outcome.WON if total > 0 else Outcome.LOST if total < 0 else Outcome.DRAWN


def ended(episode: Episode, result: StepResult) -> bool:
    """Record the outcome of a game that is over, and return whether it is.

    ``terminated`` alone never counts as success.
    """
    if result.won:
        episode.outcome = Outcome.WON
    elif (result.lost or result.terminated) and not result.scores:
        episode.outcome = Outcome.LOST
    return result.over


def void(episode: Episode, rule: str) -> bool:
    """Return whether the newest turn ends the episode as lost (``EpisodeSpec.void``)."""
    turn = episode.turns[-1]
    if not rule or (turn.parsed and (turn.valid or rule == "unparsed")):
        return False
    episode.outcome = Outcome.LOST
    return True


def out_of_context(episode: Episode) -> None:
    """End the row at the last action: drop unused asides and the context that had no room."""
    episode.outcome = Outcome.OUT_OF_CONTEXT
    while episode.turns and episode.turns[-1].aside:
        episode.turns.pop()
    if episode.turns:
        episode.turns[-1].context_ids = []


async def next_play(
    session: Session, spec: EpisodeSpec, episode: Episode, over: bool
) -> tuple[Observation | None, bool]:
    """Begin another play if the newest one has ended and there is one left.

    Args:
        over: whether the newest play's game is over.

    Returns:
        The first observation of a new play, or None; and whether the episode is over.
    """
    plays = spec.attempts
    if plays is None or not plays.ended(episode, over):
        return None, over
    if spec.grade_unfinished and episode.outcome in CUT_OFF and len(episode.plays) + 1 < plays.most:
        await grade(session, episode)
    if plays.last(episode):
        return None, True
    episode.plays.append(episode.outcome.value)
    episode.outcome = Outcome.OUT_OF_TURNS
    opening = await session.reset(spec.task, spec.task.seed)
    return replace(opening, text=f"{plays.feedback}\n{opening.text}"), False


async def grade(session: Session, episode: Episode) -> None:
    """Grade the state at the cut; the last turn gets the result."""
    result = await session.finish()
    if result.won:
        episode.outcome = Outcome.WON
    if episode.turns:
        episode.turns[-1].score_delta += result.score_delta
        episode.turns[-1].info |= result.info


async def settle(session: Session, episode: Episode, spec: EpisodeSpec) -> None:
    """Grade an episode that was cut off, if the environment does that, then score and reward it."""
    oldest, newest = episode.versions()
    if oldest == newest:  # recorded by turn only if they differ
        for turn in episode.turns:
            turn.versions = []
    attempt = episode.turns[-1].attempt if episode.turns else 0
    if attempt < len(episode.plays):  # no answer had room in the newest play, which is dropped
        episode.outcome = Outcome(episode.plays[-1])
    elif spec.grade_unfinished and episode.outcome in CUT_OFF:
        await grade(session, episode)
    if spec.attempts and attempt == len(episode.plays):
        episode.plays.append(episode.outcome.value)
    if spec.task.max_score > 0:
        earned = sum(turn.score_delta for turn in [*episode.prefix, *episode.turns] if turn.attempt == attempt)
        share = earned / spec.task.max_score
        episode.score = min(1.0, max(0.0, (share + 1) / 2 if spec.seat else share))  # some games end below 0
    await _reward(episode, spec)


async def _reward(episode: Episode, spec: EpisodeSpec) -> None:
    chosen = {spec.reward.name: spec.reward} if spec.reward else {}
    turns = episode.played_turns
    for name, reward in {**spec.named, **chosen}.items():
        arguments = (turns, episode.won, spec.task.max_score)
        if getattr(reward, "blocking", False):
            values = await asyncio.to_thread(reward.turn_rewards, *arguments)
        else:
            values = reward.turn_rewards(*arguments)
        for turn, value in zip(turns, one_a_turn(f"reward={name}", values, len(turns)), strict=True):
            turn.rewards[name] = value
        for turn in episode.turns:
            turn.rewards.setdefault(name, 0.0)  # asides earn nothing


def without_turns(seat: str, policy: str, other: Episode) -> Episode:
    """Return the view of a seat without a turn: the other one ended the match before, as by an
    invalid answer."""
    outcome = {Outcome.WON: Outcome.LOST, Outcome.LOST: Outcome.WON}.get(other.outcome, other.outcome)
    score = None if other.score is None else 1 - other.score
    return replace(other, seat=seat, policy=policy, outcome=outcome, score=score, turns=[], messages=[], prompt_ids=[])


def shape(episode: Episode, reward: str, transforms: Mapping[str, Transform], plan: int = 0) -> None:
    """Apply the transforms to the chosen reward; record the result and each one's share.

    Args:
        episode: holds every reward that the transforms read.
        reward: name of the chosen reward, which is kept unchanged.
        plan: actions of the game's expert plan.

    Raises:
        ValueError: a transform returns the wrong number of rewards or one that is not finite.
    """
    rewards = {name: [turn.rewards[name] for turn in episode.turns] for name in episode.turns[0].rewards}
    rewards[TRAINED] = list(rewards[reward])
    for name, transform in transforms.items():
        view = RewardView(episode, rewards, episode.step, plan)
        results = transform(view).items()
        rewards = rewards | {
            key: one_a_turn(f"shaping={name}, {key}:", values, len(episode.turns)) for key, values in results
        }
        episode.shaping[name] = sum(rewards[TRAINED]) - sum(view.rewards[TRAINED])
        logged = transform.logged(view) if hasattr(transform, "logged") else {}
        episode.shaping |= {f"{name}/{what}": value for what, value in logged.items()}
    for number, turn in enumerate(episode.turns):
        turn.rewards = {name: values[number] for name, values in rewards.items()}
