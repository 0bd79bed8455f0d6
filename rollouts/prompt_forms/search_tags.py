"""``<think>...</think>``, then ``<search>...</search>`` or ``<answer>...</answer>`` (Search-R1)."""

from dataclasses import dataclass

from turngrid.envs.environment import PromptStyle
from turngrid.rollouts.prompt_forms.form import UNPARSED, Answer, Thinking
from turngrid.rollouts.prompt_forms.tags import pair, tagged
from turngrid.rollouts.prompt_forms.think_action import read_tags

THINK, SEARCH, ANSWER = "think", "search", "answer"


@dataclass(frozen=True)
class SearchTags(Thinking):
    """A thought, then one search or one answer, for environments with these two functions.

    An answer in this form with both tags, or with neither, is unparsed.
    """

    functions = (SEARCH, ANSWER)
    marks = tuple(mark for tag in (THINK, SEARCH, ANSWER) for mark in pair(tag))
    instructions = (
        f"First think it over inside {' '.join(pair(THINK))}, then search with {tagged(SEARCH, 'words')} "
        f"or end with {tagged(ANSWER, 'your answer')}."
    )

    @property
    def format_error(self) -> str:
        thought = f"{' '.join(pair(THINK))} and then " if self.require_thought else ""
        ways = f"{' '.join(pair(SEARCH))} or one {' '.join(pair(ANSWER))}"
        return f"No action could be read in your answer: write {thought}one {ways}."

    def rules(self, style: PromptStyle) -> list[str]:
        """Leave out the environment's description of actions, which are words in tags here."""
        return [f"{style.role} {self.instructions}"]

    def read(self, text: str) -> Answer:
        tags = read_tags(text, THINK, self.functions)
        if tags is None or (self.require_thought and not tags.thoughts):
            return UNPARSED
        words = " ".join(tags.content.split())  # the environment reads one line
        return Answer(f"{tags.tag} {words}", "\n".join(tags.thoughts), tags.begins)

    def write(self, action: str, thought: str) -> str:
        """Return an answer.

        Raises:
            ValueError: the action is neither a search nor an answer.
        """
        tag, _, words = action.partition(" ")
        if tag not in self.functions:
            raise ValueError(f"prompt=search_tags writes searches and answers, not {action!r}")
        return f"{tagged(THINK, thought)}\n{tagged(tag, words)}"
