"""Decides whether rows whose advantage is 0 everywhere may be left out of a policy update.

If every term of the loss is multiplied by the advantages, such rows have no gradient.
``NEEDS_ALL_ROWS`` lists the terms that are not. If a loss compares the tokens of a forward pass,
only a pass whose rows all have advantage 0 may be left out. The decision is sent with the policy's
batch only: a critic is trained on every row with an action token.
"""

from collections.abc import Callable
from typing import Final, Literal

from omegaconf import DictConfig

from turngrid.algorithms.chosen import method_class, slots_of
from turngrid.algorithms.registry import LOSS_MODE

KEY = "leave_out_zero_advantages"  # in the extra_info of a batch, and so of its mini-batches

ROWS: Final = "rows"
PASSES: Final = "passes"

# verl's policy losses that are sums over tokens of something times their advantage. Not geo_mean,
# which divides by the rows of a pass, nor kl_cov, which compares the tokens of a pass and has a KL
# without advantage, nor dro, which adds a penalty
WEIGHED = ("vanilla", "gspo", "sapo", "gpg", "cispo", "dppo_tv", "dppo_kl")
BY_PASS = ("clip_cov",)  # selects tokens of a pass; each is multiplied by its advantage


def _weighed(config: DictConfig) -> bool:
    mode, forms = config.actor_rollout_ref.actor.policy_loss.loss_mode, slots_of(config, ("loss",))["loss"]
    if mode != LOSS_MODE:
        return mode in (*WEIGHED, *BY_PASS)
    # vars, not getattr: a subclass may add a penalty, so it must declare this itself
    return all(vars(method_class("loss", name, form)).get("weighed") for name, form in forms.items())


NEEDS_ALL_ROWS: dict[str, Callable[[DictConfig], bool]] = {
    "the policy loss": lambda config: not _weighed(config),
    "the KL to the reference": lambda config: config.actor_rollout_ref.actor.use_kl_loss,
    "the entropy bonus": lambda config: config.actor_rollout_ref.actor.entropy_coeff != 0,
    "the entropy in the metrics": lambda config: config.actor_rollout_ref.actor.calculate_entropy,
    "a loss term": lambda config: bool(config.get("terms")),
}


def may_be_left_out(config: DictConfig) -> Literal["", "rows", "passes"]:
    """Return what an update may leave out: nothing, rows of advantage 0, or passes of them only."""
    if any(needs(config) for needs in NEEDS_ALL_ROWS.values()):
        return ""
    return PASSES if config.actor_rollout_ref.actor.policy_loss.loss_mode in BY_PASS else ROWS
