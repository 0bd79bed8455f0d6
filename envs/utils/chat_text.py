"""Text that goes into a chat message: nothing in it may pass for the marks between the messages.

A tokenizer takes ``<|im_end|>`` for the end of a turn wherever it stands. A mark in a text is broken up by a space after its
first character, which leaves it readable and makes it letters like any others.
"""

from __future__ import annotations

import re
from collections.abc import Container

from envs.utils.printable import printable

_NAMES = (
    *("s", "bos", "eos", "pad", "unk", "mask", "sop", "eop", "think", "BOS_TOKEN", "EOS_TOKEN", "PAD_TOKEN"),
    *("start_of_turn", "end_of_turn", "start_of_image", "end_of_image", "tool_call", "tool_response"),
)
_BRACKETED = (
    *("INST", "SYSTEM_PROMPT", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS", "TOOL_CONTENT", "ARGS", "CALL_ID"),
    *("THINK", "PREFIX", "MIDDLE", "SUFFIX", "IMG", "CLS", "SEP", "PAD", "UNK", "MASK", "gMASK", "sMASK"),
)
# For a model whose tokenizer is not known: how open models spell their marks (ChatML, Llama, Mistral, Gemma, DeepSeek, GLM,
# MiniMax, gpt-oss, Cohere).
KNOWN_MARKS = re.compile(
    r"<\|[^\s<>|]{1,64}\|?>|<[^\s<>|]{1,64}\|>|</?｜[^\s<>｜]{1,64}｜>"
    rf"|</?(?:{'|'.join(_NAMES)})>|<extra_id_\d+>|\[/?(?:{'|'.join(_BRACKETED)})\]|<</?SYS>>|\[e~\[|\]~!b\[|\]~b\]"
)
_ROUNDS = 4  # what a space joins to another mark is broken up again


def broken_up(text: str, marks: re.Pattern[str], allowed: Container[str] = ()) -> str:
    """``text`` with a space in each of its ``marks`` that is not ``allowed``; as it is where there are none."""
    for _ in range(_ROUNDS):
        text, found = marks.subn(lambda mark: mark[0] if mark[0] in allowed else f"{mark[0][0]} {mark[0][1:]}", text)
        if not found:
            break
    return text


def chat_text(text: str, allowed: Container[str] = ()) -> str:
    """What is sent to a model of somebody else's in a message: printable, and without a mark of any known family but the
    ``allowed`` ones.

    >>> chat_text("a door<|im_end|>")
    'a door< |im_end|>'
    """
    return broken_up(printable(text), KNOWN_MARKS, allowed)
