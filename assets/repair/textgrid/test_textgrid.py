import pytest
from table import Table, columns
from wrapping import dedent, justify, shorten, wrap


def test_lines_break_between_words():
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]


def test_a_line_may_be_filled_to_the_last_column():
    assert wrap("abcd efgh", 9) == ["abcd efgh"]
    assert wrap("abcd efgh", 8) == ["abcd", "efgh"]


def test_spaces_and_newlines_are_alike():
    assert wrap("  a \n b\t c ", 20) == ["a b c"]


def test_a_text_without_words_gives_no_line():
    assert wrap(" \n ", 5) == []


def test_words_longer_than_a_line_are_cut():
    assert wrap("go abcdefghij on", 4) == ["go", "abcd", "efgh", "ij", "on"]


def test_lines_after_the_first_are_indented():
    assert wrap("one two three", 7, indent="  ") == ["one two", "  three"]


def test_the_indent_counts_towards_the_width():
    assert wrap("aa bbbb cccc", 6, indent="> ") == ["aa", "> bbbb", "> cccc"]


def test_a_long_word_is_cut_behind_the_indent():
    assert wrap("a bcdefg", 4, indent="  ") == ["a", "  bc", "  de", "  fg"]


@pytest.mark.parametrize("width", [0, 1, 2])
def test_there_must_be_room_behind_the_indent(width):
    with pytest.raises(ValueError, match="no room"):
        wrap("a", width, indent="  ")


def test_a_short_text_is_not_shortened():
    assert shorten("a  short text", 12) == "a short text"


def test_a_long_text_loses_whole_words():
    assert shorten("a rather long text", 14) == "a rather ..."


def test_the_mark_may_end_in_the_last_column():
    assert shorten("one two three", 11) == "one two ..."
    assert shorten("one two three", 10) == "one ..."


def test_only_the_mark_is_left_where_nothing_fits():
    assert shorten("extraordinary", 5) == "..."
    assert shorten("extraordinary", 2) == ".."


def test_another_mark_can_be_used():
    assert shorten("one two three", 9, mark="[+]") == "one [+]"


def test_justified_lines_have_the_width():
    assert justify(["a", "b", "c"], 7) == "a  b  c"


def test_odd_spaces_go_to_the_left():
    assert justify(["a", "b", "c", "d"], 9) == "a  b  c d"


def test_one_word_is_padded():
    assert justify(["word"], 6) == "word  "


def test_words_that_just_fit_are_justified():
    assert justify(["ab", "cd"], 5) == "ab cd"
    with pytest.raises(ValueError, match="do not fit"):
        justify(["ab", "cd"], 4)


def test_shared_indentation_is_taken_away():
    assert dedent("    a\n      b\n    c") == "a\n  b\nc"


def test_blank_lines_do_not_count_for_indentation():
    assert dedent("  a\n\n \n  b") == "a\n\n\nb"
    assert dedent(" \n") == "\n"


def test_text_at_the_margin_stays():
    assert dedent("a\n  b") == "a\n  b"


def test_a_table_has_header_rule_and_rows():
    table = Table(["name", "n"], ["left", "right"])
    table.add("ant", 5)
    table.add("zebra", 12)
    assert table.render().split("\n") == ["name  |  n", "------+---", "ant   |  5", "zebra | 12"]


def test_columns_without_alignment_are_left_aligned():
    table = Table(["a", "b"], ["right"])
    assert table.align == ["right", "left"]


def test_cells_can_be_centred():
    table = Table(["wide", "x"], ["centre"])
    table.add("ab", 1)
    assert table.render().split("\n")[2] == " ab  | 1"


def test_unknown_alignments_are_refused():
    with pytest.raises(ValueError, match="middle"):
        Table(["a"], ["middle"])


def test_none_is_an_empty_cell_and_zero_is_not():
    table = Table(["a", "b"])
    table.add(None, 0)
    assert table.rows == [["", "0"]]


def test_rows_have_as_many_cells_as_the_header():
    with pytest.raises(ValueError, match="2 cells, not 1"):
        Table(["a", "b"]).add(1)


def test_widths_are_those_of_the_widest_cells():
    table = Table(["a", "header"])
    table.add("four", "x")
    assert table.widths() == [4, 6]


def test_widths_are_limited():
    table = Table(["a"], max_width=6)
    table.add("much longer")
    assert table.widths() == [6]


def test_wide_cells_go_on_in_further_lines():
    table = Table(["k", "text"], max_width=6)
    table.add("a", "one two")
    table.add("b", "x")
    assert table.render().split("\n")[2:] == ["a | one", "  | two", "b | x"]


def test_an_empty_column_is_laid_out():
    table = Table(["", "a"])
    table.add(None, "b")
    assert table.render().split("\n")[2] == " | b"


def test_columns_are_filled_downwards():
    assert columns(["a", "b", "c", "d", "e"], 5) == ["a  d", "b  e", "c"]


def test_columns_use_the_whole_width():
    assert columns(["aa", "bb", "cc"], 10) == ["aa  bb  cc"]
    assert columns(["aa", "bb", "cc"], 9) == ["aa  cc", "bb"]


def test_a_narrow_width_gives_one_column():
    assert columns(["long", "words"], 3) == ["long", "words"]
    assert columns([], 10) == []


def test_the_gap_can_be_chosen():
    assert columns(["a", "b"], 10, gap=4) == ["a    b"]
