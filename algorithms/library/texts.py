"""Texts about finished episodes: by rule or by the policy, and a bank of them (Skill-SD)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

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
    """Return a skill: the best episode's valid actions, the group's first three invalid ones."""
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


@dataclass
class Skill:
    """A text, the steps that used it, and the sum of their mean rewards."""

    text: str
    uses: int = 0
    total: float = 0.0

    def bound(self, uses: int) -> float:
        """Return the upper confidence bound of the mean reward, given the uses of all skills."""
        return self.total / self.uses + math.sqrt(2 * math.log(uses) / self.uses) if self.uses else math.inf


class Skills:
    """The skills of each game.

    Args:
        kept: skills of a game at most; beyond that, the one used most often is dropped.
        length: tokens that the policy writes at most; None: a rule writes.
    """

    def __init__(self, kept: int, length: int | None) -> None:
        self._kept, self._length = kept, length
        self._of: dict[str, list[Skill]] = {}
        self._asked: list[tuple[Request, str]] = []  # with the game's key

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def chosen(self, task: str) -> Skill | None:
        """Return the skill with the highest bound, of equal ones the oldest; None without any."""
        skills = self._of.get(task, [])
        uses = sum(skill.uses for skill in skills)
        return max(skills, key=lambda skill: skill.bound(uses), default=None)

    def text(self, task: str) -> str:
        skill = self.chosen(task)
        return skill.text if skill else ""

    def offer(self, episodes: Sequence[OfferedEpisode]) -> None:
        """Credit the skills that the step used, and write new ones about the best episodes.

        An episode whose reward is not above 0 teaches no skill.
        """
        games: dict[str, list[OfferedEpisode]] = {}
        for episode in episodes:
            games.setdefault(episode.task, []).append(episode)
        self._asked = []
        for task, own in games.items():
            if used := self.chosen(task):
                used.uses += 1
                used.total += sum(episode.reward for episode in own) / len(own)
            best = max(own, key=lambda episode: episode.reward)
            if best.reward <= 0:
                continue
            if self._length is None:
                self._add(task, workflow(best, own))
            else:
                self._asked.append((request(best, SKILL, self._length), task))

    def requests(self) -> list[Request]:
        return [request for request, _ in self._asked]

    def write(self, texts: Sequence[str]) -> None:
        asked, self._asked = self._asked, []
        for (_, task), text in zip(asked, texts, strict=True):
            self._add(task, " ".join(text.split()))

    def _add(self, task: str, text: str) -> None:
        skills = self._of.setdefault(task, [])
        if text and text not in (skill.text for skill in skills):
            skills.append(Skill(text))
        if len(skills) > self._kept:
            skills.remove(max(skills, key=lambda skill: skill.uses))

    def state(self) -> dict[str, Any]:
        return {
            "skills": {task: [asdict(skill) for skill in skills] for task, skills in self._of.items()},
            "asked": [(list(request.lines), *request[1:], task) for request, task in self._asked],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self._of = {task: [Skill(**skill) for skill in skills] for task, skills in state["skills"].items()}
        self._asked = [(Request(*request), task) for *request, task in state["asked"]]
