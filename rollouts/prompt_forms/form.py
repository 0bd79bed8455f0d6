"""What a prompt form is: instructions, messages, and what an answer means (docs/prompt.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from envs.environment import PromptStyle
from envs.functions import Function
from rollouts.episode import Turn

NOTHING_READ = "(no action could be read)"
PLANNED = 2  # actions that the thought of a demonstration tells: a thought is short


@dataclass(frozen=True)
class Answer:
    """An answer, read. ``begins``: where in its text the action's part begins; what stands before it is the thought's.
    ``parsed`` is False where no action could be read: then all of it is nobody's. ``label`` is one of the form's ``labels`` or "",
    ``spans`` where in the text those of its ``parts`` are that it has, from the first character to the one after the last."""

    action: str
    thought: str = ""
    begins: int = 0
    parsed: bool = True
    label: str = ""
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)


UNPARSED = Answer("", parsed=False)


@dataclass(frozen=True)
class PromptForm:
    """The fields of a form are its settings; these are everybody's.

    Attributes:
        admissible: each message lists the actions that the environment would accept.
        history: None: the episode is one growing conversation. A number: each turn has a prompt, and a row, of its own, which
            tells the goal, that many of the newest turns and the observation.
        train_thoughts: whether RL learns from a thought's tokens, as from the action's; SFT always does.
        tell_format: an answer without a readable action is answered with ``format_error``.

    ``thinks``: its answers hold a thought. ``calls``: its actions are calls of the environment's functions. ``labels``: words for kinds
    of answer, and ``parts`` names of parts of one, which methods may tell apart (``algorithms.turns``). ``marks``: what of its
    instructions may be written like a control token (``<think>``).
    """

    admissible: bool = False
    history: int | None = field(default=None, metadata={"range": (0, 10**6)})
    train_thoughts: bool = True
    tell_format: bool = True

    thinks: ClassVar[bool] = False
    calls: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        return ()

    @property
    def instructions(self) -> str:
        """How to answer, in one line; "" where what the environment says of an action is all."""
        return ""

    @property
    def format_error(self) -> str:
        """One sentence: what was wrong with an unparsed answer, and what is expected; "" leaves that to the environment."""
        return "No action could be read in your answer."

    @property
    def cue(self) -> str:
        """The last line of each message."""
        return "Your action:"

    def head(self, style: PromptStyle, goal: str, guidance: str = "") -> str:
        """The first message up to its observation. ``guidance`` is a line of its own before the goal."""
        lines = [f"{style.role} {style.action_form}", self.instructions, guidance, f"Goal: {goal}" if goal else ""]
        return "".join(f"{line}\n" for line in lines if line)

    def message(self, observation: str, admissible: Sequence[str] = ()) -> str:
        """A message, of the first one what follows its head: the new state and the cue."""
        listed = f"Admissible actions: {', '.join(admissible)}\n" if admissible else ""
        return f"{observation}\n{listed}{self.cue}"

    def recalled(self, turns: Sequence[Turn]) -> str:
        """The newest turns, within a prompt of ``history``; thoughts are left out."""
        told = (f"{turn.observation}\nAction taken: {turn.action if turn.parsed else NOTHING_READ}\n" for turn in turns)
        return f"Your last turns:\n{''.join(told)}Now:\n" if turns else ""

    def understand(self, text: str, functions: Sequence[Function]) -> Answer:
        """``read`` in an environment with these functions, for a form that ``calls``."""
        return self.read(text)

    def read(self, text: str) -> Answer:
        """What a policy meant. The action is as it was said: to clean it is the environment's affair."""
        raise NotImplementedError

    def write(self, action: str, thought: str) -> str:
        """The answer that ``read`` takes for this action and thought."""
        raise NotImplementedError

    def demonstrate(self, goal: str, plan: Sequence[str], functions: Sequence[Function] = ()) -> str:
        """The answer of somebody who is going to do ``plan``, one action or more, and does the first of them."""
        return self.write(plan[0], self.thought(goal, plan))

    def thought(self, goal: str, plan: Sequence[str]) -> str:
        return ""


@dataclass(frozen=True)
class Thinking(PromptForm):
    """A form whose answers hold a thought and then an action.

    Attributes:
        require_thought: an answer without a thought counts as unparsed.
        demo_thought: the thought of a demonstration, of ``{goal}``, ``{action}`` and ``{plan}``: this action and the next one.
    """

    require_thought: bool = True
    demo_thought: str = "My plan is to {plan}."

    thinks: ClassVar[bool] = True

    @property
    def cue(self) -> str:
        return "Your thought and action:"

    def __post_init__(self) -> None:
        """Raises: ValueError: the template of thoughts names something else."""
        try:
            self.thought("goal", ["action"])
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(
                f"demo_thought={self.demo_thought!r} may hold {{goal}}, {{action}} and {{plan}}"
            ) from error

    def thought(self, goal: str, plan: Sequence[str]) -> str:
        """Of one line, whatever the actions."""
        first = [action.split("\n")[0] for action in plan[:PLANNED]]
        return " ".join(self.demo_thought.format(goal=goal, action=first[0], plan=", then ".join(first)).split())
