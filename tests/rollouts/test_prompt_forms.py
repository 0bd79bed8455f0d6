"""What a prompt form says, and what it reads in answers as models give them."""

import time
from itertools import product

import pytest
from usual import form_of

from turngrid.envs.environment import PromptStyle
from turngrid.envs.repair.commands import FUNCTIONS
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.prompt_forms.form import Answer, PromptForm
from turngrid.rollouts.prompt_forms.react import React
from turngrid.rollouts.prompt_forms.registry import PROMPTS
from turngrid.rollouts.prompt_forms.tool_call import ToolCall

STYLE = PromptStyle("You are in a house.", "Answer with one action.")
LONG = "I could look around, 世界 then go. " * 800  # some 4,000 tokens and more
TAGS = form_of("think_action")

READ = {  # answer -> action, thought; None: unparsed
    "<think>a plan</think><action>go east</action>": ("go east", "a plan"),
    "  <think>\n a plan\n</think>\n\n<action> go east\n</action>": ("go east", "a plan"),
    "a plan</think><action>go east</action>": ("go east", "a plan"),
    "<THINK>a</THINK><Action>go</ACTION>": ("go", "a"),
    "<think></think><action>go</action>": ("go", ""),
    "<think>a</think> so: <action>go</action>": ("go", "a"),
    "<think>a</think><action>go</action> I hope that helps </think>": ("go", "a"),
    "<think>a <think>b</think> c</think><action>go</action>": ("go", "a <think>b"),
    "<think>not <action>go west</action> but</think><action>go east</action>": (
        "go east",
        "not <action>go west</action> but",
    ),
    "<think>a</think><think>b</think><action>go</action>": ("go", "a\nb"),
    "<think>the café ☕</think><action>öffne die Kiste 📦</action>": ("öffne die Kiste 📦", "the café ☕"),
    f"<think>{LONG}</think><action>go</action>": ("go", LONG.strip()),
    "<think>a</think><action>edit f.py 1-2\n    x = 1\n</action>": ("edit f.py 1-2\n    x = 1", "a"),
    "<think>a</think><action></action>": ("", "a"),
    "go east": None,
    "": None,
    "<think>a plan that never ends <action>go</action>": None,
    "<think>a</think><action>go east": None,
    "<think>a</think>go east": None,
    "<think>a</think><action>go</action><action>look</action>": None,
    "<think>a</think><action>go</action><think>b</think><action>look</action>": None,
    "<think>a</think><action><action>go</action></action>": None,
    "<action>go</action><think>a</think>": None,
    "<action>go</action>": None,
    "<think>a</think><Aktion>go</Aktion>": None,
}

LINES = {
    "Thought: a plan\nAction: go east": ("go east", "a plan"),
    "thought: a plan\naction: go east": ("go east", "a plan"),
    "Let me see.\nThought: a\nAction: go\n": ("go", "Let me see.\na"),
    "Thought: a\nsecond line\nAction: edit f.py 1-2\n    x = 1": ("edit f.py 1-2\n    x = 1", "a\nsecond line"),
    "Thought: a\nAction: go\nObservation: a door\nThought: b\nAction: open door": ("go", "a"),
    "Thought: a\nAction: go\nThought: that was it": ("go", "a"),
    "Thought: which Action: is best\nAction: go": ("go", "which Action: is best"),
    "Thought: the café ☕\nAction: öffne 📦": ("öffne 📦", "the café ☕"),
    f"Thought: {LONG}\nAction: go": ("go", LONG.strip()),
    "Thought:\nAction: go": ("go", ""),
    "Thought: a\nAction:": ("", "a"),
    "Thought: a": None,
    "Thought: a\nAction: go\nAction: look": None,
    "Action: go\nThought: a": None,
    "Action: go": None,
    "go": None,
    "": None,
}


