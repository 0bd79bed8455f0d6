"""Checks of ``algorithm.rollout_correction``, which ``correction=`` sets (docs/correction.md)."""

from collections.abc import Iterator

from omegaconf import DictConfig

NODE = "algorithm.rollout_correction"
BOUNDS = {"k1": "0.999_1.001", "k2": "0.01", "k3": "0.01"}  # verl's presets


def bad_correction(config: DictConfig) -> Iterator[str]:
    """Refuse what verl refuses in mid-step, or leaves out without a word."""
    node = config.algorithm.rollout_correction
    if node.bypass_mode and node.rollout_is:
        reason = "with bypass_mode=true the loss has no importance weights"
        yield f"{NODE}.rollout_is={node.rollout_is}: {reason}; use {NODE}.bypass_mode=false or correction=token_tis"
    if not node.rollout_rs:
        return
    kind, bound = str(node.rollout_rs)[-2:], node.rollout_rs_threshold
    if bound is None or (isinstance(bound, str) and kind != "k1"):
        reason = f"{node.rollout_rs} needs {'bounds of a ratio' if kind == 'k1' else 'one upper bound'}"
        yield f"{NODE}.rollout_rs_threshold={bound}: {reason}; use {NODE}.rollout_rs_threshold={BOUNDS[kind]}"
