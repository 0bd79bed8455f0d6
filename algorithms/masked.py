"""Statistics over the sampled tokens of a batch."""

from __future__ import annotations

from torch import Tensor


def live_rows(response_mask: Tensor) -> Tensor:
    """Which rows have a sampled token at all; shape (rows,), bool."""
    return response_mask.bool().any(dim=-1)


def whiten(values: Tensor, response_mask: Tensor, epsilon: float = 1e-8) -> Tensor:
    """Zero mean and unit variance over the masked tokens of the whole batch, in float64; 0 elsewhere.

    Until verl whitens in float64.
    ``(x - mean) / sqrt(var + epsilon)`` with the unbiased variance, as ``masked_whiten`` of verl and of TRL do; in float64,
    so that equal values give exactly 0 and not their mean's last bit times 1e4.

    Args:
        values: shape (rows, tokens); what stands outside the mask is never read.
        response_mask: shape (rows, tokens), 1 on sampled tokens.
        epsilon: added to the variance, so that a batch without any spread gives zeros and not NaN.

    Returns:
        Tensor of shape (rows, tokens), of the dtype of ``values``; 0 where filters left one token or none, which have no variance.
    """
    mask, exact = response_mask.bool(), values.double()
    sampled = exact[mask]
    if sampled.numel() < 2:
        return values.new_zeros(values.shape)
    whitened = (exact - sampled.mean()).mul_((sampled.var() + epsilon).rsqrt())
    return whitened.masked_fill_(~mask, 0.0).to(values.dtype)
