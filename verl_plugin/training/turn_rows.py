"""Reads rows of verl's queue as a turn table, and writes per-token numbers back."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.utils.padding import response_from_nested

from turngrid.algorithms.slots import Tokens
from turngrid.algorithms.turn_table import ENDS, NAMED, span_field, turn_table
from turngrid.algorithms.turns import Turns
from turngrid.verl_plugin import value_heads
from turngrid.verl_plugin.rollout.contexts import field_of
from turngrid.verl_plugin.rollout.turn_fields import COLUMNS, PREFIX, lengths
from turngrid.verl_plugin.training.estimators import members

MASKS = ("loss_mask", "response_mask")
KL_IN_REWARD = "token_level_rewards"  # present only if the KL is part of the reward
TOKENS = (*MASKS, "rm_scores", KL_IN_REWARD, "advantages", "returns", "values", "entropy")
MORE_VALUES = tuple(value_heads.column("values", head) for head in range(1, value_heads.MOST))
TARGETS = "critic_targets"  # mask of the critic's tokens, if it is not trained on all action tokens
GAME, OLD = "task", "old_log_probs"
OF_UPDATE = (OLD, "ref_log_prob", "advantages", "turn_ids", "rollout_is_weights")  # per token
SCORED = "scored_"  # prefix of the fields of scored contexts


class TurnRows:
    """The rows of one batch.

    Args:
        named: rewards besides the trained one that a method reads.
        parts: the prompt form's parts of an answer.
        asking: methods with contexts, ``slot/name``.
        log_probs: whether a method reads the old log-probs.

    Attributes:
        tokens: per-token numbers by field, (B, T), padded with 0.
        recorded: per-row fields.
    """

    def __init__(
        self, batch: KVBatchMeta, named: Iterable[str], parts: Iterable[str], asking: Iterable[str], log_probs: bool
    ) -> None:
        self.batch = batch
        self._scored = {name: f"{SCORED}{field_of(name)}" for name in asking}
        tokens = [*TOKENS, *MORE_VALUES, *self._scored.values(), *([OLD] if log_probs else [])]
        spans = [span_field(part, end) for part in parts for end in ENDS]
        records = [f"{PREFIX}{name}" for name in (*COLUMNS, *(f"{NAMED}{name}" for name in named), *spans)]
        packed = [field_of(name) for name in self._scored]
        wanted = [*tokens, *packed, "uid", GAME, *records]
        data = read(batch, *wanted)
        known = set(data.keys())
        self._lengths = [len(row) for row in data["loss_mask"].unbind()]
        self.tokens = {name: padded(data[name]) for name in tokens if name in known}
        self._records = {name.removeprefix(PREFIX): list(data[name].unbind()) for name in records if name in known}
        self._groups = [str(uid) for uid in data["uid"]]
        self._games = [str(game) for game in data[GAME]] if GAME in known else []
        self.recorded = ("rm_scores", *(name for name in (*records, *packed) if name in known))

    def turns(self) -> Turns:
        """Make the turn table of the rows from the current ``tokens``."""
        rows = {"loss_mask": self.tokens["loss_mask"], "reward": self.tokens["rm_scores"]}
        rows |= {name: self.tokens[name] for name in ("entropy", "values") if name in self.tokens}
        own = members(self.batch.keys)
        table = turn_table(rows, self._records, own, self._groups)
        games = [self._games[own[name][0]] for name in table.episodes if self._games]
        contexts = {name: self.tokens[field] for name, field in self._scored.items() if field in self.tokens}
        return replace(table, tasks=tuple(games), log_prob=self.tokens.get(OLD), contexts=contexts)

    def of_estimator(self, turns: Turns) -> tuple[Turns, Tokens]:
        """Return an estimator's arguments, with the KL if it is part of the reward."""
        reward, mask, kl = self.tokens["rm_scores"], self.tokens["response_mask"].bool(), None
        if KL_IN_REWARD in self.tokens:
            kl, reward = self.tokens[KL_IN_REWARD] - reward, self.tokens[KL_IN_REWARD]
            turns = replace(turns, reward=turns.mean(reward) * turns.tokens)
        heads = tuple(self.tokens[name] for name in MORE_VALUES if name in self.tokens)
        return turns, Tokens(mask, reward, self.tokens.get("values"), self.tokens.get("entropy"), heads, kl)

    def put(self, columns: Mapping[str, Tensor]) -> KVBatchMeta:
        self.batch = write_tokens(self.batch, columns, self._lengths)
        self.tokens |= columns
        return self.batch


def read(batch: KVBatchMeta, *names: str) -> TensorDict:
    """Return fields of a batch's rows; a field that is not in verl's queue is left out."""
    return tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names))


