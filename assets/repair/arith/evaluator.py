"""Computing arithmetic expressions with names and functions.

Grammar, loosest first: sums, products, signs, powers (to the right), then numbers, names, calls and brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from lexer import ExpressionError, Token, tokenise

FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
}


def evaluate(source: str, names: Mapping[str, float] | None = None) -> float:
    """The value of an expression; ``names`` gives the values of its variables."""
    parser = _Parser(tokenise(source), names or {})
    value = parser.sum()
    rest = parser.peek()
    if rest.kind != "end":
        raise ExpressionError(f"unexpected {rest.text!r}", rest.position)
    return value


def variables(source: str) -> list[str]:
    """The variables of an expression in alphabetical order, each once; functions that are called are left out."""
    tokens = tokenise(source)
    found = set()
    for token, following in pairwise(tokens):
        if token.kind == "name" and following.text != "(":
            found.add(token.text)
    return sorted(found)


class _Parser:
    def __init__(self, tokens: list[Token], names: Mapping[str, float]) -> None:
        self.tokens = tokens
        self.names = names
        self.index = 0

    def peek(self) -> Token:
        return self.tokens[self.index]

    def take(self) -> Token:
        token = self.tokens[self.index]
        self.index += 1
        return token

    def accept(self, *operators: str) -> Token | None:
        """The next token if it is one of these operators."""
        token = self.peek()
        if token.kind == "operator" and token.text in operators:
            return self.take()
        return None

    def expect(self, operator: str) -> None:
        if not self.accept(operator):
            token = self.peek()
            raise ExpressionError(f"expected {operator!r}", token.position)

    def sum(self) -> float:
        value = self.product()
        while operator := self.accept("+", "-"):
            right = self.product()
            value = value + right if operator.text == "+" else value - right
        return value

    def product(self) -> float:
        value = self.sign()
        while operator := self.accept("*", "/", "//", "%"):
            value = _divide_or_multiply(operator, value, self.sign())
        return value

    def sign(self) -> float:
        """A minus binds less tightly than a power: -2 ** 2 is -4."""
        if self.accept("-"):
            return -self.sign()
        if self.accept("+"):
            return self.sign()
        return self.power()

    def power(self) -> float:
        base = self.atom()
        if self.accept("**"):
            return base ** self.sign()
        return base

    def atom(self) -> float:
        token = self.take()
        if token.kind == "number":
            return float(token.text) if "." in token.text else int(token.text)
        if token.kind == "name":
            return self.call(token) if self.accept("(") else self.variable(token)
        if token.text == "(":
            value = self.sum()
            self.expect(")")
            return value
        raise ExpressionError("expected a value", token.position)

    def variable(self, token: Token) -> float:
        if token.text not in self.names:
            raise ExpressionError(f"unknown name {token.text!r}", token.position)
        return self.names[token.text]

    def call(self, token: Token) -> float:
        if token.text not in FUNCTIONS:
            raise ExpressionError(f"unknown function {token.text!r}", token.position)
        arguments = [self.sum()]
        while self.accept(","):
            arguments.append(self.sum())
        self.expect(")")
        return FUNCTIONS[token.text](*arguments)


def _divide_or_multiply(operator: Token, left: float, right: float) -> float:
    if operator.text == "*":
        return left * right
    if right == 0:
        raise ExpressionError("division by zero", operator.position)
    if operator.text == "/":
        return left / right
    if operator.text == "//":
        return left // right
    return left % right
