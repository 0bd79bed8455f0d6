"""A bank of skills: texts about a game, one of which is chosen for each step (Skill-SD)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from turngrid.algorithms.library import writer
from turngrid.algorithms.slots import OfferedEpisode, Request


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
        kept: of a game at most; the one used most often makes way.
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

        An episode without any reward teaches no skill.
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
                self._add(task, writer.workflow(best, own))
            else:
                self._asked.append((writer.request(best, writer.SKILL, self._length), task))

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
