"""Answering those who wait."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


def settle(future: asyncio.Future[T], result: T | Exception) -> None:
    """Give ``future`` its result or its error, unless whoever waited was cancelled."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
