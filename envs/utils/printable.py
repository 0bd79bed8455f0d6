"""Printable text: a program, a file or a model may write any character."""

import re

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
