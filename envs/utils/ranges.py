"""Bounds of numeric settings."""

from __future__ import annotations

import math


def in_range(low: float = -math.inf, high: float = math.inf, /, **settings: float) -> None:
    """Check a numeric setting.

    Raises:
        ValueError: the setting is not in [low, high], or is no number.
    """
    for name, value in settings.items():
        if not low <= value <= high or math.isinf(value):
            raise ValueError(f"{name}={value} must lie in [{low:g}, {high:g}]")
