import pytest
from evaluator import evaluate, variables
from lexer import ExpressionError, tokenise


def texts(source):
    return [token.text for token in tokenise(source)]


def kinds(source):
    return [token.kind for token in tokenise(source)]


def test_spaces_are_left_out_of_the_tokens():
    assert texts(" 1 +\t2 ") == ["1", "+", "2", ""]


def test_tokens_are_closed_by_an_end_token():
    assert kinds("") == ["end"]
    assert tokenise("1+2")[-1].position == 3


def test_tokens_know_their_column():
    assert [token.position for token in tokenise("ab + 12")] == [0, 3, 5, 7]


def test_the_longest_operator_is_taken_first():
    assert texts("2**3//4*5") == ["2", "**", "3", "//", "4", "*", "5", ""]


@pytest.mark.parametrize("source", ["x", "_x", "x_1", "rate2", "_"])
def test_a_name_is_one_token(source):
    assert kinds(source) == ["name", "end"]
    assert texts(source)[0] == source


@pytest.mark.parametrize("source", ["0", "12", "1.5", ".5", "3."])
def test_a_number_is_one_token(source):
    assert kinds(source) == ["number", "end"]
    assert texts(source)[0] == source


def test_a_number_has_at_most_one_point():
    with pytest.raises(ExpressionError, match="one point") as caught:
        tokenise("1 + 1.2.3")
    assert caught.value.position == 4


@pytest.mark.parametrize(("source", "position"), [("$", 0), ("1 + #", 4), (".", 0), ("2 . 5", 2)])
def test_an_unknown_character_is_reported_with_its_column(source, position):
    with pytest.raises(ExpressionError, match="unexpected character") as caught:
        tokenise(source)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("7", 7),
        ("1 + 2", 3),
        ("7 - 2", 5),
        ("3 * 4", 12),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("2 ** 5", 32),
    ],
)
def test_each_operator_computes_its_value(source, value):
    assert evaluate(source) == value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 * 3 ** 2", 18),
        ("10 - 4 - 3", 3),
        ("48 / 4 / 3", 4),
        ("2 ** 3 ** 2", 512),
        ("20 // 3 * 2", 12),
        ("((2))", 2),
    ],
)
def test_operators_bind_in_their_order(source, value):
    assert evaluate(source) == value


@pytest.mark.parametrize(
    ("source", "value"),
    [("-3", -3), ("+3", 3), ("--3", 3), ("2 - -3", 5), ("-2 ** 2", -4), ("2 ** -1", 0.5), ("-2 * 3", -6)],
)
def test_signs_bind_less_tightly_than_powers(source, value):
    assert evaluate(source) == value


def test_whole_numbers_stay_whole_and_points_make_floats():
    assert isinstance(evaluate("2"), int)
    assert isinstance(evaluate("2."), float)
    assert evaluate(".5 + 1.25") == 1.75


def test_names_take_their_values():
    assert evaluate("price * (1 + rate)", {"price": 100, "rate": 0.5}) == 150


def test_a_name_may_be_zero():
    assert evaluate("x + 1", {"x": 0}) == 1


def test_an_unknown_name_is_reported_with_its_column():
    with pytest.raises(ExpressionError, match="unknown name 'tax'") as caught:
        evaluate("1 + tax", {"rate": 1})
    assert caught.value.position == 4


@pytest.mark.parametrize(
    ("source", "value"),
    [("max(1, 5, 3)", 5), ("min(4, 2)", 2), ("abs(2 - 9)", 7), ("round(2.6)", 3), ("1 + max(2, 3) * 2", 7)],
)
def test_functions_are_called_with_their_arguments(source, value):
    assert evaluate(source) == value


def test_calls_can_be_nested():
    assert evaluate("max(min(8, 6), abs(-5))") == 6


def test_an_unknown_function_is_reported():
    with pytest.raises(ExpressionError, match="unknown function 'sin'"):
        evaluate("sin(1)")


@pytest.mark.parametrize("source", ["1 / 0", "1 // 0", "1 % 0", "1 / (2 - 2)"])
def test_division_by_zero_is_reported_at_the_operator(source):
    with pytest.raises(ExpressionError, match="division by zero") as caught:
        evaluate(source)
    assert caught.value.position == 2


def test_zero_divided_is_zero():
    assert evaluate("0 / 5") == 0
    assert evaluate("0 * 5") == 0


@pytest.mark.parametrize(("source", "position"), [("", 0), ("1 +", 3), ("()", 1), ("2 * * 3", 4)])
def test_a_missing_value_is_reported(source, position):
    with pytest.raises(ExpressionError, match="expected a value") as caught:
        evaluate(source)
    assert caught.value.position == position


@pytest.mark.parametrize("source", ["(1", "max(1, 2", "(1 + 2 3)"])
def test_a_missing_bracket_is_reported(source):
    with pytest.raises(ExpressionError, match=r"expected '\)'"):
        evaluate(source)


@pytest.mark.parametrize(("source", "position"), [("1 2", 2), ("1)", 1), ("2 x", 2)])
def test_what_follows_a_whole_expression_is_reported(source, position):
    with pytest.raises(ExpressionError, match="unexpected") as caught:
        evaluate(source, {"x": 1})
    assert caught.value.position == position


def test_variables_are_listed_once_in_alphabetical_order():
    assert variables("b * a + b ** c") == ["a", "b", "c"]


def test_functions_are_not_variables():
    assert variables("max(a, abs(b))") == ["a", "b"]


def test_a_number_has_no_variables():
    assert variables("1 + 2") == []
