"""Pre-training: next-token loss on what the searcher chose and on what was seen; what was done instead is read only."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from envs.environment import PromptStyle
from experiments.tiny_alfworld.play import Transcript, transcript
from experiments.tiny_alfworld.recipe import Stage
from experiments.tiny_model.train import losses, padded

SEEN, CHOSEN, OTHER = range(3)
POOL = 64  # transcripts sorted by length together, so that a batch pads little


@dataclass(frozen=True)
class Row:
    """Token ids of one transcript and what each of them is."""

    ids: list[int]
    kinds: list[int]


class Encoder:
    """Renders message by message, as in play: most messages come again and again."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self._known = functools.lru_cache(maxsize=20_000)(self._ids)
        self._cue = len(self._encode("<|im_start|>assistant\n"))

    def row(self, played: Transcript) -> Row:
        ids: list[int] = []
        kinds: list[int] = []
        chosen = iter(played.searched)
        for message in played.messages:
            found = self._known(message["role"], message["content"])
            ids += found
            kinds += [SEEN] * len(found)
            if message["role"] == "assistant":  # up to and with its end token, but for the line break
                kind = CHOSEN if next(chosen) else OTHER
                kinds[len(ids) - len(found) + self._cue : len(ids) - 1] = [kind] * (len(found) - self._cue - 1)
        return Row(ids, kinds)

    def _ids(self, role: str, content: str) -> list[int]:
        return self._encode(f"<|im_start|>{role}\n{content}<|im_end|>\n")

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def pretrain(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, style: PromptStyle, stage: Stage) -> None:
    """Train in place."""
    encoder = Encoder(tokenizer)
    optimiser = torch.optim.AdamW(model.parameters(), stage.learning_rate, betas=(0.9, 0.98), weight_decay=0.05)
    batches = _batches(encoder, style, stage)
    model.train()
    for step in tqdm(range(stage.steps), desc=stage.name, mininterval=5):
        for group in optimiser.param_groups:
            group["lr"] = stage.learning_rate * _share(step, stage)
        optimiser.zero_grad()
        for _ in range(stage.batches):
            (_loss(model, next(batches), stage.observation_weight) / stage.batches).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    model.eval()


def _share(step: int, stage: Stage) -> float:
    """Of the learning rate: a warm-up of 50 steps, then all of it, over the last steps in a line down to a 33rd."""
    left = 1 - step / stage.steps
    return min(1.0, (step + 1) / 50) * (max(0.03, left / stage.decay) if left < stage.decay else 1.0)


def _batches(encoder: Encoder, style: PromptStyle, stage: Stage) -> Iterator[list[Row]]:
    """Without end, each of at most ``stage.batch_tokens`` tokens with its padding."""
    for seed in itertools.count(step=POOL):
        rows = [encoder.row(transcript(style, stage, seed + number)) for number in range(POOL)]
        batches = _packed(rows, stage.batch_tokens)
        random.Random(seed).shuffle(batches)
        yield from batches


def _packed(rows: list[Row], limit: int) -> list[list[Row]]:
    batches: list[list[Row]] = [[]]
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if batches[-1] and len(row.ids) * (len(batches[-1]) + 1) > limit:
            batches.append([])
        batches[-1].append(row)
    return batches


def _loss(model: Qwen3ForCausalLM, batch: list[Row], observation_weight: float) -> torch.Tensor:
    ids, kinds = padded([row.ids for row in batch]), padded([row.kinds for row in batch], OTHER)[:, 1:]
    chosen, seen = losses(model, ids, kinds == CHOSEN, kinds == SEEN)
    return chosen + observation_weight * seen
