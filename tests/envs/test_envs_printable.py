"""Whatever an environment prints: what leaves it steers no terminal, hides nothing, and can be
written to a file."""

import json
import time

import pytest

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import EnvError
from turngrid.envs.utils.chat_text import chat_text
from turngrid.envs.utils.printable import printable

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
    async with EnvPool("fragile", workers=1, step_deadline_s=20.0) as pool:
        session = await pool.open()
        opening = await session.reset(task, 0)
        seen = (await session.step("noise")).observation
        with pytest.raises(EnvError) as caught:
            await session.step("scream")
    for text in (opening.goal, seen.text, seen.goal, str(caught.value), task.goal):
        assert "before" in text and "after" in text and not set(text) & set(HARMFUL) - set("\n\t")
        json.dumps(text, ensure_ascii=False).encode()
