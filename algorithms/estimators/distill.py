"""On-policy distillation: each token is worth what a teacher thinks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from algorithms.slots import Estimate, Needs, Tokens
from algorithms.turns import Turns


@dataclass
class Distill:
    """``A_i = kl_coef (log p_teacher - log p_student,old)`` of each action token, without baseline and reward (TCOD, arXiv 2604.24005,
    released code); ``kl_coef`` is ``algorithm.kl_ctrl.kl_coef``.

    The teacher stands where the reference policy does, so both log-probs are at the sampling temperature.

    Attributes:
        teacher: a model with the same tokens: ``asset://``, ``packaged://``, a folder, a run, or a Hugging Face name.
    """

    teacher: str = ""

    needs: ClassVar[Needs] = frozenset({"teacher"})
    grain: ClassVar[str] = "token"

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert tokens.kl is not None
        return Estimate(tokens.kl, tokens.kl)
