"""What the agent reads, as chat messages (the study's protocol: no list of legal commands, no system message)."""

from __future__ import annotations

from envs.environment import PromptStyle

Message = dict[str, str]
CUE = "Your action:"


def first_message(style: PromptStyle, goal: str, observation: str) -> str:
    """The first user turn: role, the form of an action, the goal, the state, a cue for the action."""
    return with_cue(head(style, goal), observation)


def head(style: PromptStyle, goal: str, guidance: str = "") -> str:
    """What the first user turn says before the state. ``guidance`` is a line of its own before the goal."""
    line = f"{guidance}\n" if guidance else ""
    return f"{style.role} {style.action_form}\n{line}Goal: {goal}\n"


def with_cue(before: str, observation: str) -> str:
    return f"{before}{next_message(observation)}"


def next_message(observation: str) -> str:
    """A later user turn: the new state and the cue."""
    return f"{observation}\n{CUE}"


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}
