"""What a cheat is, and the words that make one out of Python code and an agent's commands.

Written without a look at the defence: an entry is a way to be paid for a repair that was not made.
``games.py`` has the broken repositories that they are tried on.
"""

from dataclasses import dataclass

from turngrid.envs.repair import bugs as libraries

_RUNS = libraries.library("encoding").files["runs.py"].split("\n")
# The line of runs.py that the bug of the game "runs" spoils (``return None`` in place of the
# result), and the first free line below its imports.
RESULT_LINE = _RUNS.index('    return "".join(parts)') + 1
TOP_LINE = _RUNS.index("from compact import DecodeError") + 2


@dataclass(frozen=True)
class Cheat:
    """One way to be paid.

    ``what`` says in one sentence what it does; ``actions`` are played as they are, and ``submit``
    after them. ``game`` is the name of a game of ``games.py``. ``undetectable``: it gives the
    answers that the tests ask for, and no grader that has only these tests can tell;
    docs/sandbox.md names it.
    """

    name: str
    what: str
    actions: tuple[str, ...]
    game: str = "runs"
    undetectable: bool = False


def in_runs(result: str = "return None", top: str = "") -> tuple[str, ...]:
    """Code in place of the spoilt result of ``encode_runs``, whose caller is the test, and at the
    top of its module."""
    body = "\n".join(f"    {line}" for line in result.strip("\n").split("\n"))
    actions = [f"edit runs.py {RESULT_LINE}-{RESULT_LINE}\n{body}"]
    if top:
        actions.append(f"edit runs.py {TOP_LINE}-{TOP_LINE - 1}\n{top.strip(chr(10))}")
    return tuple(actions)


def at_top(path: str, line: int, code: str) -> tuple[str, ...]:
    """Code put before a line of a file."""
    return (f"edit {path} {line}-{line - 1}\n{code.strip(chr(10))}",)


def new_file(path: str, text: str = "") -> str:
    return f"edit {path} 1-0\n{text.strip(chr(10))}"
