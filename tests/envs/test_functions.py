"""Calls of functions: what is read in a text, what is answered, and what becomes of bad ones."""

import json
import time

import pytest
from page_modules import page_modules

from turngrid.envs.functions import CommandFunction, Function, action_of
from turngrid.envs.registry import make_environment
from turngrid.envs.text_env import MAX_CALLS, NO_CALL, NOT_ALLOWED, RawStep, TextEnv
from turngrid.envs.types import Action, Call, InvalidAction, Observation, TaskRef

TASK = TaskRef("pantry", "pantry", {}, 7, "train", "", "", "", (), "", 3.0)
LOOK = Call("look")


@pytest.fixture(scope="module")
def pantry(tmp_path_factory):
    """A game of docs/prompt.md's environment."""
    with page_modules(tmp_path_factory.mktemp("page"), "prompt.md"):
        env = make_environment("pantry:Pantry").new_env()
        env.reset(TASK, 0)
        yield env


def pack(**arguments) -> str:
    return str(Call("pack", arguments))


def looking(value: str) -> str:
    return f'{{"name": "look", "arguments": {{"a": {value}}}}}'


@pytest.mark.parametrize("text", [str(LOOK), f"\n{LOOK}\n\n{LOOK} ", json.dumps({"name": "look"}, indent=2)])
def test_a_text_of_nothing_but_calls_is_calls(text: str) -> None:
    assert action_of(text) == Action(calls=(LOOK,) * text.count('"look"'))
    assert action_of(str(action_of(text))) == action_of(text)


@pytest.mark.parametrize(
    "text", ["", "look", f"then {LOOK}", f"{LOOK} then", f"edit a.py 1\n{LOOK}", '{"a": 1}', f"[{LOOK}]", '{"name": 1}']
)
def test_any_other_text_is_a_text(text: str) -> None:
    assert action_of(text) == Action(text)


PROBLEMS = {
    str(Call("sing", {"x": 1})): "There is no function 'sing'; the functions are pack, look.",
    pack(): "The arguments of pack do not fit: 'fruit' is a required property",
    pack(fruit="apple", count="two"): "do not fit: count: 'two' is not of type 'integer'",
    pack(fruit="fig"): "do not fit: fruit: 'fig' is not one of ['apple', 'pear', 'plum']",
    pack(fruit="pear", kilos=1): "('kilos' was unexpected)",
    str(Call("look", {"at": "it"})): "('at' was unexpected)",
    pack(fruit="pear", count=100): "The order has no 100 more of pear.",
    pack(fruit="x" * 99_000): "is not one of ['apple', 'pear', 'plum']",
    pack(fruit=[["\x1b[2J"]]): "is not one of ['apple', 'pear', 'plum']",
    str(Call("\u202e" * 500)): "There is no function",
    "look": NO_CALL,
    str(LOOK)[:-1]: NO_CALL,
    '{"name": "look", "arguments": "{"}': NO_CALL,
    looking("NaN"): NO_CALL,
    looking("1e999"): NO_CALL,
    looking("9" * 10_000): NO_CALL,
    looking("[" * 900 + "]" * 900): NO_CALL,
    looking('{"a":' * 8_000): NO_CALL,
    looking(f'"{"x" * 200_000}"'): NO_CALL,
    '{"a":[' * 900 + "1," * 9_000: NO_CALL,
    "": NOT_ALLOWED,
}


@pytest.mark.parametrize("text", PROBLEMS, ids=lambda text: text[:50])
def test_a_bad_call_changes_nothing_and_is_told_why(pantry: TextEnv, text: str) -> None:
    box, start = dict(pantry.box), time.thread_time()
    result = pantry.step(text)
    assert PROBLEMS[text] in result.observation.text
    assert (result.valid, result.over, result.score_delta, pantry.box) == (False, False, 0.0, box)
    assert len(result.observation.text) < 500 and result.observation.text.isprintable()
    assert time.thread_time() - start < 5


def test_calls_run_in_order_and_each_has_its_result(pantry: TextEnv) -> None:
    pantry.reset(TASK, 0)
    (fruit, count), *_ = pantry.order.items()
    bad, good = pack(fruit="fig"), pack(fruit=fruit, count=count)
    result = pantry.step(f"{LOOK}\n{bad}\n{good}")
    empty, wrong, full = result.observation.results
    assert "'apple': 0" in empty and "fig" in wrong and f"'apple': {count}" in full
    assert result.observation.text == "\n".join(result.observation.results)
    assert (result.valid, result.score_delta) == (False, 1.0), "the others ran, and are paid"
    assert pantry.step(Action(calls=(LOOK,))).valid


def test_an_answer_has_so_many_calls_and_those_after_the_end_do_not_run(pantry: TextEnv) -> None:
    pantry.reset(TASK, 0)
    assert pantry.step(Action(calls=(LOOK,) * MAX_CALLS)).valid
    result = pantry.step(Action(calls=(LOOK,) * 2000))
    assert not result.valid and len(result.observation.results) == MAX_CALLS
    assert f"an answer may have {MAX_CALLS}" in result.observation.text
    packed = [Call("pack", {"fruit": fruit, "count": count}) for fruit, count in pantry.order.items()]
    result = pantry.step(Action(calls=(*packed, Call("sing"), *[LOOK] * MAX_CALLS)))
    assert result.won and result.valid and len(result.observation.results) == 3 and result.score_delta == 3.0


class Dial(TextEnv):
    """Commands, of which one raises."""

    functions = (CommandFunction("turn", "turn it", pattern="turn {way} {far}", optional=("far",)),)
    banned_verbs = frozenset({"quit"})

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        return Observation("A dial.")

    def step_game(self, command: str) -> RawStep:
        if command == "turn back":
            raise InvalidAction("It only turns forth.")
        return RawStep(Observation(f"did {command}"), 1.0)


def test_calls_may_stand_for_commands() -> None:
    env = Dial()
    env.reset(TASK, 0)
    ways = [{"way": "forth", "far": 2}, {"way": "back"}, {"far": 1}, {"way": ["back"]}]
    result = env.step(Action(calls=tuple(Call("turn", way) for way in ways)))
    did, back, *misfits = result.observation.results
    assert (did, back, result.score_delta) == ("did turn forth 2", "It only turns forth.", 1.0)
    assert all(text.startswith("The arguments of turn do not fit: ") for text in misfits)
    assert not env.step("turn back").valid and env.step("turn forth").valid
    env.functions = (CommandFunction("leave", "leave", pattern="quit"),)
    assert env.step(Action(calls=(Call("leave"),))).observation.results == (NOT_ALLOWED,)


SCHEMA = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_a_signature_tells_every_type() -> None:
    properties = {
        "text": {"type": "string", "title": "Text"},
        "count": {"type": "integer", "description": "how often"},
        "colour": {"type": "string", "enum": ["red", 1]},
        "other": SCHEMA,
    }
    function = Function("say", "say it", {"properties": properties, "required": ["text", "count"]})
    told = f'say(text, count: integer, colour?: "red"|1, other?: {json.dumps(SCHEMA)}): say it; count: how often'
    assert function.described == told
    assert function.tool["function"]["parameters"]["properties"] == properties
    assert Function("end", "the end").described == "end(): the end"
