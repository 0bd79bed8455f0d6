"""Rows of earlier steps: read for a buffer to keep, and put back into verl's queue, for an update of their own or in the place of
a step's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import transfer_queue as tq
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from algorithms.slots import StoredEpisode
from algorithms.turn_table import turn_ids
from algorithms.turns import Turns
from verl_plugin.rollout.turn_fields import lengths
from verl_plugin.training.losses import EPISODES
from verl_plugin.training.turn_rows import members

REPLAYED = "replayed"  # a tag: the row is not what its key's episode was
KEPT = ("prompts", "responses", "input_ids", "position_ids", "loss_mask", "rollout_log_probs")


def stored(
    batch: KVBatchMeta, turns: Turns, chosen: Sequence[int], step: int, more: Sequence[str] = ()
) -> list[StoredEpisode]:
    """Episodes of this step as a buffer keeps them: token ids, masks and the log-probs that they were sampled with, and ``more``
    fields of their rows."""
    of = members(batch.keys)
    keys = [[batch.keys[row] for row in of[turns.episodes[episode]]] for episode in chosen]
    flat = list(chain.from_iterable(keys))
    rows = dict(zip(flat, _read(batch, flat, (*KEPT, *more)), strict=True))
    scores = turns.score
    return [
        StoredEpisode(
            rows=[rows[key] for key in own],
            score=scores[episode].item(),
            group_mean=scores[turns.group == turns.group[episode]].mean().item(),
            step=step,
            task=turns.tasks[episode] if turns.tasks else "",
        )
        for episode, own in zip(chosen, keys, strict=True)
    ]


def _read(batch: KVBatchMeta, keys: list[str], names: Sequence[str]) -> list[dict[str, Tensor]]:
    if not keys:
        return []
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=list(names))
    columns = {name: [row.clone() for row in data[name].unbind()] for name in names}
    return [{name: column[number] for name, column in columns.items()} for number in range(len(keys))]


def in_place(batch: KVBatchMeta, episodes: Mapping[str, StoredEpisode]) -> None:
    """Stored episodes as what this step's are learned from, by the name ``<prompt>_<sample>`` of the one that makes way. An episode
    has one row here."""
    if not episodes:
        return
    keys = [f"{name}_0" for name in episodes]
    rows = [{**row, "response_mask": row["loss_mask"]} for episode in episodes.values() for row in episode.rows]
    tags = [batch.tags[batch.keys.index(key)] for key in keys]
    for tag, row in zip(tags, rows, strict=True):
        tag.update(lengths(row), **{REPLAYED: True})
    tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=list_of_dict_to_tensordict(rows), tags=tags)


@contextmanager
def in_queue(
    episodes: Sequence[StoredEpisode], like: KVBatchMeta, step: int, multiple: int, eos: int
) -> Iterator[KVBatchMeta]:
    """A batch of these episodes' rows, padded to a multiple of ``multiple`` rows; none of them is left behind."""
    rows = [(row, episode.advantage) for episode in episodes for row in episode.rows]
    keys = [f"replay{step:06d}-{number:05d}_0_0" for number in range(len(rows))]
    fields = [_fields(row, advantage) for row, advantage in rows]
    steps = dict.fromkeys(("global_steps", "min_global_steps", "max_global_steps"), step)
    tags = [{"status": "success", **lengths(row), **steps} for row in fields]
    tq.kv_batch_put(keys=keys, partition_id=like.partition_id, fields=list_of_dict_to_tensordict(fields), tags=tags)
    batch = KVBatchMeta(keys=keys, tags=tags, partition_id=like.partition_id, fields=list(fields[0]), extra_info={})
    batch = upsample_batch_to_divisible_size(batch, multiple, eos)
    same = ("temperature", EPISODES)
    batch.extra_info.update({key: value for key, value in (like.extra_info or {}).items() if key in same})
    try:
        yield batch
    finally:
        tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)


def _fields(row: Mapping[str, Tensor], advantage: float) -> dict[str, Any]:
    mask, sampled = row["loss_mask"], row["rollout_log_probs"]
    return {
        **{name: row[name] for name in KEPT if name != "rollout_log_probs"},
        "response_mask": mask,
        "old_log_probs": sampled,
        "ref_log_prob": sampled,
        "advantages": advantage * mask.float(),
        "turn_ids": turn_ids(mask.unsqueeze(0))[0],
        "multi_modal_inputs": {},
    }
