"""Play a scenario of BFCL: calls of functions, and a user whose words are fixed."""

from turngrid.envs.bfcl.functions import END_TURN, function_of, python_calls
from turngrid.envs.bfcl.games import Services, contains
from turngrid.envs.functions import called
from turngrid.envs.text_env import MAX_CALLS, RawStep, TextEnv, accepted_json
from turngrid.envs.types import Call, InvalidAction, Observation, TaskRef

_LONGEST = 20_000  # characters of calls in Python's syntax
FAILED = "The user's request is not fulfilled."
DONE = "The user has no more requests."


class BfclEnv(TextEnv):
    """One scenario at a time; a point for each turn of the user that ends as bfcl-eval demands."""

    kept = ("_services", "_gold", "_results", "_turn", "_has_called", "functions")

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._game = accepted_json(task)
        setting = self._game["services"], self._game["scenario"], self._game["long_context"]
        self._services, self._gold = Services(*setting), Services(*setting)
        self._results: list[str] = []
        self._turn, self._has_called = 0, False
        self.functions = (END_TURN, *map(function_of, self._game["functions"]))
        return self.observe_message(self._user())

    def clean_action(self, action: str) -> str:
        return action[:_LONGEST].strip()

    def step_game(self, command: str) -> RawStep:
        """Run calls in Python's syntax; all are checked before the first one runs."""
        try:
            written = python_calls(command)
        except InvalidAction:
            if self._settings.end_by_words:
                return self._end_turn()
            raise
        if len(written) > MAX_CALLS:
            raise InvalidAction(f"An answer may have {MAX_CALLS} calls.")
        calls = [self._services.named(call) for call in written]
        for call in calls:
            called(self.functions, call)
        texts = []
        for call in calls:
            step = self.call_game(call)
            texts.append(step.observation.text)
            if step.won or step.lost:
                break
        return RawStep(self.observe_message("\n".join(texts)), step.score, won=step.won, lost=step.lost)

    def call_game(self, call: Call) -> RawStep:
        if call.name == END_TURN.name:
            return self._end_turn()
        self._results.append(self._services.run(call))
        self._has_called = True
        return RawStep(self.observe_message(self._results[-1]), self._turn)

    def _end_turn(self) -> RawStep:
        """Compare with the gold calls of the turn; after a failed turn no later one can count."""
        if not self._is_fulfilled():
            return RawStep(self.observe_message(FAILED), self._turn, lost=True)
        self._turn, self._has_called = self._turn + 1, False
        if self._turn == len(self._game["users"]):
            return RawStep(self.observe_message(DONE), self._turn, won=True)
        return RawStep(self.observe_message(self._user()), self._turn)

    def _is_fulfilled(self) -> bool:
        """Return bfcl-eval's verdict; a turn without gold calls is always fulfilled."""
        gold = [self._gold.run(Call(**call)) for call in self._game["gold"][self._turn]]
        if not gold:
            return True
        return self._has_called and self._services.equal(self._gold) and contains(self._results, gold)

    def _user(self) -> str:
        """Return the user's words, after the functions that come with them."""
        more = [function_of(document) for document in self._game["later"].get(str(self._turn), ())]
        self.functions = (*self.functions, *more)
        new = [f"New function: {function.described}" for function in more]
        return "\n".join([*new, f"User: {self._game['users'][self._turn]}"])
