from datetime import date
from itertools import islice

import pytest
from recurring import Rule, RuleError, add_months, next_workday, nth_weekday, parse_rule, workdays_between

MONDAY = date(2024, 4, 1)


def first(rule, count):
    return [day.isoformat() for day in islice(rule.days(), count)]


def test_months_are_added_across_the_year():
    assert add_months(date(2023, 11, 15), 1) == date(2023, 12, 15)
    assert add_months(date(2023, 11, 15), 2) == date(2024, 1, 15)
    assert add_months(date(2023, 11, 15), 26) == date(2026, 1, 15)


def test_months_can_be_taken_away():
    assert add_months(date(2024, 1, 31), -1) == date(2023, 12, 31)
    assert add_months(date(2024, 1, 31), -13) == date(2022, 12, 31)


def test_short_months_end_early():
    assert add_months(date(2024, 1, 31), 1) == date(2024, 2, 29)
    assert add_months(date(2023, 1, 31), 1) == date(2023, 2, 28)


def test_the_day_aimed_at_can_be_kept():
    assert add_months(date(2024, 2, 29), 1, keep=31) == date(2024, 3, 31)


@pytest.mark.parametrize(("nth", "day"), [(1, 5), (2, 12), (3, 19), (4, 26), (-1, 26), (-2, 19), (-4, 5)])
def test_the_nth_friday_of_a_month(nth, day):
    assert nth_weekday(2024, 4, 4, nth) == date(2024, 4, day)


def test_the_first_day_of_a_month_may_be_the_one():
    assert nth_weekday(2024, 4, 0, 1) == MONDAY
    assert nth_weekday(2024, 4, 1, -1) == date(2024, 4, 30)


def test_a_month_may_have_no_fifth_friday():
    assert nth_weekday(2024, 4, 4, 5) is None
    assert nth_weekday(2024, 4, 0, 5) == date(2024, 4, 29)
    assert nth_weekday(2024, 4, 4, -5) is None


def test_a_workday_stays():
    assert next_workday(date(2024, 4, 5)) == date(2024, 4, 5)


def test_weekends_give_way_to_monday():
    assert next_workday(date(2024, 4, 6)) == date(2024, 4, 8)
    assert next_workday(date(2024, 4, 7)) == date(2024, 4, 8)


def test_holidays_are_no_workdays():
    holidays = frozenset([date(2024, 4, 8), date(2024, 4, 5)])
    assert next_workday(date(2024, 4, 5), holidays) == date(2024, 4, 9)


def test_workdays_are_counted_with_both_ends():
    assert workdays_between(MONDAY, date(2024, 4, 5)) == 5
    assert workdays_between(MONDAY, date(2024, 4, 8)) == 6
    assert workdays_between(MONDAY, MONDAY) == 1
    assert workdays_between(date(2024, 4, 6), date(2024, 4, 7)) == 0


def test_holidays_are_not_counted():
    assert workdays_between(MONDAY, date(2024, 4, 5), frozenset([date(2024, 4, 3)])) == 4


def test_every_few_days():
    assert first(Rule(MONDAY, "day", 3), 3) == ["2024-04-01", "2024-04-04", "2024-04-07"]


def test_every_other_week():
    assert first(Rule(MONDAY, "week", 2), 3) == ["2024-04-01", "2024-04-15", "2024-04-29"]


def test_months_come_back_to_their_day():
    assert first(Rule(date(2024, 1, 31), "month"), 4) == ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"]


def test_a_leap_day_comes_every_year():
    assert first(Rule(date(2024, 2, 29), "year"), 5)[-1] == "2028-02-29"
    assert first(Rule(date(2024, 2, 29), "year"), 2)[-1] == "2025-02-28"


def test_chosen_weekdays_come_in_their_order():
    rule = Rule(MONDAY, "week", weekdays=(4, 0, 0))
    assert first(rule, 4) == ["2024-04-01", "2024-04-05", "2024-04-08", "2024-04-12"]


def test_days_before_the_start_are_left_out():
    rule = Rule(date(2024, 4, 3), "week", weekdays=(0, 2, 4))
    assert first(rule, 3) == ["2024-04-03", "2024-04-05", "2024-04-08"]


def test_weeks_are_skipped_from_monday_on():
    rule = Rule(date(2024, 4, 5), "week", 2, weekdays=(0, 4))
    assert first(rule, 3) == ["2024-04-05", "2024-04-15", "2024-04-19"]


def test_until_is_the_last_day():
    assert len(list(Rule(MONDAY, "day", until=date(2024, 4, 10)).days())) == 10
    assert list(Rule(MONDAY, "day", until=date(2024, 3, 1)).days()) == []


def test_between_includes_both_ends():
    rule = Rule(MONDAY, "day", 2)
    assert rule.between(date(2024, 4, 3), date(2024, 4, 7)) == [date(2024, 4, day) for day in (3, 5, 7)]
    assert rule.between(date(2024, 3, 1), date(2024, 3, 31)) == []


def test_after_is_later_than_the_day():
    rule = Rule(MONDAY, "week")
    assert rule.after(MONDAY) == date(2024, 4, 8)
    assert rule.after(date(2024, 1, 1)) == MONDAY


def test_nothing_comes_after_the_last_day():
    assert Rule(MONDAY, "day", until=date(2024, 4, 3)).after(date(2024, 4, 3)) is None


@pytest.mark.parametrize("wrong", [{"unit": "hour"}, {"unit": "day", "every": 0}, {"unit": "month", "weekdays": (1,)}])
def test_rules_without_sense_are_refused(wrong):
    with pytest.raises(RuleError):
        Rule(MONDAY, **wrong)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("daily", Rule(MONDAY, "day")),
        ("Yearly", Rule(MONDAY, "year")),
        ("every month", Rule(MONDAY, "month")),
        ("every 3 days", Rule(MONDAY, "day", 3)),
        ("every 2 weeks on mon, Friday", Rule(MONDAY, "week", 2, (0, 4))),
        ("weekly on sun", Rule(MONDAY, "week", 1, (6,))),
        ("every week until 2024-06-30", Rule(MONDAY, "week", until=date(2024, 6, 30))),
        ("weekly on tue until 2024-05-01", Rule(MONDAY, "week", 1, (1,), date(2024, 5, 1))),
    ],
)
def test_rules_are_read_from_words(text, rule):
    assert parse_rule(text, MONDAY) == rule


@pytest.mark.parametrize(
    "text", ["", "sometimes", "every two days", "each 2 days", "weekly on xyz", "every 2 long days"]
)
def test_other_words_are_no_rules(text):
    with pytest.raises(RuleError):
        parse_rule(text, MONDAY)
