from dataclasses import dataclass

from turngrid.algorithms.filters.zero_std import ZeroStd
from turngrid.rewards.declared import number, only


@dataclass(kw_only=True)
class DynamicSampling(ZeroStd):
    """Replace groups of equal scores by samples of other prompts; drop those still equal."""

    batches: int = number(1)

    sampler = ("pkg://turngrid.verl_plugin.training.dynamic_sampling", "DynamicSampler")
    conflicts = (
        only("trainer.v1.trainer_mode", "sync", reason="the trainer samples ahead of a step", use="filter=[zero_std]"),
        only(
            "budget.count",
            "games",
            reason="it samples as many episodes as it takes, and the budget pays for a fixed number a step",
            use="budget.count=games or filter=[zero_std]",
        ),
    )
