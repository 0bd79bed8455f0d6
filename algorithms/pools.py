"""Statistics over pools: turns that have something in common, such as a group, a state or a transition."""

from __future__ import annotations

import torch
from torch import Tensor

EPSILON = 1e-6  # beside a standard deviation; of the estimators too
EQUAL = torch.finfo(torch.float32).eps  # rewards come as float32, in which .1 + .2 is not .3


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


def without_rounding(differences: Tensor, pool: Tensor, size: Tensor) -> Tensor:
    """Set differences to exactly 0 that float32 rounding alone can make. All methods decide by this whether values are equal.

    Args:
        differences: (n,) float64, between values of a pool.
        pool: (n,) int64, numbered from 0.
        size: (n,) the sum of the absolute numbers of which a value was made.
    """
    _, largest = bounds(size, pool)
    return differences.where(differences.abs() > EQUAL * largest[pool], 0.0)


def centred(values: Tensor, pool: Tensor, size: Tensor | None = None) -> Tensor:
    """(n,): each value less the mean of its pool, exactly 0 where they are equal. ``size``: as of ``without_rounding``; None: of
    values that are no sums."""
    return without_rounding(values - means(values, pool)[pool], pool, values.abs() if size is None else size)


def deviations(values: Tensor, pool: Tensor, biased: bool = False, size: Tensor | None = None) -> Tensor:
    """(pools,): the standard deviation of each pool; 0 for one alone, and exactly 0 where all values are equal."""
    count = torch.bincount(pool).clamp(min=1)
    squares = sums(centred(values, pool, size).square(), pool)
    return (squares / (count if biased else (count - 1).clamp(min=1))).sqrt()


def compared(values: Tensor, pool: Tensor, std: bool, biased: bool = False, size: Tensor | None = None) -> Tensor:
    """Each value less the mean of its pool, over its pool's standard deviation if ``std``; 0 for one alone, or where all of
    a pool are equal.

    Args:
        values: (n,) float64.
        pool: (n,) int64, numbered from 0.
        size: as of ``centred``.
    """
    found = centred(values, pool, size)
    return found / (deviations(values, pool, biased, size)[pool] + EPSILON) if std else found


def _count(pool: Tensor) -> int:
    return int(pool.max()) + 1 if pool.numel() else 0
