"""Play a Sokoban room in text."""

from turngrid.envs.sokoban.games import MOVES, Room, distances, plan_of, read
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import InvalidAction, Observation, TaskRef


class SokobanEnv(TextEnv):
    """One room at a time; the score is the number of boxes on targets."""

    def __init__(self, *, legal: bool = False, expert: bool = False) -> None:
        self._legal, self._expert = legal, expert

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._room = read(accepted_file(task).read_text())
        self._distances = distances(self._room) if self._expert else {}
        return self.observe_message("")

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).lower()

    def step_game(self, command: str) -> RawStep:
        if command not in MOVES:
            raise InvalidAction(f"There is no action {command!r}.")
        if (room := self._room.moved(command)) is None:
            raise InvalidAction(f"The way {command} is blocked.")
        self._room = room
        return RawStep(self.observe_message(""), room.placed, won=room.boxes == room.targets)

    def save_game(self) -> Room:
        return self._room

    def restore_game(self, saved: Room) -> None:
        self._room = saved

    def observe_message(self, message: str) -> Observation:
        board = "\n".join(" ".join(line) for line in str(self._room).split("\n"))
        legal = tuple(move for move in MOVES if self._room.moved(move)) if self._legal else ()
        return Observation(f"{message}\n{board}".lstrip(), legal=legal, expert=plan_of(self._room, self._distances))
