"""Pre-training: next-token loss on the actions of transcripts, a tenth of it on what was observed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from experiments.tiny_model.recipe import TrainSettings
from experiments.tiny_model.rename import rename, thing_words
from experiments.tiny_model.transcripts import Transcript

BUCKET = 128  # transcripts sorted by length together, so that a batch pads little


@dataclass(frozen=True)
class Encoded:
    """Token ids of one transcript and, for each, whether the policy wrote it."""

    ids: list[int]
    acted: list[bool]


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


def encode(tokenizer: PreTrainedTokenizerFast, messages: Transcript) -> Encoded:
    """Render as in play: what follows the cue for the assistant, up to and with its end token, was acted."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False)
    ids = tokenizer.encode(text, add_special_tokens=False)
    cue = tokenizer.encode("<|im_start|>assistant\n", add_special_tokens=False)
    acted, inside = [False] * len(ids), False
    for place, token in enumerate(ids):
        acted[place] = inside
        if inside:
            inside = token != tokenizer.eos_token_id
        elif token == cue[-1]:
            inside = ids[place + 1 - len(cue) : place + 1] == cue
    return Encoded(ids, acted)


def pretrain(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    transcripts: Sequence[Transcript],
    settings: TrainSettings,
) -> list[float]:
    """Train in place; returns the mean loss on actions (nats a token) of each epoch."""
    rng = random.Random(settings.seed)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=settings.weight_decay
    )
    things = [thing_words(transcript) for transcript in transcripts]
    names, losses = sorted(set().union(*things)), []
    model.train()
    for epoch in range(settings.epochs):
        rows = [  # every episode with other names than last time
            encode(tokenizer, rename(transcript, words, names, settings.rename_chance, rng))
            for transcript, words in zip(transcripts, things, strict=True)
        ]
        losses.append(_epoch(model, optimiser, list(_batches(rows, settings.batch_tokens, rng)), settings, epoch))
    model.eval()
    return losses


def _batches(rows: list[Encoded], limit: int, rng: random.Random) -> Iterator[list[Encoded]]:
    """Batches of at most ``limit`` tokens with their padding, in random order, of rows of like length."""
    order = rng.sample(rows, len(rows))
    batches: list[list[Encoded]] = []
    for start in range(0, len(order), BUCKET):
        batch: list[Encoded] = []
        for row in sorted(order[start : start + BUCKET], key=lambda row: len(row.ids)):
            if batch and len(row.ids) * (len(batch) + 1) > limit:
                batches.append(batch)
                batch = []
            batch.append(row)
        batches.append(batch)
    yield from rng.sample(batches, len(batches))


def _epoch(
    model: Qwen3ForCausalLM,
    optimiser: torch.optim.Optimizer,
    batches: list[list[Encoded]],
    settings: TrainSettings,
    epoch: int,
) -> float:
    total = 0.0
    for index, batch in enumerate(tqdm(batches, desc=f"epoch {epoch + 1}/{settings.epochs}", mininterval=5)):
        progress = (epoch + index / len(batches)) / settings.epochs
        # linear warm-up, then a cosine from the learning rate to a twentieth of it
        cosine = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress))
        warm = min(1.0, (epoch * len(batches) + index + 1) / settings.warmup_steps)
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * warm * cosine
        total += _step(model, optimiser, batch, settings.observation_weight)
    return total / len(batches)


def _step(
    model: Qwen3ForCausalLM, optimiser: torch.optim.Optimizer, batch: list[Encoded], observation_weight: float
) -> float:
    """One update; returns the loss on actions."""
    ids = padded([row.ids for row in batch])
    acted = padded([row.acted for row in batch])[:, 1:].bool()
    real = torch.arange(1, ids.shape[1]) < torch.tensor([[len(row.ids)] for row in batch])
    action_loss, observation_loss = losses(model, ids, acted, real & ~acted)
    loss = action_loss + observation_weight * observation_loss
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return action_loss.item()


def padded(rows: Sequence[Sequence[int]], filler: int = 0) -> torch.Tensor:
    """(rows, width), filled on the right, so that causal attention needs no mask."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def losses(model: Qwen3ForCausalLM, ids: torch.Tensor, *chosen: torch.Tensor) -> list[torch.Tensor]:
    """The mean next-token loss (nats) over each choice of the next tokens, bool of shape (rows, width - 1)."""
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    return [F.cross_entropy(model.lm_head(hidden[mask]), ids[:, 1:][mask]) for mask in chosen]