CALL = '{"name": "show", "arguments": {"file": "a.py", "lines": "1-3"}}'
CALLS = {
    CALL: ("show a.py 1-3", ""),
    f"I look first.\n{CALL}": ("show a.py 1-3", "I look first."),
    f"<think>look {{at}} it</think>\n<tool_call>\n{CALL}\n</tool_call>": (
        "show a.py 1-3",
        "<think>look {at} it</think>",
    ),
    f"So:\n```json\n{CALL}\n```\nThat shows it.": ("show a.py 1-3", "So:"),
    f"<think>{CALL}? no</think>{CALL}": ("show a.py 1-3", f"<think>{CALL}? no</think>"),
    f"{LONG}{CALL}": ("show a.py 1-3", LONG.strip()),
    '{"name": "edit", "arguments": {"file": "a.py", "lines": "1-2", "text": "    é = 1\\n"}}': (
        "edit a.py 1-2\n    é = 1\n",
        "",
    ),
    '{"name": "edit", "arguments": "{\\"file\\": \\"a.py\\", \\"lines\\": 3}"}': ("edit a.py 3", ""),
    '{"name": "submit"}': ("submit", ""),
    '{"name": "show", "parameters": {"file": "a.py"}}': ("show a.py", ""),
    '{"name": "show", "arguments": {"path": "a.py"}}': ('{"name": "show", "arguments": {"path": "a.py"}}', ""),
    '{"name": "sing", "arguments": {}}': ('{"name": "sing", "arguments": {}}', ""),
    CALL[:-1]: None,
    f"So:\n{CALL} and\n{CALL}": (f"{CALL}\n{CALL}", "So:"),
    "show a.py 1-3": None,
    '{"name": 3, "arguments": {}}': None,
    '{"name": "show", "arguments": [1]}': None,
    "{" * 5000: None,
    '{"a":' * 5000: None,
    "": None,
}


def test_an_answer_without_a_call_may_be_an_action_in_words() -> None:
    form = form_of("tool_call", words=True, demo_thought="so")
    assert form.read("I am done.", FUNCTIONS) == Answer("I am done.")
    assert form.read(f"So: {CALL}", FUNCTIONS).action == "show a.py 1-3"
    assert form.demonstrate("", ["I am done."], FUNCTIONS) == "I am done."
    assert form.demonstrate("", ["show a.py 1-3"], FUNCTIONS) == f"so\n{CALL}"


@pytest.mark.parametrize(
    "command",
    ["ls", "ls src", "show a.py 1-3", "search a b", "replace a.py: x = {1} => y", "edit a.py 1-2\n  x\n", "submit"],
)
def test_a_command_is_a_call_and_the_call_is_the_command(command: str) -> None:
    form = form_of("tool_call", demo_thought="now {action}")
    answer = form.read(form.demonstrate("fix it", [command], FUNCTIONS), FUNCTIONS)
    assert (answer.action, answer.thought) == (command, f"now {command.splitlines()[0]}")
    with pytest.raises(ValueError, match="no function of this environment gives the action 'dance'"):
        form.write("dance", "")


def test_functions_take_the_place_of_what_is_said_of_actions() -> None:
    head = form_of("tool_call").head(PromptStyle("You repair.", "Answer with one command.", FUNCTIONS), "a test passes")
    assert head.startswith("You repair. Call one of these functions") and "one command" not in head
    assert "\nshow(file, lines?): a file's lines" in head and head.endswith("\nGoal: a test passes\n")


# answer -> action, subgoal, switch, parsed
SUBGOALS = {
    "<switch>SWITCH</switch><subgoal>the key</subgoal><action>go east</action>": ("go east", "the key", "SWITCH", True),
    "<switch> keep </switch>\n<subgoal>the key</subgoal>\n<action> go </action>": ("go", "the key", "KEEP", True),
    "<switch>new</switch><action>go</action>": ("go", "", "SWITCH", True),
    "<switch></switch><subgoal>a</subgoal><action>go</action>": ("go", "a", "KEEP", True),
    "<subgoal>a</subgoal><action>go</action>": ("go", "a", "KEEP", True),
    "<action>go</action>": ("go", "", "KEEP", True),
    "<switch>SWITCH<subgoal>a</subgoal><action>go</action>": ("go", "a", "KEEP", True),
    "go east": ("go east", "", "KEEP", False),
    "<switch>SWITCH</switch><subgoal>a</subgoal>go": (
        "<switch>SWITCH</switch><subgoal>a</subgoal>go",
        "a",
        "SWITCH",
        False,
    ),
    "": ("", "", "KEEP", False),
}


