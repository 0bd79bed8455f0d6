"""A ticket of tau2's telecom domain: the agent has its own tools and those of the user's phone."""

import copy
import functools
import hashlib
import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from turngrid.envs.environment import GameRecord, Params, Rejected
from turngrid.envs.functions import Function
from turngrid.envs.tau2.clone import DONE, source
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import Call, EnvError, Observation, TaskRef

GRADED_BY = {"ENV_ASSERTION", "ACTION"}
RULES = (
    "Solve the ticket by calls, in accordance with the policy. You cannot communicate with the user. "
    "Call done when the ticket is solved."
)


def made(clone: Path, params: Params, task: dict[str, Any], folder: Path) -> GameRecord:
    """Write a task's game.

    Raises:
        Rejected: tau2 grades it by other means than the final state and the calls, or it is solved
            at its start.
    """
    criteria = task["evaluation_criteria"]
    if other := set(criteria["reward_basis"]) - GRADED_BY:
        raise Rejected(f"it is graded by {', '.join(sorted(other))}")
    game = {"task": task, "policy": params["policy"], "source": params["source"]}
    (folder / "game.json").write_text(json.dumps(game, sort_keys=True))
    if Ticket(clone, game).solved:
        raise Rejected("it is solved at its start")
    facts = [task["ticket"], task["initial_state"], criteria]
    plan = [str(Call(action["name"], action["arguments"])) for action in criteria["actions"]]
    fingerprint = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return GameRecord("game.json", expert_plan=(*plan, str(Call(DONE.name))), fingerprint=fingerprint)


class Ticket:
    """A task in tau2's simulator, and the calls so far."""

    def __init__(self, clone: Path, game: dict[str, Any]) -> None:
        self._task = _module(clone, "data_model.tasks").Task.model_validate(game["task"])
        self._call = _module(clone, "data_model.message").ToolCall
        self.world = copy.deepcopy(_world(clone, game["policy"]))
        state = self._task.initial_state
        self.world.set_state(state.initialization_data, state.initialization_actions, state.message_history or [])
        self._calls: list[Any] = []

    def run(self, call: Call) -> str:
        """Run a call and return tau2's words, also for a call that fails."""
        self._calls.append(self._call(name=call.name, arguments=dict(call.arguments)))
        return str(self.world.get_response(self._calls[-1]).content)

    @property
    def solved(self) -> bool:
        """Return tau2's verdict on the state and, if the task demands it, on the calls."""
        criteria, world = self._task.evaluation_criteria, copy.deepcopy(self.world)
        met = all(world.run_env_assertion(one, raise_assertion_error=False) for one in criteria.env_assertions or ())
        if "ACTION" not in {basis.value for basis in criteria.reward_basis}:
            return met
        return met and all(any(map(gold.compare_with_tool_call, self._calls)) for gold in criteria.actions)


class Tau2Env(TextEnv):
    """One ticket at a time; it is graded when the agent calls ``done``."""

    def __init__(self, clone: Path, *, legal: bool = False) -> None:
        self._clone, self._legal = clone, legal

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        game = json.loads(accepted_file(task).read_text())
        if game["source"] != source(self._clone):
            raise EnvError(f"{task.key} was made with another clone of tau2-bench than {self._clone}")
        self._ticket = Ticket(self._clone, game)
        tools, policy = _tools(self._clone), self._ticket.world.get_policy()
        self.functions = (DONE, *tools)
        goal = "\n".join([RULES, "<policy>", policy, "</policy>", *(tool.described for tool in tools)])
        opening = self.observe_message(f"Ticket: {game['task']['ticket']}")
        return Observation(opening.text, goal=goal, legal=opening.legal)

    def call_game(self, call: Call) -> RawStep:
        if call.name == DONE.name:
            solved = self._ticket.solved
            text = "The ticket is solved." if solved else "The ticket is not solved."
            return RawStep(self.observe_message(text), won=solved, lost=not solved)
        return RawStep(self.observe_message(self._ticket.run(call)))

    def save_game(self) -> Any:
        return copy.deepcopy(self._ticket)

    def restore_game(self, saved: Any) -> None:
        self._ticket = copy.deepcopy(saved)

    def observe_message(self, message: str) -> Observation:
        simple = (function.name for function in self.functions if not function.parameters.get("required"))
        return Observation(message, legal=tuple(str(Call(name)) for name in simple) if self._legal else ())


@functools.cache
def _tools(clone: Path) -> tuple[Function, ...]:
    world = _world(clone, "manual")
    schemas = [tool.openai_schema["function"] for tool in (*world.get_tools(), *world.get_user_tools())]
    return tuple(Function(one["name"], " ".join(one["description"].split()), one["parameters"]) for one in schemas)


@functools.cache
def _world(clone: Path, policy: str) -> Any:
    module = _module(clone, "domains.telecom.environment")
    return module.get_environment(solo_mode=True, policy_type=policy)


def _module(clone: Path, name: str) -> ModuleType:
    """Import a module of tau2 without tau2's ``__init__``, which needs model providers' clients."""
    if "tau2" not in sys.modules:
        package = ModuleType("tau2")
        package.__path__ = [str(clone / "src" / "tau2")]
        sys.modules["tau2"] = package
        os.environ["TAU2_DATA_DIR"] = str(clone / "data")
        importlib.import_module("loguru").logger.disable("tau2")
    return importlib.import_module(f"tau2.{name}")
