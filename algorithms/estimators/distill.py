"""On-policy distillation: a token's advantage comes from a teacher's log-probability."""

from dataclasses import dataclass

from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import Method, only


@dataclass(kw_only=True)
class Distill(Method):
    """``A_i = kl_coef (log p_teacher - log p_student,old)`` of each action token.

    ``kl_coef`` is ``algorithm.kl_ctrl.kl_coef``. The teacher replaces the reference policy, so both
    log-probs are at the sampling temperature.
    """

    teacher: str

    needs = frozenset({"teacher"})
    grain = "token"
    conflicts = (
        only("model.lora_rank", None, reason="verl would ask the policy, not algo.teacher", use="model.lora_rank=null"),
        only("algorithm.kl_penalty", "kl", "k1", reason="it learns from a difference of log-probs"),
    )

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert tokens.kl is not None
        return Estimate(tokens.kl, tokens.kl)