@pytest.mark.parametrize("text", SUBGOALS)
def test_subgoals(text: str) -> None:
    answer = form_of("hiper").read(text)
    assert (answer.action, answer.thought, answer.label, answer.parsed) == SUBGOALS[text]
    said = {part: text[slice(*span)] for part, span in answer.spans.items()}
    assert all(part.startswith(f"<{name}>") for name, part in said.items())
    assert said.get("action", "").endswith("</action>") == answer.parsed
    assert text[answer.begins :].startswith("<action>" if answer.parsed else text)


def test_demonstrations_say_the_same_of_a_subgoal_in_each_of_its_answers() -> None:
    plan, form = ["open box", "take key", "go east", "unlock door", "win"], form_of("hiper", demo_actions=2)
    answers = [form.read(form.demonstrate("win", plan[turn:])) for turn in range(len(plan))]
    assert [answer.action for answer in answers] == plan
    assert [answer.thought for answer in answers] == ["open box", "go east", "go east", "win", "win"]
    assert [answer.label for answer in answers] == ["KEEP", "SWITCH", "KEEP", "SWITCH", "KEEP"]
    told = form.recalled([Turn("a room", "go", thought="the key")])
    assert told == "Your last subgoal: the key\nYour last turns:\na room\nAction taken: go\nNow:\n"


# answer -> action, thought, tag; None: unparsed
KINDS = {
    "<planning>first the key</planning><action>go</action>": ("go", "first the key", "planning"),
    " <Reflection>that failed</REFLECTION>\n<action> go </action>": ("go", "that failed", "reflection"),
    "<explore>what is <monitor>there</monitor></explore><action>go</action>": (
        "go",
        "what is <monitor>there</monitor>",
        "explore",
    ),
    "<monitor></monitor><action>go</action>": ("go", "", "monitor"),
    "<planning>a</planning><explore>b</explore><action>go</action>": ("go", "a", "planning"),
    "<planning>a</planning>": None,
    "<planning>a</explore><action>go</action>": None,
    "so: <planning>a</planning><action>go</action>": None,
    "<think>a</think><action>go</action>": None,
    "<planning>a</planning><action>go</action><action>look</action>": None,
    "<action>go</action>": None,
    "": None,
}


SEARCHES = {
    "<think>a</think><search>who built it</search>": ("search who built it", "a"),
    "a</think>\n<answer> Orlen\n Bridge </answer> is it": ("answer Orlen Bridge", "a"),
    "<think><search>no</search></think><ANSWER>yes</ANSWER>": ("answer yes", "<search>no</search>"),
    "<think>a</think><search>who</search><information>Doc 1</information><answer>he</answer>": None,
    "<think>a</think><answer>he</answer><search>who": None,
    "<think>a</think><search>who</answer>": None,
    "<think>a</think>search who": None,
    "<search>who</search>": None,
    "": None,
}


TABLES = {"think_action": READ, "react": LINES, "tool_call": CALLS, "rlvmr": KINDS, "search_tags": SEARCHES}
ROWS = [(name, text) for name, table in TABLES.items() for text in table]


@pytest.mark.parametrize(("name", "text"), ROWS, ids=lambda text: text[:40])
def test_what_a_form_reads(name: str, text: str) -> None:
    form, wanted = form_of(name), TABLES[name][text]
    answer = form.read(text, FUNCTIONS) if name == "tool_call" else form.read(text)
    if wanted is None:
        assert answer == Answer("", parsed=False)
        return
    found = (answer.action, answer.thought, answer.label)
    assert found[: len(wanted)] == wanted and answer.parsed
    assert text[answer.begins :].lower().startswith(("<action>", "action:", "\naction:", "{", "<search>", "<answer>"))
    if name == "search_tags":
        assert form.read(form.write(answer.action, "b")) == Answer(answer.action, "b", len("<think>b</think>\n"))


def test_a_search_form_writes_nothing_else() -> None:
    form = form_of("search_tags")
    assert form.demonstrate("", ["search A", "search B"]) == "<think>I search A.</think>\n<search>A</search>"
    assert form.head(STYLE, "win").startswith("You are in a house. First think it over inside <think> </think>, then ")
    with pytest.raises(ValueError, match="writes searches and answers, not 'go east'"):
        form.write("go east", "")


