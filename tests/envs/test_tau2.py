"""tau2's telecom tickets: what is refused without a clone, and real tickets if there is one.

``TAU2_CLONE=/path/to/tau2-bench`` runs the second part; tau2 is on no registry.
"""

import json
import os
from pathlib import Path

import pytest
from made import made

from turngrid.envs.registry import make_environment
from turngrid.envs.tau2 import environment as module
from turngrid.envs.types import Call, TaskError, TaskRef

CLONE = os.environ.get("TAU2_CLONE", "")
real = pytest.mark.skipif(not CLONE, reason="needs TAU2_CLONE, a clone of tau2-bench")
DONE = str(Call("done"))
NO_CALLS = (
    "quit",
    "__import__('os')",
    *map(str, (Call("set_user_location", {"abroad": True}), Call("toggle_data", {"x": 1}))),
)


def test_what_is_missing_is_named_with_its_fix(tmp_path, monkeypatch):
    def refusal() -> str:
        with pytest.raises(TaskError) as error:
            make_environment("tau2", {"data_dir": str(tmp_path)}).parse_task("telecom")
        return str(error.value)

    assert "it has no data/tau2/domains/telecom/tasks.json" in refusal()
    for name in module.NEEDED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(module.Tau2, "modules", ("no_such_module",))
    assert "env=tau2 needs no-such-module: pip install loguru" in refusal()


@real
def test_the_verdict_is_that_of_tau2_for_the_plan_and_without_each_call(tmp_path):
    """After calls that do not fit."""
    environment = make_environment("tau2", {"data_dir": CLONE, "training": "full"})
    tickets = environment.seeds(environment.parse_task("telecom"), "test")[:3]
    verdicts = set()
    for seed in tickets:
        task = made(environment, "telecom", seed, tmp_path / str(seed))
        env, calls = environment.new_env(), task.expert_plan[:-1]
        for left_out in range(len(calls) + 1):
            opening = env.reset(task, 0)
            assert opening.text.startswith("Ticket: ") and "<policy>" in opening.goal
            assert not any(env.step(action).valid for action in NO_CALLS)
            assert "Error" in env.step(str(Call("get_customer_by_id", {"customer_id": "nobody"}))).observation.text
            for action in (*calls[:left_out], *calls[left_out + 1 :]):
                assert env.step(action).valid
            verdict = tau2_verdict(task, calls[:left_out] + calls[left_out + 1 :])
            assert env.step(DONE).won == verdict
            verdicts.add(verdict)
    assert verdicts == {True, False}


def tau2_verdict(task: TaskRef, actions: tuple[str, ...]) -> bool:
    """Return what tau2's evaluators say of these calls, played on an environment of their own."""
    from tau2.data_model.message import AssistantMessage, ToolCall
    from tau2.data_model.tasks import Task
    from tau2.domains.telecom.environment import get_environment
    from tau2.evaluator.evaluator_action import ActionEvaluator
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    ticket = Task.model_validate(json.loads(Path(task.game_file).read_text())["task"])
    world = get_environment(solo_mode=True)
    world.set_state(None, ticket.initial_state.initialization_actions, [])
    messages = []
    for number, action in enumerate(actions):
        call = ToolCall(id=str(number), **json.loads(action))
        messages += [AssistantMessage(role="assistant", tool_calls=[call]), world.get_response(call)]
    state = EnvironmentEvaluator.calculate_reward(get_environment, ticket, messages, solo_mode=True)
    acted = ActionEvaluator.calculate_reward(ticket, messages)
    needs_calls = "ACTION" in {basis.value for basis in ticket.evaluation_criteria.reward_basis}
    return bool(state.reward) and (not needs_calls or bool(acted.reward))
