"""Splitting arithmetic expressions into tokens."""

from __future__ import annotations

from dataclasses import dataclass

OPERATORS = ("**", "//", "+", "-", "*", "/", "%", "(", ")", ",")


class ExpressionError(ValueError):
    """An expression that cannot be read or computed; ``position`` is the column (from 0) of the culprit."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} at column {position}")
        self.position = position


@dataclass(frozen=True)
class Token:
    """``kind`` is ``number``, ``name``, ``operator`` or ``end``."""

    kind: str
    text: str
    position: int


def tokenise(source: str) -> list[Token]:
    """The tokens of an expression, spaces left out, closed by a token of kind ``end``."""
    tokens = []
    position = 0
    while position < len(source):
        if source[position].isspace():
            position += 1
            continue
        token = _read(source, position)
        tokens.append(token)
        position += len(token.text)
    tokens.append(Token("end", "", len(source)))
    return tokens


def _read(source: str, start: int) -> Token:
    char = source[start]
    if char.isdigit() or (char == "." and source[start + 1 : start + 2].isdigit()):
        return Token("number", _number(source, start), start)
    if char.isalpha() or char == "_":
        return Token("name", _name(source, start), start)
    for operator in OPERATORS:
        if source.startswith(operator, start):
            return Token("operator", operator, start)
    raise ExpressionError(f"unexpected character {char!r}", start)


def _number(source: str, start: int) -> str:
    """Digits with at most one point among them."""
    end = start
    points = 0
    while end < len(source) and (source[end].isdigit() or source[end] == "."):
        points += source[end] == "."
        end += 1
    if points > 1:
        raise ExpressionError("a number has one point at most", start)
    return source[start:end]


def _name(source: str, start: int) -> str:
    end = start
    while end < len(source) and (source[end].isalnum() or source[end] == "_"):
        end += 1
    return source[start:end]
