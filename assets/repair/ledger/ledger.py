"""Accounts whose balances move only by balanced postings (double-entry book-keeping)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from money import format_amount, percentage


class PostingError(ValueError):
    """A posting that the books do not accept; nothing has changed."""


@dataclass(frozen=True)
class Posting:
    """What one event moves: cents by account, adding up to zero."""

    day: date
    text: str
    amounts: Mapping[str, int]


@dataclass
class Account:
    """``floor`` is the lowest balance that it may have; None means any."""

    name: str
    floor: int | None = None
    history: list[Posting] = field(default_factory=list)

    def balance(self, until: date | None = None) -> int:
        """Cents at the end of a day, or after everything."""
        counted = [posting for posting in self.history if until is None or posting.day <= until]
        return sum(posting.amounts[self.name] for posting in counted)


class Ledger:
    """The books: accounts are opened first, postings are all or nothing."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}

    def open(self, name: str, floor: int | None = None) -> Account:
        """A new account with nothing in it."""
        if name in self._accounts:
            raise PostingError(f"account {name!r} is open already")
        self._accounts[name] = Account(name, floor)
        return self._accounts[name]

    def account(self, name: str) -> Account:
        if name not in self._accounts:
            raise PostingError(f"no account {name!r}")
        return self._accounts[name]

    def post(self, day: date, text: str, amounts: Mapping[str, int]) -> Posting:
        """Move money between accounts; every check comes before any change."""
        moved = {name: cents for name, cents in amounts.items() if cents != 0}
        if sum(moved.values()) != 0:
            raise PostingError(f"{text}: the amounts do not add up to zero")
        if not moved:
            raise PostingError(f"{text}: nothing is moved")
        for name, cents in moved.items():
            account = self.account(name)
            if cents < 0 and account.floor is not None and account.balance() + cents < account.floor:
                raise PostingError(f"{text}: {name} has only {format_amount(account.balance())}")
        posting = Posting(day, text, moved)
        for name in moved:
            history = self._accounts[name].history
            history.append(posting)
            history.sort(key=lambda entry: entry.day)
        return posting

    def transfer(self, day: date, source: str, target: str, cents: int, fee_percent: str = "0") -> Posting:
        """Send an amount from one account to another; a fee on top goes from the source to the account ``fees``."""
        if cents <= 0:
            raise PostingError("a transfer moves a positive amount")
        fee = percentage(cents, fee_percent)
        amounts = {source: -cents - fee, target: cents}
        if fee:
            amounts["fees"] = amounts.get("fees", 0) + fee
        return self.post(day, f"transfer to {target}", amounts)

    def trial_balance(self, until: date | None = None) -> dict[str, int]:
        """The accounts that are not at zero, by name; their sum is always zero."""
        balances = {name: account.balance(until) for name, account in sorted(self._accounts.items())}
        return {name: cents for name, cents in balances.items() if cents}

    def statement(self, name: str) -> list[str]:
        """One line an entry of an account: day, text, amount, and the balance after it."""
        lines = []
        balance = 0
        for posting in self.account(name).history:
            balance += posting.amounts[name]
            amount = format_amount(posting.amounts[name])
            lines.append(f"{posting.day} {posting.text}: {amount} = {format_amount(balance)}")
        return lines
