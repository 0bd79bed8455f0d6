from datetime import date

import pytest
from ledger import Ledger, PostingError
from money import format_amount, parse_amount, percentage, split

MAY_1, MAY_2, MAY_3 = date(2024, 5, 1), date(2024, 5, 2), date(2024, 5, 3)


@pytest.fixture
def books():
    ledger = Ledger()
    ledger.open("world")
    ledger.open("fees")
    ledger.open("ann", floor=0)
    ledger.open("bob", floor=-5000)
    ledger.post(MAY_1, "salary", {"world": -100000, "ann": 100000})
    return ledger


def test_amounts_are_read_in_cents():
    texts = {"12": 1200, "12.5": 1250, "1,234.56": 123456, "-3": -300, "-0.05": -5, " 7.00 ": 700, "1,000,000": 10**8}
    assert {text: parse_amount(text) for text in texts} == texts


@pytest.mark.parametrize("text", ["", "1.234", "12,34", "--1"])
def test_other_texts_are_no_amounts(text):
    with pytest.raises(ValueError, match="not an amount"):
        parse_amount(text)


def test_amounts_are_written_with_two_decimals():
    written = {0: "0.00", 5: "0.05", 1250: "12.50", 123456789: "1,234,567.89", -5: "-0.05", -150: "-1.50"}
    assert {cents: format_amount(cents) for cents in written} == written


def test_halves_of_a_cent_are_rounded_to_the_even_one():
    assert percentage(50, "5") == 2
    assert percentage(150, "5") == 8
    assert percentage(10000, "1.25") == 125
    assert percentage(-50, "7") == -4


def test_parts_add_up_exactly():
    assert split(100, [1, 1, 1]) == [34, 33, 33]
    assert split(100, [1, 2, 4]) == [14, 29, 57]
    assert split(5, [0, 1]) == [0, 5]
    with pytest.raises(ValueError, match="weights"):
        split(100, [0, 0])
    with pytest.raises(ValueError, match="weights"):
        split(100, [3, -1])


def test_an_account_is_opened_once(books):
    with pytest.raises(PostingError, match="'ann' is open already"):
        books.open("ann")
    with pytest.raises(PostingError, match="no account 'zoe'"):
        books.account("zoe")


def test_postings_move_the_balances(books):
    books.post(MAY_2, "rent", {"ann": -60000, "bob": 60000, "world": 0})
    assert books.account("ann").balance() == 40000
    assert books.account("bob").balance() == 60000
    assert len(books.account("world").history) == 1


def test_postings_must_add_up_to_zero(books):
    with pytest.raises(PostingError, match="do not add up"):
        books.post(MAY_2, "gift", {"ann": -100, "bob": 99})
    with pytest.raises(PostingError, match="nothing is moved"):
        books.post(MAY_2, "nothing", {"ann": 0})


def test_a_refused_posting_changes_nothing(books):
    for amounts in ({"bob": 100001, "ann": -100001}, {"bob": 1, "zoe": -1}):
        with pytest.raises(PostingError):
            books.post(MAY_2, "too much", amounts)
    assert books.trial_balance() == {"ann": 100000, "world": -100000}


def test_a_balance_may_go_down_to_the_floor(books):
    books.transfer(MAY_2, "ann", "bob", 100000)
    books.transfer(MAY_2, "bob", "world", 105000)
    assert books.account("bob").balance() == -5000
    with pytest.raises(PostingError, match="bob has only -50.00"):
        books.transfer(MAY_2, "bob", "world", 1)


def test_money_may_come_in_below_the_floor():
    books = Ledger()
    books.open("world")
    books.open("shop", floor=1000)
    books.post(MAY_1, "float", {"world": -400, "shop": 400})
    assert books.account("shop").balance() == 400


def test_a_transfer_may_cost_a_fee(books):
    books.transfer(MAY_2, "ann", "bob", 20000, fee_percent="1.5")
    assert books.trial_balance() == {"ann": 79700, "bob": 20000, "fees": 300, "world": -100000}
    books.transfer(MAY_3, "ann", "fees", 10000, fee_percent="1")
    assert books.account("fees").balance() == 10400
    with pytest.raises(PostingError, match="positive"):
        books.transfer(MAY_2, "ann", "bob", 0)


def test_balances_of_earlier_days_can_be_asked_for(books):
    books.transfer(MAY_3, "ann", "bob", 100)
    assert books.account("ann").balance(MAY_2) == 100000
    assert books.account("ann").balance(MAY_3) == 99900
    assert books.trial_balance(MAY_1) == {"ann": 100000, "world": -100000}
    assert sum(books.trial_balance().values()) == 0


def test_a_statement_lists_entries_by_day(books):
    books.transfer(MAY_3, "ann", "bob", 2500)
    books.post(MAY_2, "prize", {"world": -50, "ann": 50})
    assert books.statement("ann") == [
        "2024-05-01 salary: 1,000.00 = 1,000.00",
        "2024-05-02 prize: 0.50 = 1,000.50",
        "2024-05-03 transfer to bob: -25.00 = 975.50",
    ]
