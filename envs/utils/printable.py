"""Text that can be shown: a program under test, a file or a model may put anything at all into what it says."""

from __future__ import annotations

import re

REPLACEMENT = "\ufffd"

# ECMA-48: control strings (window titles, links), control sequences (colours, cursor), other escapes.
_TERMINAL = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|\x1b[ -/]*+[0-~]"
)
_LINE_END = re.compile(r"\r\n?")
# What is left of C0 (but for tab and newline), DEL, C1; overrides of the direction of writing, which make a line read
# otherwise than it is; halves of surrogate pairs, which no file and no tokenizer takes.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` without what would steer a terminal or hide itself: terminal sequences are left out, every line ends with
    ``\\n``, any other such character becomes U+FFFD. Ordinary text comes back as it is.

    >>> printable("\\x1b[31mred\\x1b[0m\\x07")
    'red\ufffd'
    """
    return _UNPRINTABLE.sub(REPLACEMENT, _LINE_END.sub("\n", _TERMINAL.sub("", text)))
