"""Make a seed's game of BabyAI, and play it in words.

The expert is minigrid's bot, which watches a game and knows how it would go on.
"""

import copy
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from minigrid.utils.baby_ai_bot import BabyAIBot, GoNextToSubgoal, OpenSubgoal, PickupSubgoal

from turngrid.envs.babyai.level import VERBS, WORDS, Game, Moves, commands, described, objects_in_view
from turngrid.envs.environment import GameRecord, Rejected
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import EnvError, InvalidAction, Observation, TaskRef

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
    """The bot, which watches each move of a game.

    If it gives up, as after a box was opened, a new bot takes over, which has not seen the rooms
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
        """Pass the newest move to the bot; return its next one, or None if it has none."""
        self._bot.stack.left = _SUBGOALS
        try:
            advice = int(self._bot.replan(move))
        except Exception:  # noqa: BLE001 - the bot asserts, and trips over what it did not expect
            return None
        return advice if advice < len(WORDS) else None

    def plan(self, macro: bool = False, longest: int = LONGEST) -> tuple[Moves, tuple[str, ...]]:
        """Return the bot's moves from here to its win, and the commands for them.

        Both are empty if it does not win in ``longest`` moves.
        """
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
        """Return the command for the bot's subgoal if that is in view, else for its next move."""
        assert self.next is not None
        offered, datum = commands(self._game, macro=True), self._bot.stack[-1].datum
        meant = {id(obj) for obj in getattr(datum, "obj_set", [datum])}
        for verb in self._verbs():
            named = {f"{verb} {name}" for name, obj, _ in objects_in_view(self._game) if id(obj) in meant}
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


class BabyAIEnv(TextEnv):
    """One level at a time. A dense score is the number of moves by which the bot's plan is shorter
    than at the start, at least 0.
    """

    ends = " ."

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._macro = self._settings.actions == "macro"
        file = accepted_json(task)
        self._game = Game(file["level"], file["seed"])
        if self._game.start != file["start"]:
            raise EnvError(f"{task.key}: this minigrid ({version('minigrid')}) makes another game of its seed")
        self._dense, self._most = task.params["dense"], task.max_score
        self._guide = Guide(self._game) if self._dense or self._expert else None
        self._longest = LONGEST if self._expert else int(self._most)  # a longer plan scores 0 all the same
        self._rest: Moves | None = None
        return self.observe_message("")

    def step_game(self, command: str) -> RawStep:
        game, moves = self._game, commands(self._game, self._macro).get(command)
        if moves is None:
            known = command.startswith(VERBS if self._macro else WORDS)
            raise InvalidAction(f"You cannot {command} now." if known else f"There is no action {command!r}.")
        for move in moves:
            if not game.over:
                self._play(move)
        return RawStep(self.observe_message(""), self._score(), won=game.won, lost=game.over and not game.won)

    def _play(self, move: int) -> None:
        self._game.play(move)
        if self._guide:
            self._guide.watch(move)
        self._rest = self._rest[1:] if self._rest and self._rest[0] == move else None

    def _score(self) -> float | None:
        if not self._dense or self._game.won:
            return self._most if self._game.won else None
        return max(0.0, self._most - (len(self._plan()) or self._most))

    def _plan(self) -> Moves:
        """Return the rest of the bot's plan; () if it has none."""
        if self._rest is None:
            self._rest = self._guide.plan(longest=self._longest)[0] if self._guide else ()
        return self._rest

    def observe_message(self, message: str) -> Observation:
        return super().observe_message(f"{message} {described(self._game)}".lstrip())

    def legal_actions(self) -> tuple[str, ...]:
        return tuple(commands(self._game, self._macro))

    def expert_actions(self) -> tuple[str, ...]:
        if self._guide and self._macro:
            return self._guide.plan(macro=True)[1]
        return tuple(WORDS[move] for move in self._plan())


def write_game(params: Mapping[str, Any], seed: int, folder: Path) -> GameRecord:
    """Write a seed's game.

    Raises:
        Rejected: the bot does not win it within the turns of an episode.
    """
    game, turns = Game(params["level"], seed), params["turns"]
    guide = Guide(game)
    moves, plan = guide.plan()
    if params["actions"] == "macro":
        _, plan = guide.plan(macro=True)
    if not moves or not plan:
        raise Rejected("the bot does not win")
    if len(plan) > turns:
        raise Rejected(f"a plan of more than {turns} actions")
    facts = {"level": params["level"], "seed": seed, "start": game.start}
    about = {"goal": game.env.mission, "expert_plan": plan, "fingerprint": game.start}
    return GameRecord.written(folder, facts, **about, max_score=len(moves) if params["dense"] else 1.0)
