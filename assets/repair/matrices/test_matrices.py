from fractions import Fraction

import pytest
from matrices import Matrix, SingularError

SQUARE = Matrix([[2, 1], [5, 3]])
WIDE = Matrix([[1, 2, 3], [4, 5, 6]])


def test_a_matrix_is_a_full_rectangle():
    assert WIDE.shape == (2, 3)
    with pytest.raises(ValueError, match="differ in length"):
        Matrix([[1, 2], [3]])
    for empty in ([], [[]]):
        with pytest.raises(ValueError, match="at least one cell"):
            Matrix(empty)


def test_cells_are_exact_fractions():
    assert Matrix([["1/3", 2]]).rows == [[Fraction(1, 3), Fraction(2)]]
    assert Matrix([[1]]) == Matrix([["1"]])
    assert Matrix([[1]]) != [[1]]


def test_printed_cells_are_flush_right():
    assert str(Matrix([[1, "1/2"], [-10, 3]])) == "  1 1/2\n-10   3"


def test_sums_and_differences_go_cell_by_cell():
    assert WIDE + WIDE == Matrix([[2, 4, 6], [8, 10, 12]])
    assert SQUARE - Matrix.identity(2) == Matrix([[1, 1], [5, 2]])


def test_shapes_must_agree_in_sums():
    with pytest.raises(ValueError, match="differ"):
        SQUARE + WIDE


def test_a_product_takes_rows_times_columns():
    assert SQUARE @ WIDE == Matrix([[6, 9, 12], [17, 25, 33]])
    with pytest.raises(ValueError, match="cannot multiply"):
        WIDE @ SQUARE


def test_the_identity_changes_nothing():
    assert Matrix.identity(2) == Matrix([[1, 0], [0, 1]])
    assert Matrix.identity(2) @ WIDE == WIDE


@pytest.mark.parametrize("exponent", [0, 1, 2, 5])
def test_powers_are_repeated_products(exponent):
    expected = Matrix.identity(2)
    for _ in range(exponent):
        expected = expected @ SQUARE
    assert SQUARE**exponent == expected


def test_negative_powers_are_those_of_the_inverse():
    assert SQUARE**-1 == SQUARE.inverse()
    assert SQUARE**-3 @ SQUARE**3 == Matrix.identity(2)


def test_scaling_and_transposing_and_the_trace():
    assert WIDE.scaled(2) == WIDE + WIDE
    assert WIDE.transposed() == Matrix([[1, 4], [2, 5], [3, 6]])
    assert SQUARE.trace() == 5
    assert WIDE.trace() == 6


def test_rank_counts_independent_rows():
    assert Matrix([[1, 2], [2, 4]]).rank() == 1
    assert Matrix([[0, 0], [0, 0]]).rank() == 0
    assert Matrix([[0, 1], [1, 0], [1, 1]]).rank() == 2
    assert WIDE.rank() == 2


def test_the_determinant_knows_exchanged_rows():
    assert SQUARE.determinant() == 1
    assert Matrix([[0, 2], [3, 4]]).determinant() == -6
    assert Matrix([[0, 0, 1], [2, 0, 0], [0, 3, 0]]).determinant() == 6
    assert Matrix([[1, 2], [2, 4]]).determinant() == 0


def test_the_inverse_times_the_matrix_is_the_identity():
    matrix = Matrix([[0, 2, 1], [1, 1, 0], [3, 0, 4]])
    assert matrix @ matrix.inverse() == Matrix.identity(3)
    assert matrix.inverse() @ matrix == Matrix.identity(3)
    with pytest.raises(SingularError):
        Matrix([[1, 2], [2, 4]]).inverse()


def test_equations_are_solved_exactly():
    assert SQUARE.solve([1, 2]) == [1, -1]
    assert Matrix([[2, 0], [0, 3]]).solve([1, 1]) == [Fraction(1, 2), Fraction(1, 3)]
    for ask in (WIDE.inverse, WIDE.determinant):
        with pytest.raises(ValueError, match="2 x 3 matrix is not square"):
            ask()
