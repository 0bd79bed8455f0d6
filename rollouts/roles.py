"""Roles of one policy in one episode, such as a planner and an actor.

The roles share the weights (Dr. MAS, arXiv 2602.08847). Each answer is sampled from a prompt of its
own, which begins a row. It goes to the environment, or is an aside
(``turngrid.rollouts.episode.Turn``): then another role answers the same observation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar

from turngrid.envs.environment import PromptStyle
from turngrid.envs.types import Observation
from turngrid.envs.utils.printable import shortened
from turngrid.rewards.declared import Conflict, Method, number, without
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.prompt_forms.form import NOTHING_READ, PromptForm, messages
from turngrid.rollouts.retrieval import lines_of
from turngrid.rollouts.stream import joined

ENVIRONMENT, ACCEPT = "environment", "accept"  # the environment gets this answer, or the action before it
GOAL, OBSERVATION, OWN, OTHERS = SEES = ("goal", "observation", "own", "others")
CUE = "Your answer:"


@dataclass(kw_only=True)
class Role(Method):
    """A role; conf/roles/planner.yaml and actor.yaml describe the settings.

    Raises:
        ValueError: ``sees`` has an unknown word, or ``next`` is empty.
    """

    instruction: str
    acts: bool
    sees: list[str]
    history: int = number(0)
    next: Any
    max_tokens: int | None = number(1)
    every: int = number(1)
    most: int = number(1)

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("roles",),
            lambda role, roles: not {*role.followers} <= {*roles},
            "they lack a role that it hands over to",
            "roles=[...,{method.needed}]",
        ),
        Conflict(
            ("roles",), lambda _, roles: not any(role.acts for role in roles.values()), "none acts", "roles=[...,actor]"
        ),
        Conflict(
            ("roles",),
            lambda role, roles: role.every > 1 and role.default not in roles,
            "every={method.every} needs a role as the last entry of its next",
            "every=1",
        ),
        Conflict(
            ("roles",),
            lambda role, roles: ACCEPT in role.targets.values() and role in _before_actions(roles),
            "it may answer before a role that acts, and then there is no action to accept",
            "roles=[actor,...]",
        ),
        without("rollout_form", "its episodes do not have a row for each answer", "rollout_form=linear"),
        without("windows", "each answer has a prompt of its own"),
        without("seats", "a seat has one role", "roles=[] algo=marshal"),
        without("library", "its text has no place in their prompts", "library=[]"),
        without("schedules", "evaluation, which has no steps, has roles too", "one number"),
        Conflict(
            ("data.max_response_length",),
            lambda role, room: (role.max_tokens or 0) > room,
            "an answer of {method.max_tokens} tokens has no room",
            "data.max_response_length={method.max_tokens}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := {*self.sees} - {*SEES}:
            raise ValueError(f"sees={min(unknown)} must be one of: {', '.join(SEES)}")
        if not self.targets:
            raise ValueError(f"next={self.next} must name a role, {ENVIRONMENT} or {ACCEPT}")

    @property
    def targets(self) -> dict[str, str]:
        """Return the role that follows, by label in small letters."""
        by_label = self.next if isinstance(self.next, Mapping) else {"": self.next}
        return {str(label).lower(): str(follows) for label, follows in by_label.items()}

    @property
    def default(self) -> str:
        """Return the role that follows an answer without a label."""
        return [*self.targets.values()][-1]

    @property
    def followers(self) -> list[str]:
        """The roles that may follow."""
        return [name for name in dict.fromkeys(self.targets.values()) if name not in (ENVIRONMENT, ACCEPT)]

    @property
    def needed(self) -> str:
        return ",".join(self.followers)

    def follows(self, turn: Turn) -> str:
        """Return who follows an answer."""
        labels = "|".join(map(re.escape, sorted(self.targets, key=len, reverse=True)))
        found = re.search(rf"(?<!\w)({labels})(?!\w)", f"{turn.label} {turn.action}".lower())
        return self.targets[found[1]] if found else self.default


def _before_actions(roles: Mapping[str, Role]) -> list[Role]:
    """Return the roles that may answer an observation before any that acts."""
    first = next(iter(roles))
    early, names = [], [first, roles[first].default] if roles[first].every > 1 else [first]
    for name in names:  # the loop adds names
        if name in roles and not roles[name].acts and roles[name] not in early:
            early.append(roles[name])
            names += roles[name].followers
    return early


class Roles(dict[str, Role]):
    """The roles of an episode by name; the first one answers a new observation."""

    def opening(self, turns: Sequence[Turn]) -> str:
        """Return the role that answers a new observation, after these turns."""
        first = next(iter(self))
        acted = sum(not turn.aside for turn in turns)
        return self[first].default if acted % self[first].every else first

    def following(self, turns: Sequence[Turn]) -> str:
        """Return who follows the newest answer: a role, ``ENVIRONMENT`` or ``ACCEPT``.

        If that role has given its ``most`` answers at this observation, the environment gets the
        newest action. If there is none, the first role that acts follows.
        """
        role = self[turns[-1].role]
        follows = role.follows(turns[-1])
        if follows in (ENVIRONMENT, ACCEPT):
            return follows
        here = [turn.role for turn in (turns[-1], *_asides(turns))]
        if here.count(follows) < self[follows].most:
            return follows
        if not any(self[name].acts for name in here):
            return next(name for name in self if self[name].acts)
        return ENVIRONMENT if role.acts else ACCEPT

    def accept(self, turns: Sequence[Turn]) -> None:
        """Let the newest answer send the newest action at this observation to the environment."""
        newest = turns[-1]
        for turn in _asides(turns):
            if self[turn.role].acts:
                newest.answer, newest.action, newest.parsed = newest.response, turn.action, turn.parsed
                newest.actions, newest.dropped = list(turn.actions), turn.dropped
                return

    def prompt(
        self,
        name: str,
        form: PromptForm,
        style: PromptStyle,
        goal: str,
        turns: Sequence[Turn],
        seen: Observation,
        history: int,
    ) -> str:
        """Return the message that a role answers.

        Args:
            form: of the roles that act.
            turns: of the episode so far.
            seen: the present observation.
            history: earlier turns to show.
        """
        role = self[name]
        shown_goal = goal if GOAL in role.sees else ""
        text = joined(messages(form, seen)) if role.acts else f"{seen.text}\n{CUE}"
        if OBSERVATION not in role.sees:
            text = form.cue if role.acts else CUE
        return f"{_head(role, form, style, shown_goal)}{self._earlier(name, form, turns, seen, history)}{text}"

    def _earlier(self, name: str, form: PromptForm, turns: Sequence[Turn], seen: Observation, history: int) -> str:
        """Return the turns that a role sees; an observation is shown once."""
        lines, last = list[str](), ""
        shown = [turn for turn in turns if (OWN if turn.role == name else OTHERS) in self[name].sees]
        for turn in shown[max(0, len(shown) - history) :]:
            if turn.observation not in (last, seen.text):
                last = turn.observation
                lines.append(shortened(last, form.history_chars))
            lines.append(f"{turn.role}: {turn.action if turn.parsed else NOTHING_READ}")
        return "\n".join(["So far:", *lines, "Now:\n"]) if lines else ""


def _head(role: Role, form: PromptForm, style: PromptStyle, goal: str) -> str:
    if role.acts:
        return form.head(style, goal, role.instruction)
    return lines_of(style.role, role.instruction, f"Goal: {goal}" if goal else "") + "\n"


def _asides(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Yield the answers to the present observation before the newest one, backwards."""
    return takewhile(lambda turn: turn.aside, reversed(turns[:-1]))
