"""Prompt forms: instructions, messages, and how answers are read (docs/prompt.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from turngrid.envs.environment import PromptStyle
from turngrid.envs.functions import Function
from turngrid.envs.text_env import NOT_ALLOWED
from turngrid.envs.types import Observation, StepResult
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.stream import Message, TokenStream, tool, user

NOTHING_READ = "(no action could be read)"
PLANNED = 2  # actions that the thought of a demonstration names


@dataclass(frozen=True)
class Answer:
    """A parsed answer.

    Attributes:
        begins: index in the text where the action's part begins; the thought precedes it.
        parsed: False if no action was found; no token then counts as thought or action.
        label: one of the form's ``labels``, or "".
        spans: by part of the answer, its first character and the one after its last.
    """

    action: str
    thought: str = ""
    begins: int = 0
    parsed: bool = True
    label: str = ""
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)


UNPARSED = Answer("", parsed=False)


@dataclass(frozen=True)
class PromptForm:
    """Base class; the fields of a form are its settings, and every form has these.

    ``conf/config.yaml`` describes the settings of all forms, ``conf/prompt/NAME.yaml`` those of
    one.

    Attributes:
        thinks: answers contain a thought.
        calls: actions are calls of the environment's functions.
        functions: names of functions that the environment must have.
        labels: kinds of answer that methods may distinguish (``turngrid.algorithms.turns``).
        parts: names of parts of an answer that methods may distinguish.
        marks: text of the instructions that looks like a control token (``<think>``).
    """

    admissible: bool
    history: int | None = field(metadata={"range": (0, 10**6)})
    train_thoughts: bool
    tell_format: bool

    thinks: ClassVar[bool] = False
    calls: ClassVar[bool] = False
    functions: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        return ()

    @property
    def instructions(self) -> str:
        """How to answer, in one line; "" if the environment's own instructions suffice."""
        return ""

    @property
    def format_error(self) -> str:
        """The reply to an unparsed answer, in one sentence; "" leaves the reply to the
        environment.
        """
        return "No action could be read in your answer."

    @property
    def cue(self) -> str:
        """The last line of each message."""
        return "Your action:"

    def head(self, style: PromptStyle, goal: str, guidance: str = "") -> str:
        """Return the first message up to its observation; ``guidance`` precedes the goal."""
        lines = [f"{style.role} {style.how_to_act}", self.instructions, guidance, f"Goal: {goal}" if goal else ""]
        return "".join(f"{line}\n" for line in lines if line)

    def message(self, observation: str, admissible: Sequence[str] = ()) -> str:
        """Return the observation and the cue; in the first message they follow the head."""
        listed = f"Admissible actions: {', '.join(admissible)}\n" if admissible else ""
        return f"{observation}\n{listed}{self.cue}"

    def recalled(self, turns: Sequence[Turn]) -> str:
        """Return the newest turns for a prompt with ``history``, without thoughts."""
        lines = (
            f"{turn.observation}\nAction taken: {turn.action if turn.parsed else NOTHING_READ}\n" for turn in turns
        )
        return f"Your last turns:\n{''.join(lines)}Now:\n" if turns else ""

    def understand(self, text: str, functions: Sequence[Function]) -> Answer:
        """Read an answer, given the environment's functions (for forms with ``calls``)."""
        return self.read(text)

    def read(self, text: str) -> Answer:
        """Parse an answer. Returns the raw action; the environment cleans it."""
        raise NotImplementedError

    def write(self, action: str, thought: str) -> str:
        """Return an answer that ``read`` parses to this action and thought."""
        raise NotImplementedError

    def demonstrate(self, goal: str, plan: Sequence[str], functions: Sequence[Function] = ()) -> str:
        """Return the answer of an expert who does the first action of ``plan`` (never empty)."""
        return self.write(plan[0], self.thought(goal, plan))

    def thought(self, goal: str, plan: Sequence[str]) -> str:
        return ""


