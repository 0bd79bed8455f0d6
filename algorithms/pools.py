"""Statistics over sampled tokens, and over pools: sets of turns with a common group or state."""

import torch
from torch import Tensor

EPSILON = 1e-6  # added to a standard deviation
EQUAL = torch.finfo(torch.float32).eps  # tolerance: rewards are float32, in which .1 + .2 is not .3


def live_rows(response_mask: Tensor) -> Tensor:
    """Mark the rows with a sampled token; (rows,) bool."""
    return response_mask.bool().any(dim=-1)


def whiten(values: Tensor, response_mask: Tensor) -> Tensor:
    """Give the masked tokens of the whole batch zero mean and unit variance, in float64.

    ``(x - mean) / sqrt(var + 1e-8)`` with the unbiased variance, as ``masked_whiten`` of verl and
    of TRL. In float64 equal values give exactly 0, not the mean's last bit times 1e4.

    Until verl whitens in float64.

    Args:
        values: (rows, tokens); values outside the mask are never read.
        response_mask: (rows, tokens), 1 on sampled tokens.

    Returns:
        (rows, tokens) of the dtype of ``values``; 0 outside the mask, or if it has one token.
    """
    mask, exact = response_mask.bool(), values.double()
    sampled = exact[mask]
    if sampled.numel() < 2:
        return values.new_zeros(values.shape)
    whitened = (exact - sampled.mean()).mul_((sampled.var() + 1e-8).rsqrt())
    return whitened.masked_fill_(~mask, 0.0).to(values.dtype)


def pools(*keys: Tensor) -> Tensor:
    """Return the pool of each entry, numbered from 0; (n,) int64.

    Entries are in one pool if all their ``keys``, (n,) each, are equal.
    """
    number = torch.zeros_like(keys[0])
    for key in keys if keys[0].numel() else ():
        values, index = key.unique(return_inverse=True)
        number = (number * len(values) + index).unique(return_inverse=True)[1]
    return number


def sums(values: Tensor, pool: Tensor) -> Tensor:
    """Sum (n,) values over each pool; (pools,)."""
    return values.new_zeros(_count(pool)).index_add_(0, pool, values)


def means(values: Tensor, pool: Tensor) -> Tensor:
    """Average (n,) values over each pool; (pools,), 0 for an empty pool."""
    return sums(values, pool) / torch.bincount(pool).clamp(min=1)


def bounds(values: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest value of each pool; (pools,) each."""
    empty = values.new_zeros(_count(pool))
    low = empty.scatter_reduce(0, pool, values, "amin", include_self=False)
    return low, empty.scatter_reduce(0, pool, values, "amax", include_self=False)


def without_rounding(differences: Tensor, pool: Tensor, size: Tensor) -> Tensor:
    """Set differences to 0 that float32 rounding alone can cause.

    All methods use it, so that they agree on which values are equal.

    Args:
        differences: (n,) float64, between values of a pool.
        pool: (n,) int64, numbered from 0.
        size: (n,) each value's magnitude; of a sum, that of its absolute terms.
    """
    _, largest = bounds(size, pool)
    return differences.where(differences.abs() > EQUAL * largest[pool], 0.0)


def centred(values: Tensor, pool: Tensor, size: Tensor | None = None) -> Tensor:
    """Subtract its pool's mean from each value; (n,), exactly 0 if all values of a pool are equal.

    Args:
        size: as in ``without_rounding``; None if the values are not sums.
    """
    return without_rounding(values - means(values, pool)[pool], pool, values.abs() if size is None else size)


def deviations(values: Tensor, pool: Tensor, biased: bool = False, size: Tensor | None = None) -> Tensor:
    """Return each pool's standard deviation; (pools,), exactly 0 for equal values or one alone."""
    count = torch.bincount(pool).clamp(min=1)
    squares = sums(centred(values, pool, size).square(), pool)
    return (squares / (count if biased else (count - 1).clamp(min=1))).sqrt()


def compared(values: Tensor, pool: Tensor, std: bool, biased: bool = False, size: Tensor | None = None) -> Tensor:
    """Subtract its pool's mean from each value; if ``std``, divide by the pool's deviation.

    0 for a value alone, or if all of a pool are equal.

    Args:
        values: (n,) float64.
        pool: (n,) int64, numbered from 0.
        size: as in ``centred``.
    """
    result = centred(values, pool, size)
    return result / (deviations(values, pool, biased, size)[pool] + EPSILON) if std else result


def mean_changes(old: Tensor, new: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of new - old over each row's tokens in ``mask``; (B, T) -> (B,) float64."""
    kept = mask.bool()
    changes = (new - old).double().where(kept, 0.0)
    return changes.sum(dim=1) / kept.sum(dim=1).clamp(min=1)


def _count(pool: Tensor) -> int:
    return int(pool.max()) + 1 if pool.numel() else 0
