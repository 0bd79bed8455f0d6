"""Part of an episode that the policy sees: all of it, or the newest turns.

With a window or summaries an episode becomes several token rows. A row's
prompt is the first message (role, goal, an observation) and the kept turns; turns sampled in the
row follow. Each action is sampled, and trained, in one row. A new row begins if the window is full
or has no room for another action.

With ``prompt.history`` each turn has a separate row; its prompt is one message with the kept turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil
from typing import Any

from turngrid.rewards.declared import Method, number
from turngrid.rollouts.episode import SUMMARY, Turn
from turngrid.rollouts.prompt_forms.form import PromptForm, messages_of
from turngrid.rollouts.retrieval import NOTHING, Retrieved, with_text
from turngrid.rollouts.stream import Message, TokenStream, assistant, joined, user

ASK = (
    "Your earlier turns are left out from here on. Sum up what you did and found so far, and what is left to do.\n"
    "Your summary:"
)
SHOWN = 10  # newest actions in the summary of a demonstration


@dataclass(frozen=True)
class Window:
    """A row holds at most ``turns`` turns; the next row begins with the newest ``keep`` of them.

    Args:
        inline: put the kept turns in the row's first message. Such a row has exactly one turn.
    """

    turns: int
    keep: int
    inline: bool = False


@dataclass(kw_only=True)
class Summaries(Method):
    """Rules for summaries; conf/rollout_form/summary.yaml describes them.

    Raises:
        ValueError: a number is below 1, or neither ``tokens`` nor ``turns`` is given.
    """

    tokens: int | None = number(1)
    turns: int | None = number(1)
    most: int | None = number(1)
    length: int = number(1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens is self.turns is None:
            raise ValueError("tokens=null turns=null: summaries would never be due; set one of them")

    def due(self, turns: int, tokens: int) -> bool:
        long = self.tokens is not None and tokens >= self.tokens
        return turns > 0 and (long or (self.turns is not None and turns >= self.turns))

    def left(self, turns: Sequence[Turn]) -> bool:
        return self.most is None or sum(turn.role == SUMMARY for turn in turns) < self.most

    def ask(self, observation: str) -> str:
        return f"{observation}\n{ASK}"

    def heading(self, summary: str) -> str:
        """Return the text of the next row's first message between its head and the observation."""
        return f"Your summary so far:\n{summary}\nNow:\n"

    def demonstrate(self, turns: Sequence[Turn]) -> str:
        actions = [turn.action.split("\n")[0] for turn in turns if not turn.aside]
        return f"Done so far: {', '.join(actions[-SHOWN:])}."


SETTINGS = {item.name for item in fields(Summaries)}


