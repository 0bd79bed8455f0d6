"""What ``python -m train.play`` shows and how it asks: a terminal with rich, or plain lines in a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from envs.types import Observation, TaskRef
from envs.utils.printable import printable
from rollouts.episode import Episode, Outcome

COMMANDS = {
    "?": "these commands, and what the game would accept now",
    "goal": "the goal again",
    "plan": "the expert's plan",
    "expert": "play the plan's next step",
    "restart": "this game from its start",
    "next": "the next game of the split",
    "quit": "the end (Ctrl-D too)",
    "!WORDS": "send these words to the game even if they are one of the above",
    '"""': "start, and in a second line end, an action of several lines",
}
STRAYED = "You did other things too: the plan may no longer fit. restart to follow it."
ENDINGS = {
    Outcome.WON: ("won", "bold green"),
    Outcome.LOST: ("lost", "bold red"),
    Outcome.OUT_OF_TURNS: ("out of turns", "bold yellow"),
}


class Screen:
    """``interactive``: somebody sits at a terminal. Otherwise commands are read from a pipe and shown as they come."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self.interactive = sys.stdin.isatty()
        if self.interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 - input() gets a history and line editing

    def show(self, text: str, style: str = "") -> None:
        """One block of text: games print brackets that rich would take for markup, and plans hold what was typed."""
        self._console.print(Text(printable(text), style=style), soft_wrap=not self._console.is_terminal)

    def ask(self, prompt: str = "> ") -> str:
        """A line from the policy, as it was typed.

        Raises:
            EOFError: there are no more.
        """
        if self.interactive:
            return input(prompt)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        self.show(f"{prompt}{line.rstrip()}", "bold")
        return line.rstrip()

    def game(self, task: TaskRef, number: int, reward: str) -> None:
        title = f"{task.env} {task.task}, game {number} of {task.split} (seed {task.seed}), reward={reward}"
        if self._console.is_terminal:
            self._console.print(Rule(title))
        else:
            self.show(f"--- {title}")

    def goal(self, goal: str) -> None:
        if goal:
            self.show(f"Goal: {goal}", "cyan")

    def state(self, seen: Observation, status: str) -> None:
        self.show(f"[{status}]", "dim")
        self.show(seen.text)

    def commands(self, legal: Sequence[str]) -> None:
        width = max(map(len, COMMANDS))
        self.show("\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()), "dim")
        self.show("The game accepts: " + ("; ".join(legal) if legal else "it does not say"))

    def plan(self, expert_plan: Sequence[str], done: int, others: bool) -> None:
        """``done`` of its steps were played; ``others``: and other actions besides."""
        if not expert_plan:
            return self.show("Nobody knows a plan for this game.")
        marks = [" (done)" if index < done else "" for index in range(len(expert_plan))]
        steps = [f"  {n}. {step}{mark}" for n, (step, mark) in enumerate(zip(expert_plan, marks, strict=True), 1)]
        self.show("\n".join([*steps, *([STRAYED] if others else [])]))

    def ending(self, episode: Episode, max_turns: int, reward: str) -> None:
        word, style = ENDINGS.get(episode.outcome, (str(episode.outcome), "bold"))
        earned = [turn.rewards.get(reward, 0.0) for turn in episode.turns]
        self.show(f"{word} after {len(episode.turns)} of {max_turns} turns", style)
        self.show(f"{reward}: {' '.join(f'{value:.3g}' for value in earned)}; sum {sum(earned):.3g}")
