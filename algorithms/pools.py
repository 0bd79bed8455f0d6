"""Statistics over pools: turns that have something in common, such as a group, a state or a transition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from algorithms import lazy_torch as torch

if TYPE_CHECKING:
    from torch import Tensor


EPSILON = 1e-6  # beside a standard deviation; of the estimators too


def pools(*keys: Tensor) -> Tensor:
    """(n,) int64, numbered from 0: two are in the same pool where all ``keys``, (n,) int64 each, are equal."""
    number = torch.zeros_like(keys[0])
    for key in keys if keys[0].numel() else ():
        values, place = key.unique(return_inverse=True)
        number = (number * len(values) + place).unique(return_inverse=True)[1]
    return number


def sums(values: Tensor, pool: Tensor) -> Tensor:
    """(pools,): the sum over each pool of (n,) values."""
    return values.new_zeros(_count(pool)).index_add_(0, pool, values)


def means(values: Tensor, pool: Tensor) -> Tensor:
    """(pools,): the mean over each pool of (n,) values; 0 for a number that no value has."""
    return sums(values, pool) / torch.bincount(pool).clamp(min=1)


def bounds(values: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    """(pools,) each: the least and the greatest value of each pool."""
    empty = values.new_zeros(_count(pool))
    low = empty.scatter_reduce(0, pool, values, "amin", include_self=False)
    return low, empty.scatter_reduce(0, pool, values, "amax", include_self=False)


def deviations(values: Tensor, pool: Tensor, biased: bool = False) -> Tensor:
    """(pools,): the standard deviation of each pool; 0 for one alone, and exactly 0 where all values are equal."""
    low, high = bounds(values, pool)
    size = torch.bincount(pool).clamp(min=1)
    squares = sums((values - means(values, pool)[pool]).square(), pool)
    variance = squares / (size if biased else (size - 1).clamp(min=1))
    return variance.sqrt().where(low < high, 0.0)


def compared(values: Tensor, pool: Tensor, std: bool, biased: bool = False) -> Tensor:
    """Each value less the mean of its pool, over its pool's standard deviation if ``std``; 0 for one alone, or where all of
    a pool are equal.

    Args:
        values: (n,) float64.
        pool: (n,) int64, numbered from 0.
    """
    centred = values - means(values, pool)[pool]
    spread = deviations(values, pool, biased)[pool]
    if std:
        centred = centred / (spread + EPSILON)
    return centred.where(spread > 0, 0.0)


def _count(pool: Tensor) -> int:
    return int(pool.max()) + 1 if pool.numel() else 0
