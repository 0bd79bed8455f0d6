"""A running game of a text environment: cleans actions, and returns score changes and outcomes."""

import abc
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

from turngrid.envs.functions import CALL_FORM, CommandFunction, Function, action_of, called
from turngrid.envs.types import Action, Call, EnvError, InvalidAction, Observation, StepResult, TaskRef
from turngrid.envs.utils.printable import printable

MAX_ACTION_CHARS = 120
MAX_CALLS = 16
NOT_ALLOWED = "That command is not allowed here."
NO_CALL = f"That is not a call: write {CALL_FORM}, one a line."
TOO_MANY = f"(the other calls did not run: an answer may have {MAX_CALLS})"

# Control characters, backslashes, and typographic punctuation (curly quotes, dashes, ...).
_NO_WORDS = re.compile(r"[\x00-\x1f\x7f-\xbf\\\u2000-\u206f]")


def sanitise(action: str) -> str:
    """Return the first line that is not blank, in printable ASCII, cut to ``MAX_ACTION_CHARS``.

    A newline would send a second command, and a backslash is an escape for the interpreters. Words
    of other alphabets are dropped whole, since a part of one may be a command ("n").

    >>> sanitise("  open   box\\nquit")
    'open box'
    >>> sanitise("\\u201copen \\u00fcn\\u00ef box\\u201d")
    'open box'
    """
    first = next((line for line in action[: MAX_ACTION_CHARS * 100].splitlines() if line.strip()), "")
    words = (word for word in _NO_WORDS.sub(" ", first).split() if word.isascii())
    return " ".join(words)[:MAX_ACTION_CHARS].rstrip()


def accepted_file(task: TaskRef, digest: Callable[[Path], str] | None = None) -> Path:
    """Return the task's game file.

    Args:
        digest: hash of the game, if it covers more than this file.

    Raises:
        EnvError: the file is missing or not the accepted one.
    """
    file = Path(task.game_file)
    sha256 = (digest(file) if digest else hashlib.sha256(file.read_bytes()).hexdigest()) if file.is_file() else ""
    if sha256 != task.sha256:
        raise EnvError(f"{task.key}: the game file {file} is missing or is not the one that was accepted")
    return file


def accepted_json(task: TaskRef) -> dict[str, Any]:
    """Return the values in the task's game file; raises as ``accepted_file``."""
    return json.loads(accepted_file(task).read_bytes())


def _printable(seen: Observation) -> Observation:
    """Make an observation printable; all text of an environment passes through here."""
    return replace(seen, text=printable(seen.text), goal=printable(seen.goal), legal=tuple(map(printable, seen.legal)))


@dataclass(frozen=True)
class RawStep:
    """A step of a game. ``score``: the game's points so far; None means 1 for a win, else 0.

    ``scores``: as in ``StepResult``.
    """

    observation: Observation
    score: float | None = None
    won: bool = False
    lost: bool = False
    terminated: bool = False
    truncated: bool = False
    valid: bool = True
    info: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)