@dataclass(frozen=True)
class Thinking(PromptForm):
    """A form whose answers contain a thought and then an action.

    ``demo_thought`` is a template with ``{goal}``, ``{action}`` and ``{plan}`` (this action and the
    next one).
    """

    require_thought: bool
    demo_thought: str

    thinks: ClassVar[bool] = True

    @property
    def cue(self) -> str:
        return "Your thought and action:"

    def __post_init__(self) -> None:
        """Check the template of thoughts.

        Raises:
            ValueError: ``demo_thought`` has an unknown placeholder.
        """
        try:
            self.thought("goal", ["action"])
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(
                f"demo_thought={self.demo_thought!r} may contain {{goal}}, {{action}} and {{plan}} only"
            ) from error

    def thought(self, goal: str, plan: Sequence[str]) -> str:
        """Return the thought, always one line."""
        first = [action.split("\n")[0] for action in plan[:PLANNED]]
        return " ".join(self.demo_thought.format(goal=goal, action=first[0], plan=", then ".join(first)).split())


@dataclass(frozen=True)
class Plain(PromptForm):
    """The answer is the action (the study's protocol): no list of actions, no system message."""

    @property
    def format_error(self) -> str:
        return ""

    def read(self, text: str) -> Answer:
        return Answer(text)

    def write(self, action: str, thought: str) -> str:
        return action


PLAIN_FORM = Plain(admissible=False, history=None, train_thoughts=True, tell_format=True)


def pair(name: str) -> tuple[str, str]:
    return f"<{name}>", f"</{name}>"


def between(name: str) -> re.Pattern[str]:
    """Return a pattern of a pair of tags; its group is the text between them.

    Case is ignored, since some tokenizers have upper or lower case only.
    """
    begin, end = map(re.escape, pair(name))
    return re.compile(f"{begin}(.*?){end}", re.IGNORECASE | re.DOTALL)


def tagged(name: str, text: str) -> str:
    begin, end = pair(name)
    return f"{begin}{text}{end}"


def listed(form: PromptForm, seen: Observation) -> list[str]:
    """Return the actions that a message lists."""
    return sorted(seen.legal) if form.admissible else []


def messages(form: PromptForm, seen: Observation) -> list[Message]:
    """Return what follows an answer: one message of the user, or one a result."""
    return _messages(form, seen.text, seen.results, listed(form, seen))


def messages_of(form: PromptForm, turn: Turn) -> list[Message]:
    """Return the messages that showed a turn's observation."""
    return _messages(form, turn.observation, turn.results, turn.admissible)


def _messages(form: PromptForm, text: str, results: Sequence[str], admissible: Sequence[str]) -> list[Message]:
    if not results:
        return [user(form.message(text, admissible))]
    return [*map(tool, results[:-1]), tool(form.message(results[-1], admissible))]


def answered(form: PromptForm, parsed: bool, result: StepResult) -> Observation:
    """Return the observation after an answer.

    If no action was read from the answer, the form's error replaces the environment's.
    """
    seen = result.observation
    if parsed or result.over or not (form.tell_format and form.format_error):
        return seen
    text = seen.text if NOT_ALLOWED in seen.text else f"{NOT_ALLOWED}\n{seen.text}"
    return replace(seen, text=text.replace(NOT_ALLOWED, form.format_error, 1), results=())


def meaning(
    form: PromptForm,
    text: str,
    functions: Sequence[Function],
    ids: Sequence[int] = (),
    stream: TokenStream | None = None,
) -> dict[str, Any]:
    """Return the fields of a ``Turn`` for an answer and, if ids are kept, its ``ids``."""
    answer = form.understand(text, functions)
    thought_tokens = stream.tokens_of(ids, text[: answer.begins]) if stream and answer.begins else 0
    return {
        "action": answer.action,
        "answer": "" if answer.action == text else text,
        "thought": answer.thought,
        "thought_tokens": thought_tokens,
        "parsed": answer.parsed,
        "label": answer.label,
        "spans": {part: _ids_of(span, text, ids, stream) for part, span in answer.spans.items()} if stream else {},
    }


def _ids_of(span: tuple[int, int], text: str, ids: Sequence[int], stream: TokenStream) -> list[int]:
    """Return a part's token span; a part at the end includes the end-of-turn token."""
    first, last = (stream.tokens_of(ids, text[:index]) if index else 0 for index in span)
    return [first, len(ids) if span[1] == len(text) else last]
