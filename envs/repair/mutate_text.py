"""Where the nodes of a syntax tree stand in their source, and changes of that text."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """Characters ``start`` to ``stop`` become ``text``."""

    kind: str
    start: int
    stop: int
    text: str


class Text:
    """A module's source, by lines (from 1, as the syntax tree counts them) and by characters."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(len(line) for line in self._lines)]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The first character of a node and the one behind its last."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The words of a node."""
        start, stop = self.span(node)
        return self.source[start:stop]

    def line_span(self, first: int, last: int) -> tuple[int, int]:
        """The characters of whole lines, both included."""
        return self._starts[first - 1], self._starts[last]

    def indent(self, line: int) -> str:
        words = self._lines[line - 1]
        return words[: len(words) - len(words.lstrip())]

    def starts_with(self, line: int, word: str) -> bool:
        return self._lines[line - 1].lstrip().startswith(word)

    def stands_alone(self, node: ast.stmt) -> bool:
        """True if a statement shares its lines with nothing, not even a comment."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        before = self._lines[node.lineno - 1].encode()[: node.col_offset]
        after = self._lines[node.end_lineno - 1].encode()[node.end_col_offset :]
        return not before.strip() and not after.strip()

    def replaced(self, kind: str, node: ast.expr, words: str) -> Change:
        return Change(kind, *self.span(node), words)

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Change:
        """A change of the operator ``old`` between two operands."""
        place = self.source.index(old, self.span(left)[1], self.span(right)[0])
        return Change(kind, place, place + len(old), new)

    def _at(self, line: int, column: int) -> int:
        """The tree counts columns in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())