def window_of(
    env: Mapping[str, Any], form: PromptForm, forms: Mapping[str, Any] | None = None
) -> Window | Summaries | None:
    """Return the window that the config sets, or None.

    Args:
        env: node with ``window_turns`` and ``window_keep`` (None: half of the turns).
        form: its ``history`` sets a window of one turn.
        forms: node ``rollout_form``, which may set summaries.

    Raises:
        ValueError: a setting of the summaries is out of range.
    """
    if forms and (name := summed_up(forms)):
        return Summaries(**{key: forms[name][key] for key in SETTINGS})
    if form.history is not None:
        return Window(1, form.history, inline=True)
    turns, keep = env.get("window_turns"), env.get("window_keep")
    return None if turns is None else Window(int(turns), int(turns) // 2 if keep is None else int(keep))


def summed_up(forms: Mapping[str, Any] | None) -> str:
    """Return the chosen rollout form with the settings of ``Summaries``, or ""."""
    return next((name for name, settings in (forms or {}).items() if SETTINGS <= {*(settings or {})}), "")


def rows_of(turns: int, window: Window | Summaries | None) -> int:
    """Return an episode's number of rows if its windows have room; a minimum with summaries."""
    if window is None or window.turns is None or turns <= window.turns:
        return 1
    if isinstance(window, Summaries):
        return min(ceil(turns / window.turns), (window.most or turns) + 1)
    return turns if window.inline else 1 + ceil((turns - window.turns) / (window.turns - window.keep))


class View:
    """The present window of an episode.

    Args:
        form: writes the messages. Methods take those of one observation as ``shown``.
        head: the first message up to its observation.
        turns: the episode's growing list of turns.
        stream: holds the window's token ids; None if no ids are kept.

    Attributes:
        fresh: whether the newest messages show a library's text that the row did not have.
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
        self._first = self._begin = 0  # oldest turn shown; first sampled in this window
        self.retrieved, self.fresh, self._in_row = NOTHING, False, ""

    def retrieve(self, passage: Retrieved, head: str) -> None:
        """Take a library's text for the next turn.

        Rows that begin from now on have it in their ``head``. In the present row the text before it
        stays, until another one is shown (``with_retrieved``).
        """
        self.retrieved, self._head, self.fresh = passage, head, False

    def with_retrieved(self, shown: Sequence[Message]) -> list[Message]:
        """Return the messages before a turn, with the library's text if the row lacks it."""
        text = self.retrieved.text
        if not text or text == self._in_row:
            return list(shown)
        self._in_row, self.fresh = text, True
        return with_text(self._form, shown, text)

    def show(self, shown: Sequence[Message]) -> list[int]:
        """Add the newest turn and the messages after it; return the ids that these add."""
        self.messages += [assistant(self._turns[-1].response), *shown]
        return self._stream.add_context(shown) if self._stream else []

    def take(self, turn: Turn, shown: Sequence[Message]) -> list[int]:
        """Add a turn sampled elsewhere and the messages after it; return the messages' ids."""
        if self._stream:
            self._stream.add_sampled(turn.action_ids)
        self.messages += [assistant(turn.response), *shown]
        return self._stream.add_context(shown) if self._stream else []

    def replay(self, turn: Turn, shown: Sequence[Message]) -> None:
        """Add a turn given as text, which gets its ids and becomes part of the prompt."""
        if self._stream:
            turn.action_ids = self._stream.encode_action(turn.response)
        turn.context_ids = self.take(turn, shown)
        self.prompt_ids = list(self._stream.ids) if self._stream else []

    @property
    def full(self) -> bool:
        if self._window is None:
            return False
        return len(self._turns) - (self._begin if self._window.inline else self._first) >= self._window.turns

    def slide(self, shown: Sequence[Message]) -> bool:
        """Begin a new row at the present observation, with the kept turns.

        A row without a sampled turn keeps half as many. Returns False if there is no window, or no
        turn left to drop.
        """
        sampled, kept = len(self._turns) - self._begin, self._begin - self._first
        if self._window is None or not (sampled or kept):
            return False
        if sampled:
            self._turns[-1].context_ids = []  # that row ends with its last action
        keep = min(self._window.keep, len(self._turns)) if sampled else kept // 2
        kept_turns = self._turns[len(self._turns) - keep :]
        if self._window.inline:
            earlier = self._form.earlier(kept_turns, len(self._turns))
            self._start(self._head + earlier, [shown], kept_turns)
        else:
            self.begin_after(kept_turns, shown)
        return True

    @property
    def to_be_summed_up(self) -> Summaries | None:
        """Return the rules if a summary is due after the newest turn; None without token ids."""
        rules, row = self._summaries, len(self._turns) - self._begin
        return rules if rules and self._stream and rules.due(row, len(self._stream.ids)) else None

    def begin(self, message: str) -> None:
        """Begin a row with one message."""
        self._start(message, [[]], [])

    def begin_with(self, summary: str, shown: Sequence[Message]) -> None:
        """Begin a row at the present observation, after the head and the text of a summary."""
        self._start(self._head + summary, [shown], [])

    def begin_after(self, turns: Sequence[Turn], shown: Sequence[Message]) -> None:
        """Begin a new row at the present observation, after these turns."""
        self._start(self._head, [*(messages_of(self._form, turn) for turn in turns), shown], turns)

    def _start(self, head: str, shown: Sequence[Sequence[Message]], kept: Sequence[Turn]) -> None:
        """Begin a row: ``head``, the first of ``shown``, then each kept turn and what follows it.

        If the kept turns are inline, ``shown`` has one observation, so only that one is added.
        """
        self._begin = len(self._turns)
        self._first = self._begin - len(kept)
        self._in_row, self.fresh = self.retrieved.text, bool(self.retrieved.text)
        self.messages = [user(head + joined(shown[0]))]
        if self._stream:
            self._stream.start(self.messages)
        for turn, following in zip(kept, shown[1:], strict=False):
            self.take(turn, following)
        self.prompt_ids = list(self._stream.ids) if self._stream else []

    def begins_with(self, turn: int) -> list[int]:
        """Return the prompt's ids if turn index ``turn`` is the first of a later row, else []."""
        return list(self.prompt_ids) if turn and turn == self._begin else []
