import pytest
from intervals import IntervalSet, normalise, parse, render


def test_overlapping_intervals_are_merged():
    assert normalise([(1, 5), (3, 8)]) == [(1, 8)]


def test_touching_intervals_are_merged():
    assert normalise([(1, 3), (3, 5)]) == [(1, 5)]


def test_separate_intervals_stay_separate_and_sorted():
    assert normalise([(7, 9), (1, 3)]) == [(1, 3), (7, 9)]


def test_an_interval_inside_another_disappears():
    assert normalise([(1, 10), (3, 5)]) == [(1, 10)]


def test_empty_intervals_are_dropped():
    assert normalise([(4, 4), (6, 2), (8, 9)]) == [(8, 9)]


def test_length_counts_the_numbers():
    assert len(IntervalSet([(1, 4), (10, 12)])) == 5
    assert len(IntervalSet()) == 0


def test_a_set_without_numbers_is_false():
    assert not IntervalSet([(3, 3)])
    assert IntervalSet([(3, 4)])


@pytest.mark.parametrize("number", [1, 3, 10, 11])
def test_numbers_inside_are_contained(number):
    assert number in IntervalSet([(1, 4), (10, 12), (20, 21)])


@pytest.mark.parametrize("number", [0, 4, 9, 12, 30])
def test_numbers_outside_are_not_contained(number):
    assert number not in IntervalSet([(1, 4), (10, 12), (20, 21)])


def test_nothing_is_in_the_empty_set():
    assert 0 not in IntervalSet()


def test_equal_sets_compare_and_hash_equal():
    one, other = IntervalSet([(1, 3), (3, 5)]), IntervalSet([(1, 5)])
    assert one == other
    assert hash(one) == hash(other)
    assert one != IntervalSet([(1, 4)])
    assert one != [(1, 5)]


def test_repr_shows_the_parts():
    assert repr(IntervalSet([(1, 2)])) == "IntervalSet([(1, 2)])"


def test_union_holds_the_numbers_of_both():
    assert list(IntervalSet([(1, 3)]).union(IntervalSet([(2, 6), (9, 10)]))) == [(1, 6), (9, 10)]


def test_intersection_holds_the_common_numbers():
    one, other = IntervalSet([(1, 5), (8, 12)]), IntervalSet([(3, 9), (11, 20)])
    assert list(one.intersection(other)) == [(3, 5), (8, 9), (11, 12)]


def test_intersection_is_the_same_both_ways():
    one, other = IntervalSet([(0, 4), (6, 7)]), IntervalSet([(2, 10)])
    assert one.intersection(other) == other.intersection(one) == IntervalSet([(2, 4), (6, 7)])


def test_sets_that_touch_have_nothing_in_common():
    assert not IntervalSet([(1, 3)]).intersection(IntervalSet([(3, 5)]))


def test_difference_cuts_holes():
    assert list(IntervalSet([(0, 10)]).difference(IntervalSet([(2, 4), (6, 7)]))) == [(0, 2), (4, 6), (7, 10)]


def test_difference_may_cut_the_ends_away():
    assert list(IntervalSet([(2, 8)]).difference(IntervalSet([(0, 3), (6, 9)]))) == [(3, 6)]


def test_difference_with_oneself_is_empty():
    numbers = IntervalSet([(1, 3), (5, 9)])
    assert not numbers.difference(numbers)


def test_difference_with_what_lies_elsewhere_changes_nothing():
    numbers = IntervalSet([(5, 9)])
    assert numbers.difference(IntervalSet([(0, 5), (9, 12)])) == numbers


def test_gaps_lie_between_the_parts():
    assert list(IntervalSet([(1, 3), (5, 6), (9, 10)]).gaps()) == [(3, 5), (6, 9)]
    assert not IntervalSet([(1, 3)]).gaps()


def test_shift_moves_every_number():
    assert list(IntervalSet([(1, 3), (5, 6)]).shift(10)) == [(11, 13), (15, 16)]
    assert list(IntervalSet([(1, 3)]).shift(-1)) == [(0, 2)]


def test_first_fit_takes_the_first_part_that_is_long_enough():
    free = IntervalSet([(0, 2), (5, 9), (20, 30)])
    assert free.first_fit(3) == 5
    assert free.first_fit(2) == 0


def test_first_fit_may_fill_a_part_exactly():
    assert IntervalSet([(5, 9)]).first_fit(4) == 5


def test_first_fit_starts_no_earlier_than_asked():
    free = IntervalSet([(0, 10), (20, 30)])
    assert free.first_fit(3, earliest=4) == 4
    assert free.first_fit(3, earliest=8) == 20


def test_first_fit_finds_nothing_where_nothing_fits():
    assert IntervalSet([(0, 3)]).first_fit(4) is None
    assert IntervalSet([(0, 3)]).first_fit(1, earliest=3) is None


def test_parse_includes_both_ends():
    assert list(parse("1-3, 7, 10-12")) == [(1, 4), (7, 8), (10, 13)]


def test_parse_accepts_a_range_of_one_number():
    assert list(parse("4-4")) == [(4, 5)]


def test_parse_skips_empty_parts():
    assert list(parse(" , 2,, ")) == [(2, 3)]


def test_parse_refuses_ranges_that_run_backwards():
    with pytest.raises(ValueError, match="5-3 ends before it starts"):
        parse("1, 5-3")


def test_render_writes_what_parse_reads():
    assert render(IntervalSet([(1, 4), (7, 8), (10, 12)])) == "1-3, 7, 10-11"
    assert render(parse("1-3, 7")) == "1-3, 7"
    assert render(IntervalSet()) == ""
