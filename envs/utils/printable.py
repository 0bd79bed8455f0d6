"""Printable text without control tokens: a program, a file or a model may write any character.

A tokenizer reads ``<|im_end|>`` as the end of a turn anywhere. A space after the first character
makes a control token in a text ordinary, and leaves it readable.
"""

import re
from collections.abc import Container

REPLACEMENT = "\ufffd"
_CUT = " ... "

# ECMA-48: control strings (titles, links), control sequences (colours, cursor), other escapes.
_TERMINAL = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|\x1b[ -/]*+[0-~]"
)
_LINE_END = re.compile(r"\r\n?")
# The rest of C0 (without tab and newline), DEL, C1; overrides of the writing direction, which hide
# text; halves of surrogate pairs, which files and tokenizers refuse.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
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


def printable(text: str) -> str:
    """Remove terminal sequences, replace control characters by U+FFFD; lines end with ``\\n``.

    >>> printable("\\x1b[31mred\\x1b[0m\\x07")
    'red\ufffd'
    """
    return _UNPRINTABLE.sub(REPLACEMENT, _LINE_END.sub("\n", _TERMINAL.sub("", text)))


def shortened(text: str, chars: int | None) -> str:
    """Return a text without its middle if it has more than ``chars`` characters (None: all)."""
    if chars is None or len(text) <= chars:
        return text
    kept = chars - len(_CUT)
    return text[: kept - kept // 2] + _CUT + text[len(text) - kept // 2 :]


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
