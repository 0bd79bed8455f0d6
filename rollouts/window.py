"""What the policy sees of an episode: all of it, or the newest turns.

With a window, or with summaries (``rollouts.summaries``), an episode becomes several token rows. A row begins with the first message (role, goal, an observation)
and the turns that were kept, all of it prompt, and goes on with turns that are sampled in it; so each action is sampled,
and trained, in one row. A new row begins where the window is full, or has no room for another action.

With a history (``prompt.history``) each turn has a row of its own, whose prompt is one message that tells the turns kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from rollouts.episode import Turn
from rollouts.prompt_forms.form import PromptForm
from rollouts.prompts import Message, assistant, user
from rollouts.stream import TokenStream
from rollouts.summaries import Summaries

SUMMED_UP = ("summary", "mem1")  # rollout forms, whose settings are those of ``Summaries``


@dataclass(frozen=True)
class Window:
    """A row holds at most ``turns`` turns; the next one begins with the newest ``keep`` of them.

    ``told``: they are told in its first message, and not among the row's turns, of which there is one.
    """

    turns: int
    keep: int
    told: bool = False


def window_of(
    env: Mapping[str, Any], form: PromptForm, forms: Mapping[str, Any] | None = None
) -> Window | Summaries | None:
    """The window that an ``env`` node asks for: ``window_turns``, and ``window_keep`` (None: half of it); or a form's history; or the
    summaries that a node ``rollout_form`` does.

    Raises:
        ValueError: summaries refuse their settings.
    """
    if forms and (name := summed_up(forms)):
        return Summaries(**forms[name])
    if form.history is not None:
        return Window(1, form.history, told=True)
    turns, keep = env.get("window_turns"), env.get("window_keep")
    return None if turns is None else Window(int(turns), int(turns) // 2 if keep is None else int(keep))


def summed_up(forms: Mapping[str, Any] | None) -> str:
    """Which of the chosen rollout forms has summaries; "" where none does."""
    return next((name for name in SUMMED_UP if name in (forms or {})), "")


def rows_of(turns: int, window: Window | Summaries | None) -> int:
    """How many rows an episode of so many turns has, as long as its windows have room for them; with summaries at least."""
    if window is None or window.turns is None or turns <= window.turns:
        return 1
    if isinstance(window, Summaries):
        return min(ceil(turns / window.turns), (window.most or turns) + 1)
    return turns if window.told else 1 + ceil((turns - window.turns) / (window.turns - window.keep))


class View:
    """The present window. ``head`` is the first message up to its observation; ``turns`` are the episode's, which grow.

    ``stream`` holds the window's ids; None where no ids are kept. A ``content`` is a message as the form says it.
    """

    def __init__(
        self,
        form: PromptForm,
        head: str,
        turns: Sequence[Turn],
        window: Window | Summaries | None,
        stream: TokenStream | None,
    ) -> None:
        self._form, self._head, self._turns, self._stream = form, head, turns, stream
        self._window = window if isinstance(window, Window) else None
        self._summaries = window if isinstance(window, Summaries) else None
        self.messages: list[Message] = []
        self.prompt_ids: list[int] = []
        self._first = self._begin = 0  # turns: the oldest that is shown, the oldest that was sampled in this window

    def open(self, content: str) -> None:
        """Begin the episode with what its first message says after the head."""
        self._start([user(self._head + content)], [])

    def show(self, content: str) -> list[int]:
        """The newest turn has been played and this message came of it; the ids that this adds."""
        self.messages += [assistant(self._turns[-1].said), user(content)]
        return self._stream.add_context(self.messages[-1:]) if self._stream else []

    def take(self, turn: Turn, content: str) -> list[int]:
        """A turn that was not sampled here, and the message that came of it; the ids that the message adds."""
        if self._stream:
            self._stream.add_sampled(turn.action_ids)
        self.messages += [assistant(turn.said), user(content)]
        return self._stream.add_context(self.messages[-1:]) if self._stream else []

    def replay(self, turn: Turn, content: str) -> None:
        """The same for a turn that was given as text: it gets its ids, and becomes part of the prompt."""
        if self._stream:
            turn.action_ids = self._stream.encode_action(turn.said)
        turn.context_ids = self.take(turn, content)
        self.prompt_ids = list(self._stream.ids) if self._stream else []

    @property
    def full(self) -> bool:
        if self._window is None:
            return False
        return len(self._turns) - (self._begin if self._window.told else self._first) >= self._window.turns

    def slide(self, content: str) -> bool:
        """Begin a new row at ``content``, the present message, with what is kept; with less if it was begun only now.
        False: there is no window, or nothing left to leave out."""
        played, kept = len(self._turns) - self._begin, self._begin - self._first
        if self._window is None or not (played or kept):
            return False
        if played:
            self._turns[-1].context_ids = []  # that row ends with its last action
        keep = min(self._window.keep, len(self._turns)) if played else kept // 2
        shown = self._turns[len(self._turns) - keep :]
        if self._window.told:
            self._start([user(f"{self._head}{self._form.recalled(shown)}{content}")], shown)
            return True
        first, *rest = [*(self._form.message(turn.observation, turn.admissible) for turn in shown), content]
        self._start([user(self._head + first), *map(user, rest)], shown)
        return True

    @property
    def to_be_summed_up(self) -> Summaries | None:
        """The rules of summaries where one is due after the newest turn; never where no ids are kept."""
        rules, row = self._summaries, len(self._turns) - self._begin
        return rules if rules and self._stream and rules.due(row, len(self._stream.ids)) else None

    def begin_with(self, summary: str, content: str) -> None:
        """Begin a new row at ``content``, the present message, with what a summary is told as."""
        self._start([user(f"{self._head}{summary}{content}")], [])

    def _start(self, users: Sequence[Message], kept: Sequence[Turn]) -> None:
        """A row whose prompt is the first of ``users``, then each kept turn with the message that followed it, if that is not told
        in the first."""
        self._begin = len(self._turns)
        self._first = self._begin - len(kept)
        self.messages = [users[0]]
        if self._stream:
            self._stream.start(self.messages)
        for turn, following in zip(kept, users[1:], strict=False):
            self.messages += [assistant(turn.said), following]
            if self._stream:
                self._stream.add_sampled(turn.action_ids)
                self._stream.add_context([following])
        self.prompt_ids = list(self._stream.ids) if self._stream else []

    def begins_with(self, turn: int) -> list[int]:
        """The ids of the prompt where turn number ``turn`` is the first of a later row, else nothing."""
        return list(self.prompt_ids) if turn and turn == self._begin else []
