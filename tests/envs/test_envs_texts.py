"""Whatever an environment prints: what leaves it steers no terminal, hides nothing, and can be
written to a file. Whatever an agent says: the game hears one clean command or none."""

import json
import time

import pytest
from made import played

from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.text_env import MAX_ACTION_CHARS, NOT_ALLOWED, RawStep, TextEnv, sanitise
from turngrid.envs.types import EnvError, Observation
from turngrid.envs.utils.printable import chat_text, printable

HARMFUL = [
    chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xD800)
]
ORDINARY = [
    "",
    "You see a box.\n\tExits: north.",
    "Öffne — 你好 🚪 ｜ \u200b\u200f\u2028 e\u0301 \ufeff",
    "x |> f <| y <b>s</b> [a]",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == chat_text(text) == text


def test_no_control_character_is_left() -> None:
    for letter in HARMFUL:
        for text in (letter, f"a{letter}b", f"\x1b{letter}[0m", f"\x1b[{letter}31m", letter * 3):
            left = set(printable(text)) & set(HARMFUL)
            assert left <= {"\n", "\t"}, repr(text)
            printable(text).encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mFAILED\x1b[0m a\x1b(B", "FAILED a"),
        ("\x1b]0;a title\x07b\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "blink"),
        ("\x9b31mred\x9d0;title\x9cx", "redx"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("a\x07\x00b", "a\ufffd\ufffdb"),
        ("\x1b\x1b[0m[31m", "\ufffd[31m"),
        ("if a:\u202e # \u2066b", "if a:\ufffd # \ufffdb"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_what_becomes_of_it(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text", ["\x1b]", "\x1b[0", "\x9d", "\x1b[" + "0" * 200, "\x1b ", "<|", "<｜", "<|aaaa", "</", "[/", "\r"]
)
def test_no_text_takes_long(text: str) -> None:
    """200,000 characters; a pattern that looks twice at each would take hours."""
    start = time.thread_time()
    chat_text(text * (200_000 // len(text)))
    assert time.thread_time() - start < 20


MARKS = """
<|im_end|> <|im_start|> <|endoftext|> <|eot_id|> <|start_header_id|> <|channel|> <|turn> <turn|>
<s> </s> [INST] [/INST] <<SYS>> <</SYS>> [TOOL_CALLS] <start_of_turn> <end_of_turn>
<think> </think> <tool_call> </tool_response> <｜end▁of▁sentence｜> <｜User｜> [gMASK] ]~b] [e~[
"""


@pytest.mark.parametrize("mark", MARKS.split())
def test_marks_of_known_families_are_broken_up(mark: str) -> None:
    """For models whose tokenizer nobody here knows."""
    for text in (mark, f"a{mark}b", mark * 3, f"{mark[:2]}{mark}{mark[2:]}", f"{mark[:2]}\x1b[0m{mark[2:]}"):
        assert mark not in chat_text(text)


async def test_observations_goals_and_errors_leave_an_environment_printable(fragile: Catalogue) -> None:
    (task,) = fragile.tasks("fast", "test", 1, progress=False)
    async with EnvPool("fragile:Fragile", workers=1, step_deadline_s=20.0) as pool:
        session = await pool.open()
        opening = await session.reset(task, 0)
        seen = (await session.step("noise")).observation
        with pytest.raises(EnvError) as caught:
            await session.step("scream")
    for text in (opening.goal, seen.text, seen.goal, str(caught.value), task.goal):
        assert "before" in text and "after" in text and not set(text) & set(HARMFUL) - set("\n\t")
        json.dumps(text, ensure_ascii=False).encode()


# ---- what an agent says

DIRTY = [
    *("look\nopen door\nquit", "\n\n  look  \r\nquit", "a\\b\\nquit", "\\h", "\\", "x" * 10_000),
    *(
        "take " + "very " * 2_000 + "big box",
        "look\x00\x1b[2J\x07",
        "öffne die Tür — jetzt 🚪",
        "look\u2028quit\u0085quit",
    ),
    *("quit", "QUIT", "q", "  restart ", "save", "restore\nyes", "undo", "script", "version", "print_state"),
    *("tw-trace-actions", "enable print state option", "look. quit", "look then quit", "look;quit", ". quit"),
    *("", "   \n\t\n", '"quit"'),
]


CLEAN = {
    "open box": "open box",
    "  open \t box \nquit": "open box",
    "\n\nlook": "look",
    "take a\\b": "take a b",
    "\x00\x1f": "",
    "ünï": "",  # not "n", which walks north
    "“go east” — größe": "go east",
    "go " * 50_000 + "\nquit": ("go " * 40).strip(),
}


def test_the_cleaned_action_is_one_short_line_of_printable_ascii():
    for action in DIRTY:
        clean = sanitise(action)
        assert len(clean) <= MAX_ACTION_CHARS and clean.isascii() and clean.isprintable() and "\\" not in clean
    assert {action: sanitise(action) for action in CLEAN} == CLEAN


def test_a_dirty_action_desynchronises_nothing(custom_games):
    """After it, the game answers every step of the expert plan as it does without it, and is
    won. A finished game takes no more steps."""
    env = registry.make_environment("textworld").env()
    _, clean = played(env, custom_games[0])
    with pytest.raises(EnvError, match="reset first"):
        env.step("look")
    for action in DIRTY:
        _, [dirty, *results] = played(env, custom_games[0], (action, *custom_games[0].expert_plan))
        assert not dirty.terminated and results == clean
    env.close()


def test_what_is_a_command_and_what_is_understood(simple_games):
    """Commands to the program are answered without asking the game. A chain of commands would let
    an agent take several turns in one."""
    env, task = registry.make_environment("tw_simple").env(), simple_games["dense"]
    banned = ("quit", "SAVE game", "restart", "undo", "print_state", "", "\n", ". look")
    for result in played(env, task, banned)[1]:
        text = result.observation.text
        assert NOT_ALLOWED in text and text.startswith("You are now in the ")
        assert (result.valid, result.score_delta, result.terminated) == (False, 0.0, False)
    chain, *others = ". ".join(task.expert_plan[:3]), "look", "inventory", "frobnicate", "open the pod bay doors"
    _, [one, *results] = played(env, task, (chain, *others))
    assert (one.observation, one.score_delta) == (played(env, task, task.expert_plan[:1])[1][0].observation, 1.0)
    assert [result.valid for result in results] == [True, True, False, False]
    env.close()


@pytest.mark.parametrize("name", registry.ENVIRONMENTS)
def test_no_action_takes_long_to_clean(name):
    """100 kB of anything, in every environment: no pattern may go back over it again and again."""
    env = registry.make_environment(name).env()
    for unit in (" ", "\u2003", "\n", " \n", ".", " then", "[", "=> ", "```\n", "9", "a", "\\", "é "):
        for action in (unit * (100_000 // len(unit)), f"replace a: {unit * (100_000 // len(unit))}x"):
            start = time.thread_time()
            env.refuses(env.clean_action(action))
            assert time.thread_time() - start < 1, unit
    env.close()


class Broken(TextEnv):
    def reset_game(self, task, seed):
        return Observation("")

    def step_game(self, command):
        return RawStep(Observation(""), float(command))


class Namesakes(Broken):
    """Gives its own methods and attributes the names that TextEnv uses for itself."""

    def reset_game(self, task, seed):
        self._score = self._open = self._playing = self._game = None
        return self._observe()

    def _observe(self):
        return Observation("dark")

    _step = _reset = _finish = _outcome = _refused = _check_open = _observe


def test_a_subclass_has_names_of_its_own_and_a_score_is_a_number():
    env = Namesakes()
    for score in ("nan", "inf"):
        env.reset(None, 0)
        assert env.step("").observation.text == NOT_ALLOWED
        assert env.step("0.5").score_delta == 0.5
        with pytest.raises(EnvError, match=f"Namesakes gave the score {score}"):
            env.step(score)


@pytest.mark.parametrize("name", ["reset", "step", "finish", "refuses", "close"])
def test_a_subclass_cannot_replace_what_the_agent_calls(name):
    with pytest.raises(TypeError, match=f"Lamp.{name} .* another name"):
        type("Lamp", (Broken,), {name: lambda self: None})
