"""Scores some of a step's answers after each other's prompts (docs/reasoning.md)."""

from collections.abc import Iterator
from random import Random

import torch
from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.mutual_information import mutual_information
from turngrid.rollouts.seeds import derive_seed
from turngrid.tasks.schema import Tracking
from turngrid.verl_plugin.rollout.contexts import SPANS
from turngrid.verl_plugin.training.contexts import Contexts, Sequence
from turngrid.verl_plugin.training.estimators import members
from turngrid.verl_plugin.training.step import Metrics, Step
from turngrid.verl_plugin.training.turn_rows import read

Pair = tuple[Tensor, Tensor]  # ids before an answer, and its ids


class Reasoning:
    """Measures by the trainer's weights how much a step's answers depend on their prompts.

    It changes nothing that is trained. Of an answer with a thought, the thought is scored.
    """

    def __init__(self, tracking: Tracking, seed: int, contexts: Contexts, step: Step) -> None:
        self.answers, self._every = tracking.reasoning, tracking.reasoning_every
        self._seed, self._contexts, self._step = seed, contexts, step

    def score(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Log ``reasoning/...``; nothing if the step has fewer than two answers."""
        pairs = [] if self._step.number % self._every else self._drawn(batch)
        if len(pairs) < 2:
            return batch
        sequences = [_joined(number, before, answer) for number, (before, _) in enumerate(pairs) for _, answer in pairs]
        totals = torch.stack([log_probs.double().sum() for _, log_probs in self._contexts.scored(batch, sequences)])
        numbers: dict[bytes, int] = {}
        prompts = [numbers.setdefault(before.numpy().tobytes(), len(numbers)) for before, _ in pairs]
        lengths = torch.tensor([len(answer) for _, answer in pairs])
        own = mutual_information(totals.reshape(len(pairs), -1).T, lengths, torch.tensor(prompts))
        metrics.update({f"reasoning/{name}": value for name, value in own.items()})
        metrics["reasoning/answers"] = float(len(pairs))
        metrics["reasoning/tokens"] = float(sum(len(one.ids) for one in sequences))
        return batch

    def _drawn(self, batch: KVBatchMeta) -> list[Pair]:
        """Draw answers of different episodes, of as many different prompts' groups as possible.

        An episode's answer is drawn from its turns (RAGEN-2's trajectory-uniform sampling).
        """
        draw = Random(derive_seed("reasoning", self._seed, self._step.number))
        data = read(batch, "input_ids", SPANS)
        padding = [bool(tag.get("is_padding")) for tag in batch.tags]
        groups: dict[str, list[Pair]] = {}
        for episode, rows in members(batch.keys).items():
            live = [] if episode in self._step.replaced else [row for row in rows if not padding[row]]
            own = [pair for row in live for pair in _pairs(data["input_ids"][row], data[SPANS][row])]
            if own:
                groups.setdefault(episode.rpartition("_")[0], []).append(draw.choice(own))
        for pairs in groups.values():
            draw.shuffle(pairs)
        ordered = [(number, draw.random(), pair) for pairs in groups.values() for number, pair in enumerate(pairs)]
        return [pair for *_, pair in sorted(ordered, key=lambda one: one[:2])][: self.answers]


def _pairs(ids: Tensor, spans: Tensor) -> Iterator[Pair]:
    """Yield what a row has before each answer, and the answer, if there is one."""
    return ((ids[:first], ids[first:end]) for first, end in spans.reshape(-1, 2).tolist() if first < end)


def _joined(row: int, before: Tensor, answer: Tensor) -> Sequence:
    ids = torch.cat([before, answer])
    scored = (torch.arange(len(ids)) >= len(before)).long()
    return Sequence("reasoning", row, 0, ids, scored)
