"""Play a game of textarena."""

import json
import sys
from importlib.metadata import version
from typing import Any

from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.textarena.games import legal_words
from turngrid.envs.types import EnvError, Observation, TaskRef


class TextArenaEnv(TextEnv):
    """One game at a time, without textarena's limits of turns and of invalid moves."""

    def __init__(self, *, legal: bool = False) -> None:
        self._legal = legal

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        game = json.loads(accepted_file(task).read_text())
        opening = self.open(game["id"], game["seed"])
        if opening.text != game["opening"]:
            raise EnvError(f"{task.key}: this textarena ({version('textarena')}) makes another game of its seed")
        return opening

    def open(self, game_id: str, seed: int) -> Observation:
        """Start a game by its seed, which determines its draws."""
        import textarena

        self.game: Any = textarena.make(f"{game_id}-raw")
        self.game.reset(num_players=1, seed=seed)
        self.game.max_turns = self.game.state.max_turns = self.game.state.error_allowance = sys.maxsize
        self._goal, self._board = "", ""
        return self._read()

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).strip("[]").lower()

    def step_game(self, command: str) -> RawStep:
        return self.play(command)

    def play(self, command: str) -> RawStep:
        """Play a cleaned command."""
        over, _ = self.game.step(f"[{command}]")
        state = self.game.state
        score = float(state.rewards[0] if over else self.game._get_percentage_completion())
        won = over and score >= 1.0
        seen = self._read(state.game_info[0]["reason"] if over else "")
        return RawStep(seen, score, won=won, lost=over and not won, valid=state.error_count == 0)

    def _read(self, ending: str = "") -> Observation:
        """Return the game's new messages and its board, which it shows after valid moves only."""
        messages = []
        for _, words, kind in self.game.state.get_current_player_observation():
            text = "\n".join(line.strip() for line in words.splitlines() if line.strip())
            if kind.name == "PROMPT":
                self._goal = " ".join(text.split())
            elif kind.name == "GAME_BOARD":
                self._board = text
            elif kind.name != "PLAYER_ACTION":
                messages.append(text)
        return self.observe_message("\n".join([*messages, ending] if ending else messages))

    def observe_message(self, message: str) -> Observation:
        text = "\n".join(part for part in (message, self._board) if part) or "Make the first move."
        return Observation(text, self._goal, legal_words(self.game) if self._legal else ())