def test_a_thought_may_be_left_out_where_that_is_allowed() -> None:
    for form, text in (
        (form_of("think_action", require_thought=False), "<action>go</action>"),
        (form_of("react", require_thought=False), "Action: go"),
        (form_of("rlvmr", require_thought=False), "<action>go</action>"),
        (form_of("search_tags", require_thought=False), "<search>who</search>"),
    ):
        assert (form.read(text).action, form.read(text).begins) in (("go", 0), ("search who", 0))
    assert not form_of("think_action", require_thought=False).read("<think>a <action>go</action>").parsed


def test_tags_of_ones_own() -> None:
    ragen = form_of("think_action", action_tag="answer")
    assert ragen.read("<think>a</think><answer>go</answer>").action == "go"
    assert not ragen.read("<think>a</think><action>go</action>").parsed
    assert "<answer> </answer>" in ragen.instructions
    assert ragen.marks == ("<think>", "</think>", "<answer>", "</answer>")


@pytest.mark.parametrize(
    ("key", "value"), [("think_tag", "a b"), ("action_tag", ""), ("action_tag", "think"), ("demo_thought", "{x}")]
)
def test_settings_that_cannot_be(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=key):
        form_of("think_action", **{key: value})


def test_nothing_takes_long_to_read() -> None:
    start = time.thread_time()
    for text, form in product(
        ("<think>" * 1000, "</think>" * 1000, "Action:\n" * 1000, "<action>" * 1000, "<planning>" * 1000),
        (TAGS, form_of("react"), form_of("hiper"), form_of("rlvmr")),
    ):
        assert not form.read(text).parsed
    assert time.thread_time() - start < 10


@pytest.mark.parametrize("name", [name for name in PROMPTS if name != "plain"])
def test_each_form_says_what_it_expected(name: str) -> None:
    """One short sentence, which names what answers in this form hold."""
    form = form_of(name)
    words = {React: ('"Thought: "', '"Action: "'), ToolCall: ("JSON", '"arguments"')}
    assert all(word in form.format_error for word in words.get(type(form), form.marks))
    assert len(form.format_error) < 200 and form.format_error.endswith(".")


@pytest.mark.parametrize(
    "form", [TAGS, form_of("react"), form_of("think_action", think_tag="mull", action_tag="do"), form_of("rlvmr")]
)
def test_what_a_form_writes_it_reads(form: PromptForm) -> None:
    plan = ["open box", "take key", "go east", "win"]
    answer = form.read(form.demonstrate("find the key", plan))
    assert (answer.action, answer.parsed) == ("open box", True)
    assert answer.thought == "My plan is to open box, then take key."


def test_a_thought_is_one_line_whatever_is_done() -> None:
    form = form_of("react", demo_thought="For {goal}: {action}")
    assert form.thought("a\nb", ["edit f 1-2\nx\ny"]) == "For a b: edit f 1-2"


def test_the_plain_form_says_what_was_always_said() -> None:
    plain = form_of("plain")
    assert plain.head(STYLE, "win") == "You are in a house. Answer with one action.\nGoal: win\n"
    assert plain.head(STYLE, "win", "Hint: go") == "You are in a house. Answer with one action.\nHint: go\nGoal: win\n"
    assert plain.message("a door") == "a door\nYour action:"
    assert plain.read(" <think> ") == Answer(" <think> ") and plain.write("go", "so") == "go"


def test_messages_tell_how_to_answer_what_may_be_done_and_what_was() -> None:
    assert TAGS.head(STYLE, "win") == (
        "You are in a house. Answer with one action.\n"
        "First think it over inside <think> </think>, then put your answer inside <action> </action>.\n"
        "Goal: win\n"
    )
    assert TAGS.message("a door", ["go", "look"]) == "a door\nAdmissible actions: go, look\nYour thought and action:"
    assert TAGS.recalled([]) == ""
    assert TAGS.recalled([Turn("a room", "go"), Turn("a hall", "", parsed=False)]) == (
        "Your last turns:\na room\nAction taken: go\na hall\nAction taken: (no action could be read)\nNow:\n"
    )
