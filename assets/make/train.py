"""Pre-training: next-token loss on actions, and a weighted one on observations."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from turngrid.assets.make.noisy_transcripts import Transcript, rename, thing_words
from turngrid.assets.make.tiny_recipe import TrainSettings

SEEN, CHOSEN, OTHER = range(3)  # kinds of token; OTHER has no loss
BUCKET = 128  # transcripts sorted by length together, so that a batch has little padding


@dataclass(frozen=True)
class Row:
    """Token ids of one transcript, and the kind of each token."""

    ids: list[int]
    kinds: list[int]


Update = tuple[float, Sequence[list[Row]]]  # a learning rate, and batches whose gradients are averaged


class Encoder:
    """Encodes message by message, as a rollout does, and caches messages: most of them repeat."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self._known = functools.lru_cache(maxsize=20_000)(self._encode)
        self._cue = len(self._encode("<|im_start|>assistant\n"))

    def row(self, messages: Transcript, chosen: Iterable[bool] = itertools.repeat(True)) -> Row:
        """Encode a transcript; ``chosen``: for each assistant message, whether it has a loss."""
        ids: list[int] = []
        kinds: list[int] = []
        learned = iter(chosen)
        for message in messages:
            tokens = self._known(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n")
            ids += tokens
            kinds += [SEEN] * len(tokens)
            if message["role"] == "assistant":  # up to and with its end token, but for the line break
                kind = CHOSEN if next(learned) else OTHER
                start = len(ids) - len(tokens) + self._cue
                kinds[start : len(ids) - 1] = [kind] * (len(tokens) - self._cue - 1)
        return Row(ids, kinds)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def new_model(tokenizer: PreTrainedTokenizerFast, max_length: int, seed: int) -> Qwen3ForCausalLM:
    """About a third of a million random parameters."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        intermediate_size=192,
        max_position_embeddings=max_length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config).float()


def pretrain(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    transcripts: Sequence[Transcript],
    settings: TrainSettings,
) -> None:
    """Train in place; each epoch renames things anew."""
    fit(model, _updates(Encoder(tokenizer), transcripts, settings), settings.observation_weight)


def fit(model: Qwen3ForCausalLM, updates: Iterable[Update], observation_weight: float) -> None:
    """Minimise the actions' mean loss plus ``observation_weight`` times the observations'."""
    optimiser = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.05)
    model.train()
    for rate, batches in updates:
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        for batch in batches:
            ids, kinds = _padded([row.ids for row in batch], 0), _padded([row.kinds for row in batch], OTHER)[:, 1:]
            hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
            chosen, seen = (
                F.cross_entropy(model.lm_head(hidden[kinds == kind]), ids[:, 1:][kinds == kind])
                for kind in (CHOSEN, SEEN)
            )
            ((chosen + observation_weight * seen) / len(batches)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    model.eval()


def _updates(encoder: Encoder, transcripts: Sequence[Transcript], settings: TrainSettings) -> Iterator[Update]:
    """Yield updates: linear warm-up, then a cosine down to a twentieth of the learning rate."""
    rng = random.Random(settings.seed)
    things = [thing_words(transcript) for transcript in transcripts]
    names = sorted(set().union(*things))
    for epoch in range(settings.epochs):
        rows = [
            encoder.row(rename(transcript, words, names, settings.rename_chance, rng))
            for transcript, words in zip(transcripts, things, strict=True)
        ]
        order = rng.sample(rows, len(rows))
        buckets = (order[start : start + BUCKET] for start in range(0, len(order), BUCKET))
        batches = [batch for bucket in buckets for batch in packed(bucket, settings.batch_tokens)]
        bar = tqdm(rng.sample(batches, len(batches)), desc=f"epoch {epoch + 1}/{settings.epochs}", mininterval=5)
        for index, batch in enumerate(bar):
            progress = (epoch + index / len(batches)) / settings.epochs
            cosine = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress))
            warm = min(1.0, (epoch * len(batches) + index + 1) / settings.warmup_steps)
            yield settings.learning_rate * warm * cosine, [batch]


def packed(rows: Sequence[Row], limit: int) -> list[list[Row]]:
    """Batch rows of similar length; a batch has at most ``limit`` tokens, padding included."""
    batches: list[list[Row]] = [[]]
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if batches[-1] and len(row.ids) * (len(batches[-1]) + 1) > limit:
            batches.append([])
        batches[-1].append(row)
    return batches


def _padded(rows: Sequence[Sequence[int]], filler: int) -> torch.Tensor:
    """Return (rows, width), padded on the right: causal attention then needs no mask."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)  # safetensors writes 0600, but other users install it
