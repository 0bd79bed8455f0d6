"""Amounts of money in whole cents, so that sums are exact."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal

_AMOUNT = re.compile(r"(-?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,2}))?")


def parse_amount(text: str) -> int:
    """Cents of ``1,234.5`` or ``-3``; commas may only part thousands."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount")
    sign, whole, fraction = match.groups()
    cents = int(whole.replace(",", "")) * 100 + int((fraction or "").ljust(2, "0"))
    return -cents if sign else cents


def format_amount(cents: int) -> str:
    """Two decimals, commas between the thousands, a minus in front of debts."""
    whole, fraction = divmod(abs(cents), 100)
    sign = "-" if cents < 0 else ""
    return f"{sign}{whole:,}.{fraction:02d}"


def percentage(cents: int, percent: str) -> int:
    """A share of an amount, rounded to the nearest cent, halves to the even one."""
    share = Decimal(cents) * Decimal(percent) / 100
    return int(share.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def split(cents: int, weights: list[int]) -> list[int]:
    """Parts in proportion to the weights that add up exactly; the largest remainders get the last cents."""
    total = sum(weights)
    if total <= 0 or min(weights) < 0:
        raise ValueError("the weights must be positive together, and none negative")
    parts = [cents * weight // total for weight in weights]
    remainders = [cents * weight % total for weight in weights]
    order = sorted(range(len(weights)), key=lambda index: -remainders[index])
    for index in order[: cents - sum(parts)]:
        parts[index] += 1
    return parts
