"""BFCL's multi-turn scenarios: graded as by bfcl-eval, and closed to everything but literals."""

import itertools
from pathlib import Path

import pytest
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
from made import made

from turngrid.envs.bfcl.env import FAILED, MORE_FUNCTIONS, _entry
from turngrid.envs.bfcl.environment import CATEGORIES, SCENARIOS, SPLIT_DIGITS
from turngrid.envs.bfcl.functions import END_TURN
from turngrid.envs.registry import make_environment
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import Call, StepResult, TaskRef

END = str(Call(END_TURN.name))


def game(folder: Path, category: str = "base", number: int = 0) -> TaskRef:
    return made(make_environment("bfcl"), category, SCENARIOS * CATEGORIES.index(category) + number, folder)


def opened(task: TaskRef, **settings: bool) -> TextEnv:
    env = make_environment("bfcl", settings).new_env()
    env.reset(task, 0)
    return env


def played(env: TextEnv, actions: list[str]) -> StepResult:
    for action in actions:
        result = env.step(action)
        if result.over:
            break
    return result


def gold_turns(category: str, number: int) -> list[list[str]]:
    return _entry("possible_answer/", category, number)["ground_truth"]


def ours(task: TaskRef, turns: list[list[str]]) -> bool:
    """Play turns of calls in Python's syntax, with a point for each that is fulfilled."""
    actions = [[*turn, END] for turn in turns]
    return played(opened(task), list(itertools.chain(*actions))).won


@pytest.mark.parametrize(("category", "number"), [("base", 0), ("base", 60), ("miss_func", 110), ("long_context", 162)])
def test_the_verdict_is_that_of_bfcl_eval(category: str, number: int, tmp_path: Path) -> None:
    """For the gold calls, and for these without each one of them."""
    task, gold = game(tmp_path, category, number), gold_turns(category, number)
    entry, verdicts = _entry("", category, number), []
    without = [
        [calls[:at] + calls[at + 1 :] if turn == this else calls for turn, calls in enumerate(gold)]
        for this, calls in enumerate(gold)
        for at in range(len(calls))
    ]
    for name, turns in enumerate([gold, *without]):
        theirs = multi_turn_checker([[calls] for calls in turns], gold, entry, "", f"{tmp_path.name}_{name}")
        assert ours(task, turns) == theirs["valid"]
        verdicts.append(theirs["valid"])
    assert verdicts[0] and False in verdicts


def test_a_point_a_turn_and_calls_in_either_form(tmp_path: Path) -> None:
    task, turns = game(tmp_path), gold_turns("base", 0)
    env = opened(task)
    results = [env.step(action) for action in task.expert_plan]
    assert [result.score_delta for result in results] == [0, 1] * 4 and task.max_score == 4 and results[-1].won
    assert results[0].observation.results == tuple(results[0].observation.text.split("\n"))
    assert results[0].observation.text.startswith('{"current_working_directory": "document"}\n')
    assert results[1].observation.text.startswith("User: Perform a detailed search")
    env = opened(task)
    listed = [env.step(action) for turn in turns for action in (f"[{', '.join(turn)}]", "end_turn()")]
    assert [result.observation.text for result in listed] == [result.observation.text for result in results]


def test_a_failed_turn_ends_the_episode_and_too_many_calls_are_not_run(tmp_path: Path) -> None:
    env = opened(game(tmp_path))
    many = env.step("mkdir(dir_name='x')\n" * 17)
    assert many.observation.text == "An answer may have 16 calls." and not many.valid
    result = env.step(END)
    assert result.lost and result.observation.text == FAILED and result.score_delta == 0


def test_a_function_that_is_held_out_comes_with_its_turn(tmp_path: Path) -> None:
    task = game(tmp_path, "miss_func", 0)  # sort comes with turn 3
    env = opened(task)
    assert "\nsort(" not in task.goal and "\ngrep(" in task.goal and "\ncp(" not in task.goal  # cp is left out
    assert "There is no function 'sort'" in env.step("sort('final_report.pdf')").observation.text
    assert not env.step('{"name": "cp", "arguments": {"source": "a", "destination": "b"}}').valid
    *_, told = [env.step(action) for action in task.expert_plan[:5]]
    new, user = told.observation.text.split("\n")
    assert new.startswith("New function: sort(file_name)") and user == f"User: {MORE_FUNCTIONS}"
    assert played(env, list(task.expert_plan[5:])).won


def test_an_answer_in_words_ends_the_turn_if_so_set(tmp_path: Path) -> None:
    task = game(tmp_path)
    assert not opened(task).step("I have moved the file.").valid
    env = opened(task, end_by_words=True)
    words = ["Done, the file is there." if action == END else action for action in task.expert_plan]
    assert played(env, words).won


def test_episodes_share_no_state(tmp_path: Path) -> None:
    task = game(tmp_path)
    env, other = opened(task), opened(task)
    assert '"x"' in env.step("mkdir(dir_name='x')\nls()").observation.text
    assert '"x"' not in other.step("ls()").observation.text


