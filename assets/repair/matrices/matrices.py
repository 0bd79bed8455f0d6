"""Exact linear algebra over fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

Row = list[Fraction]


class SingularError(ValueError):
    """A matrix without an inverse."""


class Matrix:
    """A rectangle of fractions; nothing changes a matrix once it was made."""

    def __init__(self, rows: Iterable[Iterable[int | str | Fraction]]) -> None:
        self.rows = [[Fraction(cell) for cell in row] for row in rows]
        if not self.rows or not self.rows[0]:
            raise ValueError("a matrix has at least one cell")
        if any(len(row) != len(self.rows[0]) for row in self.rows):
            raise ValueError("the rows differ in length")

    @classmethod
    def identity(cls, size: int) -> Matrix:
        """Ones on the diagonal, zeros elsewhere."""
        return cls([[int(row == column) for column in range(size)] for row in range(size)])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matrix) and self.rows == other.rows

    def __str__(self) -> str:
        """One line a row, the cells flush right."""
        cells = [[str(cell) for cell in row] for row in self.rows]
        width = max(len(cell) for row in cells for cell in row)
        return "\n".join(" ".join(cell.rjust(width) for cell in row) for row in cells)

    def __add__(self, other: Matrix) -> Matrix:
        return self._cellwise(other, lambda a, b: a + b)

    def __sub__(self, other: Matrix) -> Matrix:
        return self._cellwise(other, lambda a, b: a - b)

    def __matmul__(self, other: Matrix) -> Matrix:
        """The matrix product: rows of this one times columns of the other."""
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"cannot multiply {self.shape} by {other.shape}")
        columns = other.transposed().rows
        return Matrix([[_dot(row, column) for column in columns] for row in self.rows])

    def __pow__(self, exponent: int) -> Matrix:
        """The product of so many copies, by squaring; negative powers are those of the inverse."""
        base = self if exponent >= 0 else self.inverse()
        left = abs(exponent)
        result = Matrix.identity(self.shape[0])
        while left:
            if left % 2 == 1:
                result = result @ base
            base = base @ base
            left //= 2
        return result

    def scaled(self, factor: int | Fraction) -> Matrix:
        """Every cell times ``factor``."""
        return Matrix([[cell * factor for cell in row] for row in self.rows])

    def transposed(self) -> Matrix:
        """Rows become columns."""
        return Matrix(list(zip(*self.rows, strict=True)))

    def trace(self) -> Fraction:
        """The sum of the diagonal."""
        return sum((self.rows[index][index] for index in range(min(self.shape))), Fraction(0))

    def rank(self) -> int:
        """The number of independent rows."""
        reduced, _ = _eliminate([row[:] for row in self.rows], self.shape[1])
        return sum(any(row) for row in reduced)

    def determinant(self) -> Fraction:
        """The product of the pivots, its sign turned by each exchange of rows."""
        self._must_be_square()
        reduced, determinant = _eliminate([row[:] for row in self.rows], self.shape[1])
        return determinant if all(any(row) for row in reduced) else Fraction(0)

    def inverse(self) -> Matrix:
        """The matrix whose product with this one is the identity."""
        self._must_be_square()
        size = self.shape[0]
        wide = [[*row, *unit] for row, unit in zip(self.rows, Matrix.identity(size).rows, strict=True)]
        reduced, _ = _eliminate(wide, size)
        if not all(any(row[:size]) for row in reduced):
            raise SingularError("the matrix has no inverse")
        return Matrix([row[size:] for row in reduced])

    def solve(self, right: Iterable[int | Fraction]) -> list[Fraction]:
        """The x for which this matrix times x equals ``right``."""
        column = Matrix([[value] for value in right])
        return [row[0] for row in (self.inverse() @ column).rows]

    def _must_be_square(self) -> None:
        if self.shape[0] != self.shape[1]:
            raise ValueError(f"a {self.shape[0]} x {self.shape[1]} matrix is not square")

    def _cellwise(self, other: Matrix, operation: Callable[[Fraction, Fraction], Fraction]) -> Matrix:
        if self.shape != other.shape:
            raise ValueError(f"the shapes {self.shape} and {other.shape} differ")
        pairs = zip(self.rows, other.rows, strict=True)
        return Matrix([[operation(a, b) for a, b in zip(left, right, strict=True)] for left, right in pairs])


def _dot(left: Iterable[Fraction], right: Iterable[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def _eliminate(rows: list[Row], width: int) -> tuple[list[Row], Fraction]:
    """Gauss-Jordan over the first ``width`` columns; also gives the product of the pivots with its sign."""
    product = Fraction(1)
    top = 0
    for column in range(width):
        pivot = next((index for index in range(top, len(rows)) if rows[index][column] != 0), None)
        if pivot is None:
            continue
        if pivot != top:
            rows[top], rows[pivot] = rows[pivot], rows[top]
            product = -product
        factor = rows[top][column]
        product *= factor
        rows[top] = [cell / factor for cell in rows[top]]
        for index in range(len(rows)):
            if index != top and rows[index][column] != 0:
                times = rows[index][column]
                rows[index] = [cell - times * above for cell, above in zip(rows[index], rows[top], strict=True)]
        top += 1
    return rows, product
