"""Text of a chat message without control tokens.

A tokenizer reads ``<|im_end|>`` as the end of a turn anywhere. A space after the first character
makes a control token in a text ordinary, and leaves it readable.
"""

import re
from collections.abc import Container

from turngrid.envs.utils.printable import printable

_NAMES = (
    *("s", "bos", "eos", "pad", "unk", "mask", "sop", "eop", "think", "BOS_TOKEN", "EOS_TOKEN", "PAD_TOKEN"),
    *("start_of_turn", "end_of_turn", "start_of_image", "end_of_image", "tool_call", "tool_response"),
)
_BRACKETED = (
    *("INST", "SYSTEM_PROMPT", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS", "TOOL_CONTENT", "ARGS", "CALL_ID"),
    *("THINK", "PREFIX", "MIDDLE", "SUFFIX", "IMG", "CLS", "SEP", "PAD", "UNK", "MASK", "gMASK", "sMASK"),
)
# For a model with an unknown tokenizer: control tokens of ChatML, Llama, Mistral, Gemma, DeepSeek,
# GLM, MiniMax, gpt-oss and Cohere.
KNOWN_MARKS = re.compile(
    r"<\|[^\s<>|]{1,64}\|?>|<[^\s<>|]{1,64}\|>|</?｜[^\s<>｜]{1,64}｜>"
    rf"|</?(?:{'|'.join(_NAMES)})>|<extra_id_\d+>|\[/?(?:{'|'.join(_BRACKETED)})\]|<</?SYS>>|\[e~\[|\]~!b\[|\]~b\]"
)
_ROUNDS = 4  # a space may form another control token, which is broken up again


def broken_up(text: str, marks: re.Pattern[str], allowed: Container[str] = ()) -> str:
    """Return ``text`` with a space in each of its ``marks`` that is not ``allowed``."""
    for _ in range(_ROUNDS):
        text, changed = marks.subn(lambda mark: mark[0] if mark[0] in allowed else f"{mark[0][0]} {mark[0][1:]}", text)
        if not changed:
            break
    return text


def chat_text(text: str, allowed: Container[str] = ()) -> str:
    """Return printable text without known control tokens, except the ``allowed`` ones.

    >>> chat_text("a door<|im_end|>")
    'a door< |im_end|>'
    """
    return broken_up(printable(text), KNOWN_MARKS, allowed)
