"""Prompt forms: instructions, messages, and how answers are read (docs/prompt.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from turngrid.envs.environment import PromptStyle
from turngrid.envs.functions import Function, action_of
from turngrid.envs.text_env import MAX_CALLS, NOT_ALLOWED
from turngrid.envs.types import Observation, StepResult
from turngrid.envs.utils.printable import shortened
from turngrid.rewards.declared import number, word
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.stream import Message, TokenStream, tool, user

NOTHING_READ = "(no action could be read)"
UNPARSED_IF_TOO_MANY = "unparsed"
PLANNED = 2  # actions that the thought of a demonstration names


@dataclass(frozen=True)
class Answer:
    """A parsed answer.

    Attributes:
        begins: index in the text where the action's part begins; the thought precedes it.
        parsed: False if no action was found; no token then counts as thought or action.
        label: one of the form's ``labels``, or "".
        spans: by part of the answer, its first character and the one after its last.
        actions: if the answer has several, each of those that may run; ``action`` joins them.
        dropped: number of actions beyond ``max_actions``, which do not run.
    """

    action: str
    thought: str = ""
    begins: int = 0
    parsed: bool = True
    label: str = ""
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    actions: tuple[str, ...] = ()
    dropped: int = 0


UNPARSED = Answer("", parsed=False)


@dataclass(frozen=True, kw_only=True)
class PromptForm:
    """Base class; the fields of a form are its settings, and every form has these.

    ``conf/config.yaml`` describes the settings of all, ``conf/prompt/NAME.yaml`` those of one.

    Attributes:
        thinks: answers contain a thought.
        calls: actions are calls of the environment's functions.
        functions: names of functions that the environment must have.
        labels: kinds of answer that methods may distinguish (``turngrid.algorithms.turns``).
        parts: names of parts of an answer that methods may distinguish.
        marks: text of the instructions that looks like a control token (``<think>``).
        cue: the last line of each message.
    """

    admissible: bool
    history: int | None = number(0, 10**6)
    history_chars: int | None = number(16, 10**6)
    history_steps: bool
    history_thoughts: bool
    max_actions: int = number(1, MAX_CALLS)
    action_sep: str
    too_many: str = word("first", UNPARSED_IF_TOO_MANY)
    stop_at_invalid: bool
    demo_max_actions: int | None = number(1, MAX_CALLS)
    train_thoughts: bool
    tell_format: bool

    thinks: ClassVar[bool] = False
    calls: ClassVar[bool] = False
    functions: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()
    cue: ClassVar[str] = "Your action:"

    @property
    def marks(self) -> tuple[str, ...]:
        return ()

    @property
    def instructions(self) -> str:
        """Return how to answer, in one line; "" if the environment's own instructions suffice."""
        return ""

    @property
    def format_error(self) -> str:
        """The reply to an unparsed answer, in one sentence; "" leaves the reply to the
        environment.
        """
        return "No action could be read in your answer."

    def head(self, style: PromptStyle, goal: str, guidance: str = "") -> str:
        """Return the first message up to its observation; ``guidance`` precedes the goal."""
        lines = (*self.rules(style), guidance, f"Goal: {goal}" if goal else "")
        return "".join(f"{line}\n" for line in lines if line)

    def rules(self, style: PromptStyle) -> list[str]:
        """Return the lines on the task and on how to answer."""
        return [f"{style.role} {style.how_to_act}", self.instructions, self.several]

    @property
    def actions_a_turn(self) -> int:
        """Actions of an expert plan that an answer may have; calls are one of them."""
        return 1 if self.calls else self.max_actions

    @property
    def several(self) -> str:
        """Return how to write several actions, in one line; "" if an answer has one."""
        if self.actions_a_turn == 1:
            return ""
        return f'You may write up to {self.max_actions} actions, separated by "{self.action_sep}"; they run in order.'

    def message(self, observation: str, admissible: Sequence[str] = ()) -> str:
        """Return the observation and the cue; in the first message they follow the head."""
        listed = f"Admissible actions: {', '.join(admissible)}\n" if admissible else ""
        return f"{observation}\n{listed}{self.cue}"

    def earlier(self, kept: Sequence[Turn], taken: int) -> str:
        """Return the part of a prompt with ``history`` about the ``taken`` turns before it."""
        return (f"Turns taken: {taken}\n" if self.history_steps else "") + self.recalled(kept)

    def recalled(self, turns: Sequence[Turn]) -> str:
        """Return the newest turns for a prompt with ``history``."""
        return f"Your last turns:\n{''.join(map(self._recalled, turns))}Now:\n" if turns else ""

    def _recalled(self, turn: Turn) -> str:
        thought = f"Your thought: {turn.thought}\n" if self.history_thoughts and turn.thought else ""
        action = turn.action if turn.parsed else NOTHING_READ
        return f"{shortened(turn.observation, self.history_chars)}\n{thought}Action taken: {action}\n"

    def understand(self, text: str, functions: Sequence[Function]) -> Answer:
        """Read an answer, given the environment's functions (for forms with ``calls``)."""
        return self.read(text)

    def read(self, text: str) -> Answer:
        """Parse an answer. Returns the raw action; the environment cleans it."""
        raise NotImplementedError

    def split(self, answer: Answer, apart: bool = False) -> Answer:
        """Split the action of an answer into several; the first ``max_actions`` may run.

        ``apart``: each call in JSON is an action of its own.
        """
        if self.calls:
            return answer
        written = answer.action.split(self.action_sep) if self.max_actions > 1 else [answer.action]
        parts = tuple(action for part in written for action in _actions(part.strip(), apart) if action)
        if self.max_actions == 1 and len(parts) < 2:
            return answer
        if (dropped := max(0, len(parts) - self.max_actions)) and self.too_many == UNPARSED_IF_TOO_MANY:
            return UNPARSED
        actions = parts[: self.max_actions]
        action = self._joined(actions) or answer.action
        return replace(answer, action=action, actions=actions if len(actions) > 1 else (), dropped=dropped)

    def packed(self, plan: Sequence[str]) -> list[str]:
        """Return a plan with one entry an answer of a demonstration."""
        most = self.demo_max_actions or self.actions_a_turn
        return [self._joined(plan[first : first + most]) for first in range(0, len(plan), most)]

    def _joined(self, actions: Sequence[str]) -> str:
        return f" {self.action_sep} ".join(actions)

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

    ``demo_thought`` is a template with ``{goal}``, ``{action}`` and ``{plan}`` (this and the next).
    """

    require_thought: bool
    demo_thought: str

    thinks = True
    cue = "Your thought and action:"

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

    format_error = ""

    def read(self, text: str) -> Answer:
        return Answer(text)

    def write(self, action: str, thought: str) -> str:
        return action


def _actions(written: str, apart: bool) -> list[str]:
    calls = action_of(written).calls if apart else ()
    return list(map(str, calls)) if len(calls) > 1 else [written]


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
    """Return what follows an answer; if no action was read from it, with the form's own error."""
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
    apart: bool = False,
) -> dict[str, Any]:
    """Return the fields of a ``Turn`` for an answer and, if ids are kept, its ``ids``.

    ``apart``: as of ``PromptForm.split``.
    """
    answer = form.split(form.understand(text, functions), apart)
    thought_tokens = stream.tokens_of(ids, text[: answer.begins]) if stream and answer.begins else 0
    return {
        "action": answer.action,
        "answer": "" if answer.action == text else text,
        "thought": answer.thought,
        "thought_tokens": thought_tokens,
        "parsed": answer.parsed,
        "actions": list(answer.actions),
        "dropped": answer.dropped,
        "label": answer.label,
        "spans": {part: _ids_of(span, text, ids, stream) for part, span in answer.spans.items()} if stream else {},
    }


def _ids_of(span: tuple[int, int], text: str, ids: Sequence[int], stream: TokenStream) -> list[int]:
    """Return a part's token span; a part at the end includes the end-of-turn token."""
    first, last = (stream.tokens_of(ids, text[:index]) if index else 0 for index in span)
    return [first, len(ids) if span[1] == len(text) else last]
