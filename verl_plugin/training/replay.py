"""Replay: episodes of earlier steps are stored in a buffer and trained on again.

A stored episode's rows return to verl's queue, for a separate update or in place of others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from statistics import fmean
from typing import Any

import transfer_queue as tq
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from turngrid.algorithms.chosen import Chosen
from turngrid.algorithms.slots import StoredEpisode
from turngrid.algorithms.turn_table import turn_ids
from turngrid.algorithms.turns import Turns
from turngrid.verl_plugin.rollout.turn_fields import lengths, verl_fields
from turngrid.verl_plugin.training.estimators import members
from turngrid.verl_plugin.training.losses import EPISODES, IN_WORKERS
from turngrid.verl_plugin.training.step import Metrics, Step
from turngrid.verl_plugin.training.turn_rows import TurnRows, in_queue, read, with_padding

REPLAYED = "replayed"  # tag of a row that has another episode's key
KEPT = ("prompts", "responses", "input_ids", "position_ids", "loss_mask", "rollout_log_probs")


class Replay:
    """Applies the run's buffer to a step; does nothing if the run has none."""

    def __init__(self, chosen: Chosen, step: Step, rows_of: Callable[[KVBatchMeta], TurnRows]) -> None:
        self._chosen, self._step, self._rows_of = chosen, step, rows_of
        self.taken: list[StoredEpisode] = []  # to be replayed in this step

    def replace(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Replace some of the step's episodes by stored ones, if the buffer supports it."""
        for name, buffer in self._chosen.of("buffer", self._step.number).items():
            if hasattr(buffer, "replace"):
                turns = self._rows_of(batch).turns()
                given = {turns.episodes[e]: held for e, held in buffer.replace(turns, self._step.number).items()}
                in_place(batch, given)
                self._step.replaced = frozenset(given)
                self._step.replayed += [(episode, own) for own, episode in given.items()]
                metrics[f"buffer/{name}/replaced"] = float(len(given))
                if given:
                    metrics[f"buffer/{name}/age"] = fmean(self._step.number - held.step for held in given.values())
        return batch

    def exchange(self, rows: TurnRows, turns: Turns, advantages: Tensor, metrics: Metrics) -> None:
        """Take the episodes to replay in this step, then offer the step's to the buffer."""
        step = self._step.number
        for name, buffer in self._chosen.of("buffer", self._step.number).items():
            self.taken = buffer.take(step)
            wanted = buffer.wanted(turns, advantages, step)
            chosen = [episode for episode in wanted if turns.episodes[episode] not in self._step.replaced]
            sent = ("entropy",) if "entropy" in self._chosen.needs() else ()  # by the rollout server
            more = (*rows.recorded, *sent) if hasattr(buffer, "replace") else ()
            buffer.offer(step, stored(rows.batch, turns, chosen, step, more), turns)
            counts: dict[str, float] = {"episodes": len(buffer), "replayed": len(self.taken)}
            if self.taken:
                counts["age"] = sum(step - episode.step for episode in self.taken) / len(self.taken)
            metrics |= {f"buffer/{name}/{key}": float(count) for key, count in counts.items()}

    def update(self, batch: KVBatchMeta, metrics: Metrics, trainer: Any) -> KVBatchMeta:
        """Update the policy on the replayed episodes too, without KL and terms."""
        taken, self.taken = self.taken, []
        if not taken:
            return batch
        self._step.replayed += [(episode, None) for episode in taken]
        node, own = trainer.config.actor_rollout_ref, Metrics()
        with trainer.mini_batches(node.actor, batch):
            multiple = node.actor.ppo_mini_batch_size * node.rollout.n
            with replayed(taken, batch, self._step.number, multiple, trainer.tokenizer.eos_token_id) as rows:
                rows.extra_info[IN_WORKERS] = {**trainer.methods.of_loss(), "replay": True}
                trainer.update_policy(rows, own)
        shown = {name: value for name, value in own.items() if name.startswith("actor/") and "/perf/" not in name}
        metrics |= {f"replay/{name.removeprefix('actor/')}": value for name, value in shown.items()}
        return batch


def stored(
    batch: KVBatchMeta, turns: Turns, chosen: Sequence[int], step: int, more: Sequence[str] = ()
) -> list[StoredEpisode]:
    """Return episodes of this step as the buffer stores them: ids, masks, log-probs."""
    of = members(batch.keys)
    keys = [[batch.keys[row] for row in of[turns.episodes[episode]]] for episode in chosen]
    flat = list(chain.from_iterable(keys))
    rows = dict(zip(flat, _rows_of(batch, flat, (*KEPT, *more)), strict=True))
    scores = turns.score
    return [
        StoredEpisode(
            rows=[rows[key] for key in own],
            score=scores[episode].item(),
            step=step,
            task=turns.tasks[episode] if turns.tasks else "",
        )
        for episode, own in zip(chosen, keys, strict=True)
    ]


def _rows_of(batch: KVBatchMeta, keys: list[str], names: Sequence[str]) -> list[dict[str, Tensor]]:
    if not keys:
        return []
    data = read(batch.select_keys(keys), *names)
    columns = {name: [row.clone() for row in data[name].unbind()] for name in names}
    return [{name: column[number] for name, column in columns.items()} for number in range(len(keys))]


def in_place(batch: KVBatchMeta, episodes: Mapping[str, StoredEpisode]) -> None:
    """Replace episodes of this step, each of one row, by stored ones; names as in ``members``."""
    if not episodes:
        return
    keys = [f"{name}_0" for name in episodes]
    rows = [{**row, "response_mask": row["loss_mask"]} for episode in episodes.values() for row in episode.rows]
    tags = [batch.tags[batch.keys.index(key)] for key in keys]
    for tag, row in zip(tags, rows, strict=True):
        tag.update(lengths(row), **{REPLAYED: True})
    tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=list_of_dict_to_tensordict(rows), tags=tags)


@contextmanager
def replayed(
    episodes: Sequence[StoredEpisode], like: KVBatchMeta, step: int, multiple: int, eos: int
) -> Iterator[KVBatchMeta]:
    """Put these episodes into the queue, padded to a multiple; remove them when the block ends."""
    rows = [_fields(row, episode.advantage) for episode in episodes for row in episode.rows]
    keys = [f"replay{step:06d}-{number:05d}_0_0" for number in range(len(rows))]
    steps = dict.fromkeys(("global_steps", "min_global_steps", "max_global_steps"), step)
    with in_queue(like, keys, rows, **steps) as own, with_padding(own, multiple, eos) as batch:
        same = ("temperature", EPISODES)
        batch.extra_info.update({key: value for key, value in (like.extra_info or {}).items() if key in same})
        yield batch


def _fields(row: Mapping[str, Tensor], advantage: float) -> dict[str, Any]:
    mask, sampled = row["loss_mask"], row["rollout_log_probs"]
    return {
        **verl_fields(row["prompts"], row["responses"], mask),
        "old_log_probs": sampled,
        "ref_log_prob": sampled,
        "advantages": advantage * mask.float(),
        "turn_ids": turn_ids(mask.unsqueeze(0))[0],
    }
