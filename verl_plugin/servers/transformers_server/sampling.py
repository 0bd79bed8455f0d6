"""Samples one token a row; each row has its own sampling parameters and random numbers."""

import math
from collections.abc import Sequence

import numpy as np
import torch

TOP = 10  # number of likeliest tokens in ``top_entropies``


def uniforms(seed: int, count: int) -> np.ndarray:
    """Return ``count`` numbers in [0, 1), one a token, determined by ``seed`` alone."""
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


class Rules:
    """Temperature, top-p and top-k of each row, as tensors. Temperature 0 is greedy."""

    def __init__(
        self,
        temperature: Sequence[float],
        top_p: Sequence[float],
        top_k: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> None:
        warm = [t if t > 0 else 1.0 for t in temperature]
        self.scale = torch.tensor(warm, device=device)[:, None]
        self.greedy = torch.tensor([t <= 0 for t in temperature], device=device)
        self.top_p = torch.tensor([p if 0 < p < 1 else 1.0 for p in top_p], dtype=torch.float64, device=device)[:, None]
        self.top_k = torch.tensor([max(0, k) for k in top_k], device=device)[:, None]
        self.restricted = any(0 < p < 1 for p in top_p) or any(k > 0 for k in top_k)
        self.any_greedy = any(t <= 0 for t in temperature)

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with these rows only."""
        self.scale, self.greedy = self.scale[rows], self.greedy[rows]
        self.top_p, self.top_k = self.top_p[rows], self.top_k[rows]


def draw(logits: torch.Tensor, rules: Rules, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample by inverting the cumulative distribution: the first token at which it exceeds
    ``uniform``.

    Args:
        logits: (rows, vocabulary).
        rules: of the same rows.
        uniform: (rows,) in [0, 1), float64.

    Returns:
        Token ids (rows,) and their log-probabilities (rows,) in nats under the temperature-scaled,
        unrestricted distribution, which is what teacher forcing gives.

    Raises:
        FloatingPointError: the logits are not finite.
    """
    logprobs = torch.log_softmax(logits.float() / rules.scale, dim=-1)
    weights = logprobs.double().exp_()
    if rules.restricted:
        weights = restrict(weights, rules)
    cumulative = weights.cumsum_(-1)
    total = cumulative[:, -1:]
    if not bool(total.isfinite().all()):
        raise FloatingPointError("the model's logits are not finite; did its training diverge?")
    below = torch.nextafter(
        total, torch.zeros_like(total)
    )  # rounding must not select a token beyond the last possible one
    tokens = torch.searchsorted(cumulative, torch.minimum(uniform[:, None] * total, below), right=True).squeeze(1)
    if rules.any_greedy:
        tokens = torch.where(rules.greedy, logits.argmax(-1), tokens)
    return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)


def top_entropies(logits: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Return -sum p log p over the ``TOP`` likeliest tokens, divided by the log of the vocabulary
    size.

    The distribution is temperature-scaled: (rows, vocabulary) -> (rows,), in [0, 1].
    """
    size = logits.shape[-1]
    top = torch.log_softmax(logits.float() / rules.scale, dim=-1).topk(min(TOP, size), dim=-1).values
    return -(top.exp() * top).sum(-1) / math.log(size)


def full_entropies(logits: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Return entropies in nats of the temperature-scaled distribution, as verl does.

    Shape (rows, vocabulary) -> (rows,).
    """
    logprobs = torch.log_softmax(logits.float() / rules.scale, dim=-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def restrict(weights: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Apply top-k, then top-p: keep the k likeliest tokens, then the fewest of them that reach the
    share p.
    """
    ordered, index = weights.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(weights.shape[-1], device=weights.device).expand_as(weights)
    ordered = torch.where((rules.top_k == 0) | (rank < rules.top_k), ordered, 0)
    share = ordered / ordered.sum(-1, keepdim=True)
    ordered = torch.where(share.cumsum(-1) - share < rules.top_p, ordered, 0)
    return torch.zeros_like(weights).scatter_(-1, index, ordered)
