"""May rows whose advantage is 0 everywhere be left out of an update of the policy? The one place to ask.

They may where every term of the loss is weighed by the advantages: then such rows have no gradient. A term that is not says in
``NEEDS_ALL_ROWS`` when it is part of the loss. Where a loss compares the tokens of a pass, such rows count among them, and only a pass of
nothing else may be left out. The answer travels with the policy's batch alone, so a critic, which has a value
to learn from every row with an action token, never leaves one out, and neither does whatever else calls an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from omegaconf import DictConfig

from algorithms.chosen import method_class, slots_of
from algorithms.registry import LOSS_MODE

KEY = "leave_out_zero_advantages"  # of a batch's extra_info, and with that of each of its mini-batches

ROWS: Final = "rows"
PASSES: Final = "passes"

# verl's policy losses that a row enters by its own tokens, times its advantage. Not geo_mean, whose denominator is the rows of a
# pass, nor kl_cov, which compares the tokens of a pass and pulls at some whatever their advantage, nor dro, which adds a penalty
WEIGHED = ("vanilla", "gspo", "sapo", "gpg", "cispo", "dppo_tv", "dppo_kl")
BY_PASS = ("clip_cov",)  # which of a pass's tokens it leaves out depends on all of them; each counts by its advantage


def _weighed(config: DictConfig) -> bool:
    mode, forms = config.actor_rollout_ref.actor.policy_loss.loss_mode, slots_of(config, ("loss",))["loss"]
    if mode != LOSS_MODE:
        return mode in (*WEIGHED, *BY_PASS)
    return all(
        vars(method_class("loss", name, form)).get("weighed") for name, form in forms.items()
    )  # a heir may add a penalty


NEEDS_ALL_ROWS: dict[str, Callable[[DictConfig], bool]] = {
    "the policy loss": lambda config: not _weighed(config),
    "the KL to the reference": lambda config: config.actor_rollout_ref.actor.use_kl_loss,
    "the entropy bonus": lambda config: config.actor_rollout_ref.actor.entropy_coeff != 0,
    "the entropy in the metrics": lambda config: config.actor_rollout_ref.actor.calculate_entropy,
    "a loss term": lambda config: bool(config.get("terms")),
    "distillation": lambda config: config.distillation.enabled,
}


def may_be_left_out(config: DictConfig) -> Literal["", "rows", "passes"]:
    """Nothing, rows, or passes without any other row. ``config`` is the whole of a run's."""
    if any(needs(config) for needs in NEEDS_ALL_ROWS.values()):
        return ""
    return PASSES if config.actor_rollout_ref.actor.policy_loss.loss_mode in BY_PASS else ROWS
