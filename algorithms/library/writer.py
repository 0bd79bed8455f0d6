"""What is written about finished episodes: by rule, or as requests to the policy."""

from collections.abc import Sequence
from typing import NamedTuple

from turngrid.algorithms.contexts import SeenTurn
from turngrid.algorithms.slots import OfferedEpisode, Request

RULE, POLICY = "rule", "policy"
ACTIONS = 3  # of an entry that a rule writes
WON, LOST = "In one line: what made this attempt succeed?", "In one line: what made this attempt fail?"
SKILL = "In three lines: what worked, what went wrong, and the best order of actions."


class Moment(NamedTuple):
    """The last actions up to a turn, and the observation that the first of them answered."""

    observation: str
    actions: Sequence[str]

    @property
    def text(self) -> str:
        return ", then ".join(self.actions)


def moment(turns: Sequence[SeenTurn]) -> Moment:
    """Return the last ``ACTIONS`` of these turns."""
    shown = turns[-ACTIONS:]
    return Moment(shown[0].observation, [turn.action for turn in shown])


def rises(episode: OfferedEpisode) -> list[Moment]:
    """Return the actions before each rise of the score, or before a win that no score shows."""
    turns = episode.turns
    ends = [number for number, turn in enumerate(turns, start=1) if turn.score_delta > 0]
    return [moment(turns[:end]) for end in ends or [len(turns)] * episode.won]


def workflow(best: OfferedEpisode, group: Sequence[OfferedEpisode]) -> str:
    """Return a skill: the actions of the best episode, then those not understood in its group."""
    known = [turn.action for turn in best.turns if turn.valid]
    unknown = dict.fromkeys(turn.action for episode in group for turn in episode.turns if not turn.valid)
    parts = (("Workflow", known), ("Not understood", [*unknown][:ACTIONS]))
    return " ".join(f"{name}: {', '.join(actions)}." for name, actions in parts if actions)


def request(episode: OfferedEpisode, question: str, length: int) -> Request:
    """Return a request to write about an episode."""
    lines = [f"Goal: {episode.goal}"] if episode.goal else []
    lines += [line for turn in episode.turns for line in (turn.observation.strip(), f"Action taken: {turn.action}")]
    return Request([*lines, f"The attempt {'succeeded' if episode.won else 'failed'}."], question, length)


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
