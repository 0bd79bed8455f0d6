"""One update of the policy for each turn number."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.pools import mean_changes
from turngrid.verl_plugin.training import zero_advantages
from turngrid.verl_plugin.training.step import Metrics
from turngrid.verl_plugin.training.turn_rows import log_probs_of, padded, read, with_padding, write_tokens


def update_by_turn(batch: KVBatchMeta, metrics: Metrics, method: Any, step: int, trainer: Any) -> None:
    """Update the policy on the rows of one turn number after the other.

    Each row has one turn, and the key ``<prompt>_<sample>_<turn>``. ``method`` is an estimator with
    ``by_turn`` (``turngrid.algorithms.slots``).
    """
    rows = rows_by_turn(batch)
    factors: dict[str, float] = {}
    updates: list[Metrics] = []
    for turn in method.in_order({turn: len(keys) for turn, keys in rows.items()}, step):
        keys = rows[turn]
        episodes = [key.rpartition("_")[0] for key in keys]
        own = torch.tensor([factors.get(episode, 1.0) for episode in episodes], dtype=torch.float64)
        with with_padding(batch.select_keys(keys), trainer.windows.rows, trainer.tokenizer.eos_token_id) as part:
            updates.append({})
            changes = _update(part, own, trainer, updates[-1])
        factors.update(zip(episodes, method.next_factors(own, changes).tolist(), strict=True))
    metrics |= means_of(updates) | {"actor/turn_updates": float(len(updates))}
    if factors:
        metrics["actor/turn_factor"] = sum(factors.values()) / len(factors)


def _update(part: KVBatchMeta, factors: Tensor, trainer: Any, metrics: Metrics) -> Tensor:
    """Update the policy on rows with their advantages times factors; return changes of log-probs.

    ``factors`` and the changes, (n,), are those of the rows before padding.
    """
    old, mask = log_probs(part, trainer)
    rows = read(part, "advantages")["advantages"]
    advantages = padded(rows)
    advantages[: len(factors)] *= factors.unsqueeze(1).to(advantages.dtype)
    columns = {"advantages": advantages, "old_log_probs": old}
    trainer.learn_rows(write_tokens(part, columns, [len(row) for row in rows.unbind()]), metrics, updates=1)
    new, _ = log_probs(part, trainer)
    return mean_changes(old, new, mask)[: len(factors)]


def log_probs(part: KVBatchMeta, trainer: Any) -> tuple[Tensor, Tensor]:
    """Return the present weights' log-probs of responses, and their mask; (B, T) each."""
    temperature = trainer.config.actor_rollout_ref.rollout.temperature
    part.extra_info.update(calculate_entropy=False, compute_loss=False, temperature=temperature)
    part.extra_info[zero_advantages.KEY] = ""
    trainer.actor_rollout_wg.compute_log_prob(part)
    numbers, mask = log_probs_of(part, part.keys)
    return padded(numbers), padded(mask)


def rows_by_turn(batch: KVBatchMeta) -> dict[int, list[str]]:
    """Return the keys of rows with a trained token, by turn number."""
    keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
    masks = read(batch.select_keys(keys), "response_mask")["response_mask"]
    rows: dict[int, list[str]] = {}
    for key, mask in zip(keys, masks.unbind(), strict=True):
        if mask.any():
            rows.setdefault(int(key.rpartition("_")[2]), []).append(key)
    return {turn: sorted(own) for turn, own in rows.items()}


def means_of(updates: list[Metrics]) -> Mapping[str, float]:
    names = sorted({name for one in updates for name in one})
    values = {name: [float(one[name]) for one in updates if name in one] for name in names}
    return {name: sum(own) / len(own) for name, own in values.items()}
