"""Training on the rows of windows: a step has as many updates as with one row an episode."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from math import lcm

from omegaconf import DictConfig, open_dict
from transfer_queue import KVBatchMeta

from turngrid.verl_plugin.training.losses import EPISODES
from turngrid.verl_plugin.training.step import Metrics


class WindowRows:
    """Keeps the number of updates of a step constant while its number of rows varies.

    Args:
        shares: number of batches that the trainer takes from verl's buffer in a step.
        sides: episodes that a sample may give.
    """

    def __init__(self, config: DictConfig, shares: int = 1, sides: int = 1) -> None:
        self._config = config
        self._actor = config.actor_rollout_ref
        self._prompts = int(config.data.train_batch_size) // shares  # prompts of a batch from the buffer
        self._sides, self._devices = sides, 1

    def multiple(self, devices: int) -> int:
        """Return the number of rows to whose multiples verl pads a batch.

        All updates then have the same number of rows, and so have all passes on all devices.
        """
        self._devices = devices
        return self._parts() * self.rows

    @property
    def rows(self) -> int:
        """The number of rows to whose multiples an update is padded; verl counts in n."""
        return lcm(self._devices * self._rows_of_a_pass(), self._actor.rollout.n)

    def _parts(self) -> int:
        """Return the parts into which the updates of both policy and critic divide a batch."""
        return lcm(*(self._updates(node) for node in (self._actor.actor, self._config.critic)))

    def _updates(self, node: DictConfig) -> int:
        return max(1, self._prompts // node.ppo_mini_batch_size)

    def _rows_of_a_pass(self) -> int:
        if self._actor.actor.use_dynamic_bsz:
            return 1
        sizes = (
            self._actor.actor.ppo_micro_batch_size_per_gpu,
            self._actor.ref.log_prob_micro_batch_size_per_gpu,
            self._actor.rollout.log_prob_micro_batch_size_per_gpu,
            self._config.critic.ppo_micro_batch_size_per_gpu,
        )
        return lcm(*(int(size) for size in sizes if size))

    def spread_padding(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Distribute the padding rows, which verl appends at the end, evenly over the updates."""
        padding = [bool(tag.get("is_padding", False)) for tag in batch.tags]
        share = len(padding) // self._devices
        starts = range(0, len(padding), share)
        batch.reorder([at + row for at in starts for row in spread(padding[at : at + share], self._parts())])
        return batch

    @contextmanager
    def mini_batches(self, node: DictConfig, batch: KVBatchMeta, updates: int = 0) -> Iterator[None]:
        """Set verl's mini-batch size for ``updates`` of a batch; 0: as many as without windows.

        verl counts ``ppo_mini_batch_size`` x n rows; with windows an episode has several rows.
        """
        usual, samples, updates = node.ppo_mini_batch_size, self._actor.rollout.n, updates or self._updates(node)
        batch.extra_info[EPISODES] = self._prompts * samples * self._sides // updates
        with open_dict(node):
            node.ppo_mini_batch_size = len(batch) // (updates * samples)
            try:
                yield
            finally:
                node.ppo_mini_batch_size = usual


def spread(padding: Sequence[bool], parts: int) -> list[int]:
    """Return an order in which equal parts have equal padding; the other rows keep their order."""
    rows = [row for row, pads in enumerate(padding) if not pads]
    filling = (row for row, pads in enumerate(padding) if pads)
    bounds = [len(rows) * part // parts for part in range(parts + 1)]
    size = len(padding) // parts
    return [row for a, b in pairwise(bounds) for row in [*rows[a:b], *islice(filling, size - (b - a))]]
