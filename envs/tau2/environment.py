"""tau2-bench's telecom tickets without a user: ``env=tau2 env.data_dir=CLONE`` (docs/tau2.md)."""

import copy
import functools
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected, facts_hash
from turngrid.envs.functions import Function
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import Call, EnvError, Observation, TaskError, TaskRef

CLONE = "git clone https://github.com/sierra-research/tau2-bench"
DATA = "data/tau2/domains/telecom"
TASKS, SPLITS = f"{DATA}/tasks.json", f"{DATA}/split_tasks.json"
NEEDED = (TASKS, SPLITS, f"{DATA}/db.toml", f"{DATA}/user_db.toml", "src/tau2/domains/telecom/environment.py")
DONE = Function("done", "when you are done with the ticket; it ends the episode")
GRADED_BY = {"ENV_ASSERTION", "ACTION"}
RULES = (
    "Solve the ticket by calls, in accordance with the policy. You cannot communicate with the user. "
    "Call done when the ticket is solved."
)
POLICIES = {"telecom": "manual", "telecom-workflow": "workflow"}  # tau2's names
# The official training tasks by the last digit of their place.
SPLIT_DIGITS = {"validation": "0", "demonstrations": "123", "train": "456789"}


@functools.cache
def source(clone: Path) -> str:
    """Return a hash of what determines a game beside its seed: tasks, databases, rules, tools."""
    code = [path for part in ("domains/telecom", "environment") for path in (clone / "src/tau2" / part).glob("*.py")]
    data = [path for path in (clone / DATA).iterdir() if path.suffix in (".toml", ".md")]
    digest = hashlib.sha256()
    for path in sorted([clone / TASKS, *code, *data]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def tasks(clone: Path) -> list[dict[str, Any]]:
    return json.loads((clone / TASKS).read_text())


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

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        game, clone = accepted_json(task), clone_of(self._settings)
        if game["source"] != source(clone):
            raise EnvError(f"{task.key} was made with another clone of tau2-bench than {clone}")
        self._ticket = Ticket(clone, game)
        tools, policy = _tools(clone), self._ticket.world.get_policy()
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


@dataclass(frozen=True)
class Tau2Settings:
    data_dir: str | None
    training: str = field(metadata={"choices": ("train", "full")})


def clone_of(settings: Tau2Settings) -> Path:
    return Path(settings.data_dir or "").expanduser().absolute()


class Tau2(Environment):
    """Tasks: the names of tau2's telecom domains. A seed is a task's place in tau2's file."""

    name = "tau2"
    turns = 50
    modules = ("loguru", "deepdiff", "addict", "toml", "dotenv", "docstring_parser")
    install = "pip install loguru deepdiff addict toml python-dotenv docstring-parser"
    prompt = PromptStyle("You are a customer service agent and solve a ticket by calls.", functions=(DONE,))
    Settings = Tau2Settings
    Env = Tau2Env
    examples = tuple(POLICIES)
    agent_stops = True
    settings: Tau2Settings

    def parse_task(self, task: str) -> dict[str, Any]:
        if task not in POLICIES:
            raise self.unknown(task)
        self._check_clone()
        return {"policy": POLICIES[task], "training": self.settings.training, "source": source(self._clone)}

    def seeds(self, params: Params, split: str) -> Sequence[int]:
        splits = json.loads((self._clone / SPLITS).read_text())
        seed_of = {task["id"]: number for number, task in enumerate(tasks(self._clone))}
        if split == "test":
            return [seed_of[name] for name in splits["test"]]
        names = [name for name in splits[params["training"]] if name not in splits["test"]]
        digits = SPLIT_DIGITS.get(split, "")
        return [seed_of[name] for number, name in enumerate(names) if str(number)[-1] in digits]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Write a task's game.

        Raises:
            Rejected: tau2 grades it by other means than the final state and the calls, or it is
                solved at its start.
        """
        task = tasks(self._clone)[seed]
        criteria = task["evaluation_criteria"]
        if other := set(criteria["reward_basis"]) - GRADED_BY:
            raise Rejected(f"it is graded by {', '.join(sorted(other))}")
        game = {"task": task, "policy": params["policy"], "source": params["source"]}
        if Ticket(self._clone, game).solved:
            raise Rejected("it is solved at its start")
        facts = [task["ticket"], task["initial_state"], criteria]
        plan = [str(Call(action["name"], action["arguments"])) for action in criteria["actions"]]
        about = {"expert_plan": (*plan, str(Call(DONE.name))), "fingerprint": facts_hash(facts)}
        return GameRecord.written(folder, game, sort_keys=True, **about)

    @property
    def _clone(self) -> Path:
        return clone_of(self.settings)

    def _check_clone(self) -> None:
        chosen = self.settings.data_dir
        if not chosen:
            raise TaskError(f"env.data_dir=null: env=tau2 needs a clone: {CLONE}; use env.data_dir=tau2-bench")
        if missing := next((name for name in NEEDED if not (self._clone / name).is_file()), ""):
            raise TaskError(f"env.data_dir={chosen}: no clone of tau2-bench, it has no {missing}; {CLONE}")
        self.check_modules()
