"""Credit methods applied to advantages, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from algorithms.turns import Turns


def credited(
    credits: Mapping[str, Any], turns: Turns, tokens: Tensor, mask: Tensor, algo: str, grain: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """Advantages a token, (B, T), and what each layer made of a turn's, (E, K) by name.

    Where advantages differ inside a turn (``grain`` is a token), credit only ever scales them (``config/checks/methods.py``), and
    there are no layers.

    Args:
        credits: the methods by name.
        tokens, mask: (B, T), the advantages of ``algo``, and the action tokens that count.
    """
    scaled = grain == "token"
    matrix = torch.ones(turns.mask.shape).double() if scaled else turns.mean(tokens, mask)
    layers = {} if scaled else {algo: matrix}
    for name, credit in credits.items():
        layers[name] = matrix = credit(turns, matrix)
    if not credits:
        return tokens, layers
    spread = turns.spread(matrix.to(tokens.dtype))
    return tokens * spread if scaled else spread, layers
