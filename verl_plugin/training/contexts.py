"""Scores a step's contexts (``turngrid.algorithms.contexts``) in the pass for old log-probs."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig
from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.chosen import Chosen
from turngrid.algorithms.contexts import Asks
from turngrid.algorithms.turn_table import on_action_tokens
from turngrid.verl_plugin.averaged import KEY
from turngrid.verl_plugin.rollout.contexts import field_of, unpacked
from turngrid.verl_plugin.rollout.turn_fields import verl_fields
from turngrid.verl_plugin.training.losses import SEQUENCES
from turngrid.verl_plugin.training.step import Metrics, Step
from turngrid.verl_plugin.training.turn_rows import SCORED, in_queue, log_probs_of, padded, read, write_tokens

NOTHING = torch.zeros(2, dtype=torch.int64)  # ids and marks of a sequence that fills a pass
NO_LOSS = {"calculate_entropy": False, "compute_loss": False}
READ = ("prompts", "responses", "input_ids", "position_ids", "loss_mask", "response_mask", "multi_modal_inputs")


class Sequence(NamedTuple):
    """One context: its method, its row in the batch, the turn that gets the result, its tokens."""

    method: str
    row: int
    turn: int
    ids: Tensor
    scored: Tensor


class Contexts:
    """The contexts of a run's methods by ``slot/name``; does nothing if none has any."""

    def __init__(self, chosen: Chosen, rollout: DictConfig, step: Step) -> None:
        self._chosen, self._rollout, self._step = chosen, rollout, step
        self.asking: Mapping[str, Asks] = chosen.asking()
        self.devices = 1  # among which a pass is divided
        self._found: list[tuple[Sequence, Tensor]] | None = None  # with their log-probs; None before the pass
        self._workers: Any = None  # verl's group, which runs the pass
        self._by_policy = [name for name, one in self.asking.items() if not getattr(one, "average", None)]

    def beside_rows(self, workers: Any) -> Any:
        """Return what verl's pass for old log-probs runs on; with contexts it scores these too."""
        self._workers = workers

        def compute_log_prob(batch: KVBatchMeta) -> KVBatchMeta:
            sequences = self._sequences(batch, self._by_policy)
            self._found = self._pass(batch, workers.compute_log_prob, sequences, beside_rows=True)
            return batch

        return SimpleNamespace(compute_log_prob=compute_log_prob) if self.asking else workers

    def score(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Write what the contexts scored as fields of the rows; run the pass if verl ran none."""
        compute = self._workers.compute_log_prob
        if self._found is None:
            self._found = self._pass(batch, compute, self._sequences(batch, self._by_policy))
        scored, self._found = self._found, None
        for name, method in self._chosen.asking(self._step.number).items():
            if average := getattr(method, "average", None):
                asked = {KEY: {**average, "step": self._step.number}}
                scored += self._pass(batch, compute, self._sequences(batch, [name]), asked)
        masks = read(batch, "loss_mask")["loss_mask"]
        mask, sizes = padded(masks), [len(row) for row in masks.unbind()]
        columns = {}
        for name, method in self.asking.items():
            own = [(one.row, one.turn, log_probs) for one, log_probs in scored if one.method == name]
            columns[f"{SCORED}{field_of(name)}"] = on_action_tokens(own, mask, method.scores)
        write_tokens(batch, columns, sizes)
        metrics["rollout/contexts"] = float(len(scored))
        metrics["rollout/context_tokens"] = float(sum(len(one.ids) for one, _ in scored))
        return batch

    def scored(self, batch: KVBatchMeta, sequences: list[Sequence]) -> list[tuple[Sequence, Tensor]]:
        """Score other sequences of a batch in a pass of their own."""
        return self._pass(batch, self._workers.compute_log_prob, sequences, NO_LOSS)

    def _pass(
        self,
        batch: KVBatchMeta,
        compute: Callable[[KVBatchMeta], Any],
        sequences: list[Sequence],
        extra_info: Mapping[str, Any] = MappingProxyType({}),
        beside_rows: bool = False,
    ) -> list[tuple[Sequence, Tensor]]:
        """Score sequences with ``compute``, and the batch's rows too if ``beside_rows``."""
        keys = [f"context{number:06d}_0_0" for number in range(len(sequences))]
        order = [(one.row, key) for one, key in zip(sequences, keys, strict=True)]
        if beside_rows:
            order = sorted([*enumerate(batch.keys), *order], key=lambda one: one[0])  # a row, then its contexts
        size = 1 if self._rollout.log_prob_use_dynamic_bsz else int(self._rollout.log_prob_micro_batch_size_per_gpu)
        size *= self.devices
        count = size if KEY in extra_info and not order else -len(order) % size  # an average advances in each step
        filling = [f"filling{number:06d}_0_0" for number in range(count)]
        rows = [_row(one.ids, one.scored) for one in sequences] + [_row(NOTHING, NOTHING)] * len(filling)
        if not rows and not order:
            return []
        with in_queue(batch, [*keys, *filling], rows) if rows else nullcontext():
            every = KVBatchMeta(
                keys=[*(key for _, key in order), *filling],
                tags=[{}] * (len(order) + len(filling)),
                partition_id=batch.partition_id,
                fields=list(READ),
                extra_info={
                    "temperature": self._rollout.temperature,
                    **NO_LOSS,
                    **(batch.extra_info or {}),
                    **extra_info,
                    SEQUENCES: max(1, -(-len(order) // len(batch))),
                },
            )
            compute(every)
            log_probs, mask = log_probs_of(batch, keys) if keys else ([], [])
            return [(one, row[own.bool()]) for one, row, own in zip(sequences, log_probs, mask, strict=True)]

    def _sequences(self, batch: KVBatchMeta, names: list[str]) -> list[Sequence]:
        """Return the contexts in the order of the batch's rows; verl's padding rows have none."""
        if not names:
            return []
        fields = {name: field_of(name) for name in names}
        data = read(batch, *fields.values())
        return [
            Sequence(name, row, *one)
            for row, tag in enumerate(batch.tags)
            if not tag.get("is_padding")
            for name, field in fields.items()
            for one in unpacked(data[field][row])
        ]


def _row(ids: Tensor, scored: Tensor) -> dict[str, Any]:
    """Return a context as a row whose response begins with the first token that is scored."""
    first = int(scored.argmax()) or 1
    return verl_fields(ids[:first], ids[first:], scored[first:])
