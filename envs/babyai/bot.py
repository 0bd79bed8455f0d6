"""The expert: minigrid's bot, which watches a game and knows how it would go on."""

import copy
from collections.abc import Iterator
from typing import Any

from minigrid.utils.baby_ai_bot import BabyAIBot, GoNextToSubgoal, OpenSubgoal, PickupSubgoal

from turngrid.envs.babyai.level import WORDS, Game, Moves, commands, things

LONGEST = 320  # moves of a plan: the turns of the longest levels
_SUBGOALS = 100  # that the bot may add before it names an action; in some games it never stops


class _Stack(list[Any]):
    """The bot's subgoals; too many at once are an error."""

    left = _SUBGOALS

    def append(self, subgoal: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise RecursionError("the bot adds subgoals without end")
        super().append(subgoal)


class Guide:
    """The bot beside a game, of which it learns each move.

    Where the bot gives up, as after a box was opened, a new one takes over, which has seen nothing
    yet. If that one gives up too, there is no plan until a later move.
    """

    next: int | None

    def __init__(self, game: Game) -> None:
        self._game = game  # the first attribute: a copy of the bot must refer to the game's copy
        self._begin()

    def watch(self, move: int) -> None:
        if self._game.over:
            return
        self.next = None if self.next is None else self._ask(move)
        if self.next is None:
            self._begin()

    def _begin(self) -> None:
        self._bot = BabyAIBot(self._game.env)
        self._bot.stack = _Stack(self._bot.stack)
        self.next = self._ask(None)

    def _ask(self, move: int | None) -> int | None:
        """Return the bot's next move; None if it gives up or has nothing left to do."""
        self._bot.stack.left = _SUBGOALS
        try:
            advice = int(self._bot.replan(move))
        except Exception:  # noqa: BLE001 - the bot asserts, and trips over what it did not expect
            return None
        return advice if advice < len(WORDS) else None

    def rest(self, longest: int = LONGEST) -> Moves:
        """Return the moves by which the bot would win from here; () if it would not, or by more."""
        return self._along(longest, macro=False)[0]

    def commands(self) -> tuple[str, ...]:
        """Return a plan of commands by which the bot would win from here; () if it would not."""
        return self._along(LONGEST, macro=True)[1]

    def _along(self, longest: int, macro: bool) -> tuple[Moves, tuple[str, ...]]:
        if self.next is None:
            return (), ()
        guide = copy.deepcopy(self)
        game = guide._game
        moves: list[int] = []
        plan: list[str] = []
        while not game.over and guide.next is not None and len(moves) < longest:
            command, way = guide._command() if macro else (WORDS[guide.next], (guide.next,))
            plan.append(command)
            moves += guide._play(way)
        return (tuple(moves), tuple(plan)) if game.won else ((), ())

    def _play(self, way: Moves) -> Iterator[int]:
        for move in way:
            if not self._game.over:
                self._game.play(move)
                self.watch(move)
                yield move

    def _command(self) -> tuple[str, Moves]:
        """Return the command for the bot's subgoal if it is about something in view, else for its
        next move.
        """
        assert self.next is not None
        offered, datum = commands(self._game, macro=True), self._bot.stack[-1].datum
        meant = {id(thing) for thing in getattr(datum, "obj_set", [datum])}
        for verb in self._verbs():
            named = {f"{verb} {name}" for name, thing, _ in things(self._game) if id(thing) in meant}
            ways = [(len(way), command, way) for command, way in offered.items() if command in named]
            if ways:
                return min(ways)[1:]
        return WORDS[self.next], (self.next,)

    def _verbs(self) -> tuple[str, ...]:
        """Return the commands for the newest subgoal and the one after it, the best first."""
        *_, newest = stack = self._bot.stack
        after = stack[-2] if len(stack) > 1 else None
        if not isinstance(newest, GoNextToSubgoal) or newest.reason == "PutNext":
            return ()
        then = ("pick up",) if isinstance(after, PickupSubgoal) else ("open",) if isinstance(after, OpenSubgoal) else ()
        return (*then, "go to")