def write_tokens(batch: KVBatchMeta, columns: Mapping[str, Tensor], lengths: Sequence[int]) -> KVBatchMeta:
    """Write per-token numbers, (B, T) each, for rows of these lengths.

    Returns:
        The batch with the new fields added to its list, so that workers receive them.
    """
    fields = {
        name: torch.nested.as_nested_tensor(
            [row[:length] for row, length in zip(column, lengths, strict=True)], layout=torch.jagged
        )
        for name, column in columns.items()
    }
    written = _put(batch, fields)
    written.extra_info.update(batch.extra_info or {})
    return written


def of_responses(batch: KVBatchMeta, heads: int) -> None:
    """Cut the values of further heads to the responses, as verl does with the first head's."""
    names = MORE_VALUES[: heads - 1]
    data = read(batch, *names, "response_mask")
    _put(batch, {name: response_from_nested(data[name], data["response_mask"]) for name in names})


def _put(batch: KVBatchMeta, columns: Mapping[str, Tensor]) -> KVBatchMeta:
    fields = TensorDict(columns, batch_size=len(batch))
    return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def mute_dead(batch: KVBatchMeta, needs_group: bool) -> tuple[KVBatchMeta, bool]:
    """Clear both masks of dead rows; return the batch, and whether every row is dead.

    A row is dead if rejection dropped its episode whole, or every other sample of its group. verl
    removes the tokens only from ``response_mask``, but the mean of the loss and the turn table use
    ``loss_mask``. If every row is dead, restore all masks and return True: verl averages metrics
    over rows.

    Args:
        needs_group: whether the baseline needs another sample of the same prompt and seat.
    """
    data = read(batch, *MASKS, "uid")
    masks, groups = {name: padded(data[name]) for name in MASKS}, [str(uid) for uid in data["uid"]]
    left = [own for own in members(batch.keys).values() if masks["response_mask"][own].any()]
    sizes = Counter(groups[own[0]] for own in left)
    kept = [row for own in left if not needs_group or sizes[groups[own[0]]] > 1 for row in own]
    if not kept:
        masks["response_mask"] = masks["loss_mask"]
    elif len(kept) == len(batch):
        return batch, False
    alive = torch.zeros(len(batch), 1, dtype=masks["loss_mask"].dtype)
    alive[kept or slice(None)] = 1
    muted = {name: mask * alive for name, mask in masks.items()}
    return write_tokens(batch, muted, [len(row) for row in data["loss_mask"].unbind()]), not kept


@contextmanager
def in_queue(
    like: KVBatchMeta, keys: list[str], rows: Sequence[Mapping[str, Any]], **tags: Any
) -> Iterator[KVBatchMeta]:
    """Put rows into the queue, with more ``tags`` each; remove them when the block ends."""
    own = [{"status": "success", **lengths(row), **tags} for row in rows]
    fields = list_of_dict_to_tensordict([*map(dict, rows)])
    names = [str(name) for name in fields.keys()]  # noqa: SIM118 - iterating over a TensorDict gives its rows
    tq.kv_batch_put(keys=keys, partition_id=like.partition_id, fields=fields, tags=own)
    try:
        yield KVBatchMeta(keys=keys, tags=own, partition_id=like.partition_id, fields=names, extra_info={})
    finally:
        tq.kv_clear(keys=keys, partition_id=like.partition_id)


@contextmanager
def with_padding(part: KVBatchMeta, multiple: int, eos: int) -> Iterator[KVBatchMeta]:
    """Add verl's padding rows up to a multiple; remove them when the block ends.

    A padding row has one token. verl copies the first row's other columns, at their length.
    """
    count = len(part)
    part = upsample_batch_to_divisible_size(part, multiple, eos)
    padding = part.select_keys(part.keys[count:])
    try:
        if len(padding):
            copied = read(padding, *OF_UPDATE)
            columns = {str(name): torch.zeros_like(padded(column)) for name, column in copied.items()}
            write_tokens(padding, columns, [1] * len(padding))
        yield part
    finally:
        if len(padding):
            tq.kv_clear(keys=padding.keys, partition_id=part.partition_id)


def log_probs_of(like: KVBatchMeta, keys: list[str]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the log-probs (nats) that a pass wrote for each row's response, and its mask."""
    names = ["log_probs", "response_mask"]
    data = tq.kv_batch_get(keys=keys, partition_id=like.partition_id, select_fields=names)
    log_probs = response_from_nested(data["log_probs"], data["response_mask"])
    return list(log_probs.unbind()), list(data["response_mask"].unbind())


def padded(column: Tensor | list[Tensor]) -> Tensor:
    """Pad rows of different lengths to (B, T)."""
    rows = column.unbind() if isinstance(column, Tensor) else column
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


@contextmanager
def targets_alone(batch: KVBatchMeta) -> Iterator[None]:
    """Temporarily put the critic's ``TARGETS`` into both masks, over which its loss is computed."""
    if TARGETS not in (batch.fields or ()):
        yield
        return
    data = read(batch, *MASKS, TARGETS)
    _put(batch, dict.fromkeys(MASKS, data[TARGETS]))
    try:
        yield
    finally:
        _put(batch, {name: data[name] for name in MASKS})