NO_CALLS = (
    *("cd(folder=open('/etc/passwd').read())", "__import__('os').system('touch {file}')"),
    *("cd(folder=__import__('pathlib').Path('{file}').touch())", "cd.__call__('document')"),
    *("(lambda: cd('document'))()", "cd(folder=f'{{1}}')", "cd(*['document'])"),
    *("[cd(folder=x) for x in ['document']]", "cd(folder='document') if True else ls()", "import os"),
    *("cd(folder={1, 2})", "cd(folder=b'document')", "cd(folder=1e999)", "cd('document'"),
    *("cd(folder='\ud800')", "'" * 5000, "(" * 20_000, "f(" * 20_000, "-" * 19_990 + "1", "not " * 4_900 + "1"),
    *("1+" * 9_000 + "1", "a." * 9_000 + "b()", "[" * 90 + "]" * 90, "9" * 19_000, "x" * 200_000),
    *("\u202e\x00\x1b[2J" * 1000, "{" * 20_000, '{"name": "cd", "arguments": ' + '{"a": ' * 4_000),
    '{"name": "cd", "arguments": {"folder": ' + "[" * 10_000 + "]" * 10_000 + "}}",
    '{"name": "cd", "arguments": {"folder": NaN}}',
)
BAD_CALLS = (
    *("_load_scenario({})", "__init__()", "__class__()", "cd(name='document')", "cd('document', 'temp', 'x')"),
    *("cd(**{'folder': 'document'})", "cd()", "exit()"),
    '{"name": "_load_scenario", "arguments": {"scenario": {}}}',
    '{"name": "cd", "arguments": {"folder": ["document"]}}',
    '{"name": "cd", "arguments": {"folder": 1, "__class__": 2}}',
)


def test_hostile_answers_change_nothing_and_run_nothing(tmp_path: Path) -> None:
    task = game(tmp_path)
    env = opened(task)
    mark = tmp_path / "touched"
    for action in (*NO_CALLS, *BAD_CALLS):
        action = action.replace("{file}", str(mark))
        result = env.step(action)
        assert not result.valid and not result.over and len(result.observation.text) < 1000, action[:80]
    long = env.step(str(Call("cd", {"folder": "x'\"\\\n;" * 10_000})))  # a call, of a folder that is not there
    assert long.valid and "No such file or directory" in long.observation.text
    assert played(env, list(task.expert_plan)).won and not mark.exists()


def test_numbers_that_would_take_minutes_are_refused(tmp_path: Path) -> None:
    task = game(tmp_path, "base", next(n for n in range(50) if "MathAPI" in _entry("", "base", n)["involved_classes"]))
    env = opened(task)
    for call in (
        "power(9, 9999999)",
        "power(10**99, 2)",
        f"power({10**13}, 2)",
        "logarithm(value=2, base=3, precision=10000000)",
    ):
        assert not env.step(call).valid
    assert env.step("power(2, 10)").observation.text == '{"result": 1024}'
    assert env.step(f"power({10**12}, 1000)").valid


def test_copies_cannot_double_the_files_without_end(tmp_path: Path) -> None:
    env = opened(game(tmp_path, "base", 2))
    assert env.step("mkdir('a')").valid
    pairs = [env.step(f"cp('a', 'b{n}')\nmv('b{n}', 'a')") for n in range(11)]
    assert [pair.valid for pair in pairs] == [True] * 10 + [False]
    assert not env.step("mkdir('none')\ncp('a', 'c')").valid and "none" not in env.step("ls()").observation.text
    assert len(env.step("find()").observation.text) < 100_000


def test_splits_share_no_scenario_whatever_its_category() -> None:
    environment, numbers, sizes = make_environment("bfcl"), {}, {}
    for split in ("test", "validation", "demonstrations", "train"):
        seeds = environment.seeds(environment.parse_task("all"), split)
        numbers[split] = {seed % SCENARIOS for seed in seeds}
        sizes[split] = len(environment.seeds(environment.parse_task("base"), split))
        assert len(seeds) == len(set(seeds)) == 4 * sizes[split] and set(seeds) >= numbers[split]
    assert sizes == {"test": 80, "validation": 20, "demonstrations": 40, "train": 60}
    assert len(set.union(*numbers.values())) == sum(map(len, numbers.values())) == SCENARIOS
    assert set(SPLIT_DIGITS) == {*sizes}


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
def test_the_gold_calls_of_every_scenario_win(category: str, tmp_path: Path) -> None:
    """But for one that contradicts its function's type, and one that calls a held-out function."""
    from turngrid.envs.environment import Rejected

    lost = []
    for number in range(SCENARIOS):
        (folder := tmp_path / str(number)).mkdir()
        try:
            game(folder, category, number)
        except Rejected:
            lost.append(number)
    assert lost == ([49, 173] if category == "miss_func" else [173])
