"""The terminal view of a game and its players, which plug into ``turngrid.rollouts.loop``."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from turngrid.envs.types import Observation, StepResult, TaskRef
from turngrid.envs.utils.printable import printable
from turngrid.rollouts.loop import EpisodeSpec, Session
from turngrid.rollouts.policy import Reply, TurnContext

QUOTES = '"""'
COMMANDS = {
    "?": "these commands, and what the game would accept now",
    "plan": "the expert's plan",
    "restart": "this game from its start",
    "next": "the next game of the split",
    "quit": "the end (Ctrl-D too)",
    "!WORDS": "send these words to the game even if they are one of the above",
    QUOTES: "start, and in a second line end, an action of several lines",
}
LEAVING = ("restart", "next", "quit")


class Leave(Exception):
    """The player leaves the game; the message is ``restart``, ``next`` or ``quit``."""


class Screen:
    """Shows text and asks for lines; in a pipe (not ``interactive``) the lines are shown too."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self.interactive = sys.stdin.isatty()
        if self.interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 - input() gets a history and line editing

    def show(self, text: str, style: str = "") -> None:
        """Show a block of text; rich would take the brackets of a game for markup."""
        self._console.print(Text(printable(text), style=style), soft_wrap=not self._console.is_terminal)

    def ask(self, prompt: str = "> ") -> str:
        """Return the next line; raise Leave if there is none."""
        try:
            if self.interactive:
                return input(prompt)
        except EOFError:
            raise Leave("quit") from None
        if not (line := sys.stdin.readline()):
            raise Leave("quit")
        self.show(f"{prompt}{line.rstrip()}", "bold")
        return line.rstrip()

    def leave_if_asked(self, words: str) -> None:
        if words in LEAVING:
            raise Leave(words)


@dataclass
class ShownSession:
    """A session that prints what the player's seat observes, and its turns' score and rewards.

    Attributes:
        results: of the player's turns; a match's score is that of its seat.
        seat: the one to move.
    """

    session: Session
    spec: EpisodeSpec
    screen: Screen
    results: list[StepResult] = field(default_factory=list)
    seat: str = ""

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        seen = await self.session.reset(task, seed)
        self._show(seen)
        return seen

    async def step(self, action: str) -> StepResult:
        result = await self.session.step(action)
        points = result.scores.get(self.spec.seat, 0.0)
        own = replace(result, score_delta=result.score_delta + points, won=result.won or points > 0)
        if self.seat == self.spec.seat:
            self.results.append(own)
        elif result.over and self.results:  # by the opponent's action
            self.results[-1:] = [replace(own, valid=True)]
        self._show(result.observation)
        return result

    async def finish(self) -> StepResult:
        self.screen.show("Cut off, and graded as it stands.", "dim")
        return await self.session.finish()

    def show_plan(self) -> None:
        steps = [f"  {number}. {step}" for number, step in enumerate(self.spec.task.expert_plan, 1)]
        self.screen.show("\n".join(steps) or "This game has no expert plan.")

    def _show(self, seen: Observation) -> None:
        self.seat = seen.seat
        if seen.seat not in ("", self.spec.seat):
            return  # the opponent's cards
        if not self.results and (goal := seen.goal or self.spec.task.goal):
            self.screen.show(f"Goal: {goal}", "cyan")
        self.screen.show(f"[{', '.join([*self._progress(self.results), *self._last_turn(self.results)])}]", "dim")
        self.screen.show(seen.text)

    def _progress(self, results: Sequence[StepResult]) -> list[str]:
        turn_count, most, best = len(results), self.spec.max_turns, self.spec.task.max_score
        score = sum(result.score_delta for result in results)
        over = turn_count == most or (turn_count and (results[-1].terminated or results[-1].truncated))
        turns = f"{turn_count} of {most} turns played" if over else f"turn {turn_count + 1} of {most}"
        return [turns, f"score {score:.3g}" + (f" of {best:g}" if best > 0 else "")]

    def _last_turn(self, results: Sequence[StepResult]) -> list[str]:
        if not results:
            return []
        reward: Any = self.spec.reward
        understood = [] if results[-1].valid else ["not a valid action"]
        if getattr(reward, "blocking", False):  # such a reward asks a server, once, at the end
            return [*understood, f"{reward.name} reward at the end"]
        values = reward.turn_rewards(results, results[-1].won, self.spec.task.max_score)
        return [*understood, f"{reward.name} reward {values[-1]:+.3g}"]


@dataclass
class Human:
    """Reads lines until one is an action; commands of the table use up no turn."""

    screen: Screen
    table: ShownSession
    name: str = "human"

    async def act(self, context: TurnContext) -> Reply:
        while True:
            if action := self._action(self._ask(), context):
                return Reply(text=action)

    def _ask(self) -> str:
        words = self.screen.ask().strip()
        if words != QUOTES:
            return words
        lines = []
        while (line := self.screen.ask("")).strip() != QUOTES:
            lines.append(line)
        return "!" + "\n".join(lines)

    def _action(self, words: str, context: TurnContext) -> str | None:
        """Return the action for the game; if ``words`` are a command, run it and return None."""
        self.screen.leave_if_asked(words)
        if words == "?":
            legal = "; ".join(context.observation.legal) or "it does not say"
            self.screen.show(f"{commands()}\nThe game accepts: {legal}")
        elif words == "plan":
            self.table.show_plan()
        else:
            return words.removeprefix("!")
        return None


@dataclass
class ShownExpert:
    """Plays the expert plan: at a terminal a step a key press, in a pipe without a pause."""

    screen: Screen
    name: str = "expert"

    async def act(self, context: TurnContext) -> Reply:
        if self.screen.interactive:
            self.screen.leave_if_asked(self.screen.ask("(Enter: the next step; restart, next, quit) ").strip())
        action = context.task.expert_plan[context.turn]
        self.screen.show(f"> {action}", "bold")
        return Reply(text=action)


def commands() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
