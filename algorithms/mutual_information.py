"""Mutual information of answers and their prompts, as RAGEN-2 estimates it.

Definitions: the released code of arXiv 2604.06268 (RAGEN 20daedc, ``collapse_metrics.py``). The
prompts of a step are taken as equally likely.
"""

import math

import torch
from torch import Tensor

EPSILON = 1e-3  # added to a standard deviation, as in the released code


def mutual_information(log_probs: Tensor, lengths: Tensor, prompts: Tensor) -> dict[str, float]:
    """Return metrics of N >= 1 answers, each scored after each answer's prompt.

    With ``l_ij`` the log-prob of answer i after prompt j, ``own_i = l_ii`` and ``mix_i = log(mean
    over j of exp l_ij)``. Entropies are the means of ``-own`` and ``-mix``; mutual information is
    their difference, at most ``log N``. ``_per_token``: l is the mean over an answer's tokens, so
    that lengths count little; else it is the sum, and only then the figure is a mutual information.

    Args:
        log_probs: (N, N) nats, summed over the tokens of answer i after prompt j.
        lengths: (N,) tokens of each answer, at least 1.
        prompts: (N,) int64, equal for equal prompts.

    Returns:
        By name; ``retrieval``: share of answers that are likeliest after their own prompt (of equal
        maxima, the share that is its own), ``retrieval_chance``: the same by guessing;
        ``mutual_information_z``: per token, in standard deviations of ``mix``.
    """
    sums = log_probs.double()
    own, mix = _own_and_mix(sums)
    own_mean, mix_mean = _own_and_mix(sums / lengths.unsqueeze(1))
    deviation = mix_mean.std(correction=0) + EPSILON
    same, best = prompts.unsqueeze(1) == prompts, sums == sums.amax(dim=1, keepdim=True)
    metrics = {
        "mutual_information": (own - mix).mean(),
        "mutual_information_per_token": (own_mean - mix_mean).mean(),
        "mutual_information_z": ((own_mean - mix_mean) / deviation).mean(),
        "conditional_entropy_per_token": -own_mean.mean(),
        "marginal_entropy_per_token": -mix_mean.mean(),
        "retrieval": ((best & same).sum(dim=1) / best.sum(dim=1)).mean(),
        "retrieval_chance": same.double().mean(),
    }
    return {name: value.item() for name, value in metrics.items()}


def _own_and_mix(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    return log_probs.diagonal(), torch.logsumexp(log_probs, dim=1) - math.log(len(log_probs))