class TextEnv(abc.ABC):
    """One game at a time; ``reset`` may be called any number of times, with any task.

    A subclass implements ``reset_game``, and ``step_game`` for commands or ``call_game`` for calls
    of functions, or both. It may override ``clean_action``, ``observe_message``,
    ``legal_actions``, ``expert_actions`` and the other methods that end in ``_game``, no others.

    Attributes:
        banned_verbs: commands to the program, such as quit and save. They never reach the game.
        ends: characters that are cut from the end of a command, which the game gets in lower case;
            None if it gets the command as it is written.
        functions: those of the environment's ``PromptStyle``, set by ``Environment.new_env``.
    """

    banned_verbs: ClassVar[frozenset[str]] = frozenset()
    ends: ClassVar[str | None] = None
    functions: tuple[Function, ...] = ()
    _settings: Any = None
    _legal = _expert = False

    # Two underscores, since an attribute of a subclass may have the same name.
    __score = 0.0
    __open = False

    def __init__(self, settings: Any = None, *, legal: bool = False, expert: bool = False) -> None:
        """``settings`` are the environment's."""
        self._settings, self._legal, self._expert = settings, legal, expert

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in vars(cls):
            if getattr(getattr(TextEnv, name, None), "__final__", False):
                raise TypeError(f"{cls.__qualname__}.{name} replaces a method that TextEnv needs: use another name")

    @final
    def reset(self, task: TaskRef, seed: int) -> Observation:
        """Start an episode. ``seed`` determines what the environment draws during the episode."""
        self.__open = False
        observation = _printable(self.reset_game(task, seed))
        self.__score, self.__open = 0.0, True
        return observation

    @final
    def step(self, action: str | Action) -> StepResult:
        """Run one action, which may be any text: up to ``MAX_CALLS`` calls until the game is over.

        Raises:
            EnvError: no episode is open, or the environment failed.
        """
        self.__check_open()
        text = str(action)
        if self.functions and (calls := action_of(text).calls):
            return self.__run(calls)
        command = self.clean_action(text)
        if self.refuses(command):
            return self.__refused(NOT_ALLOWED, parsed=bool(command))
        try:
            return self.__outcome(self.step_game(command))
        except InvalidAction as reason:
            return self.__refused(str(reason), info=reason.info)

    @final
    def finish(self) -> StepResult:
        """Grade an episode that was cut off, and end it (for ``grades_unfinished``).

        Raises:
            EnvError: no episode is open, or the environment failed.
        """
        self.__check_open()
        result = self.__outcome(self.finish_game())
        self.__open = False
        return result

    @final
    def refuses(self, command: str) -> bool:
        """Return whether a command is empty or one of ``banned_verbs``."""
        verb = command.split(" ", 1)[0].lower().strip("\"'.,;:!?")
        return not verb or verb in self.banned_verbs

    @final
    def close(self) -> None:
        """Release resources. The object must not be used again."""
        self.__open = False
        self.close_game()

    def __check_open(self) -> None:
        if not self.__open:
            raise EnvError("no episode is open: reset first")

    def __outcome(self, raw: RawStep) -> StepResult:
        score = float(raw.won if raw.score is None else raw.score)
        if not math.isfinite(score):
            raise EnvError(f"{type(self).__name__} gave the score {score}, which is no finite number")
        delta, self.__score = score - self.__score, score
        flags = raw.won, raw.lost, raw.terminated, raw.truncated, raw.valid
        won, lost, ended, cut, valid = map(bool, flags)  # games of other packages return numpy's
        over = won or lost or ended
        self.__open = not over  # an episode that the game cut off may still be graded
        seen = _printable(raw.observation)
        return StepResult(seen, delta, won, lost and not won, over, cut, valid, raw.info, scores=raw.scores)

    def __run(self, calls: tuple[Call, ...]) -> StepResult:
        done: list[StepResult] = []
        for call in calls[:MAX_CALLS]:
            try:
                called(self.functions, call)
                done.append(self.__outcome(self.call_game(call)))
            except InvalidAction as reason:
                done.append(self.__refused(str(reason), info=reason.info))
            if done[-1].over:
                break
        results = [step.observation.text for step in done]
        if too_many := len(calls) > len(done) and not done[-1].over:
            results[-1] += f"\n{TOO_MANY}"
        whole = StepResult.together(done, "\n".join(results))
        seen = replace(whole.observation, results=tuple(results))
        return replace(whole, observation=seen, valid=whole.valid and not too_many)

    def __refused(self, message: str, *, parsed: bool = True, info: Mapping[str, Any] | None = None) -> StepResult:
        seen = _printable(self.observe_message(message))
        return StepResult(seen, 0.0, valid=False, parsed=parsed, info=info or {})

    # ---- what a subclass implements

    @abc.abstractmethod
    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        """Start the task's game; return the first observation."""

    def step_game(self, command: str) -> RawStep:
        """Run one command, which is never empty.

        Raises:
            InvalidAction: the command changes nothing; the message answers the agent.
        """
        if not self.functions:
            raise NotImplementedError(f"{type(self).__name__} has neither step_game nor functions")
        raise InvalidAction(NO_CALL)

    def call_game(self, call: Call) -> RawStep:
        """Run one call, whose arguments fit the schema of its function.

        By default the command that it stands for is played.
        """
        function = called(self.functions, call)
        if not isinstance(function, CommandFunction):
            raise NotImplementedError(f"{type(self).__name__} has functions, and no call_game")
        command = self.clean_action(function.command(call.arguments))
        if self.refuses(command):
            raise InvalidAction(NOT_ALLOWED)
        return self.step_game(command)

    # ---- what a subclass may override

    def observe_message(self, message: str) -> Observation:
        """Return the observation for a message; add what is always shown."""
        legal = self.legal_actions() if self._legal else ()
        return Observation(message, legal=legal, expert=self.expert_actions() if self._expert else ())

    def legal_actions(self) -> tuple[str, ...]:
        """Return ``Observation.legal``; by default calls that need no arguments."""
        simple = (function.name for function in self.functions if not function.parameters.get("required"))
        return tuple(str(Call(name)) for name in simple)

    def expert_actions(self) -> tuple[str, ...]:
        """Return ``Observation.expert``."""
        return ()

    def clean_action(self, action: str) -> str:
        """Return the command that the game gets."""
        command = sanitise(action)
        return command if self.ends is None else command.lower().rstrip(self.ends)

    def finish_game(self) -> RawStep:
        """Grade an episode that was cut off; return its last step."""
        raise NotImplementedError(f"{type(self).__name__} does not grade unfinished episodes")

    def close_game(self) -> None:
        """Release the game's resources."""
