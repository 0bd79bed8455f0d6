"""Sampled tokens a second: our generator, with and without kept prefixes, against plain
``model.generate``.

    python -m benchmarks.generation [--episodes 64] [--turns 12] [--repeats 3] [--model FOLDER]
    [--out FILE.json]

64 episodes grow by about 40 observation tokens a turn from prompts of about 130, and sample 2 to 9
tokens. All sides get the same turns on one thread; ``model.generate`` gets one left-padded batch a
turn and its usual cache within the turn. They are measured in turns, so that a busy machine is busy
for all; processor time is compared. Without ``--model`` the weights are random, in the shape of
``model=tiny``.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from turngrid.verl_plugin.servers.transformers_server.generator import PREFIX_BYTES, Generator, SampleRequest

SHAPE: dict[str, Any] = {
    "vocab_size": 1700,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "intermediate_size": 192,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class TurnBatch:
    """One turn of all episodes: ids so far and how many tokens each may sample."""

    prompts: list[list[int]]
    limits: list[int]


def make_turns(episodes: int, turns: int, vocabulary: int) -> list[TurnBatch]:
    """Return turns whose text does not depend on what is sampled, so that both sides have the same
    work. No id is an end of turn."""
    rng = random.Random(0)

    def some(low: int, high: int) -> list[int]:
        return [rng.randrange(10, vocabulary) for _ in range(rng.randrange(low, high))]

    ids, batches = [some(100, 160) for _ in range(episodes)], []
    for _ in range(turns):
        limits = [rng.randrange(2, 10) for _ in range(episodes)]
        batches.append(TurnBatch([list(row) for row in ids], limits))
        ids = [row + some(limit, limit + 1) + some(30, 51) for row, limit in zip(ids, limits, strict=True)]
    return batches


def run_ours(generator: Generator, batches: Sequence[TurnBatch]) -> None:
    generator.memory.clear()
    for turn, batch in enumerate(batches):
        generator.generate(
            [
                SampleRequest(f"episode-{i}", ids, limit, temperature=1.0, seed=1000 * turn + i)
                for i, (ids, limit) in enumerate(zip(batch.prompts, batch.limits, strict=True))
            ]
        )


@torch.inference_mode()
def run_plain(model: Any, batches: Sequence[TurnBatch]) -> None:
    """Sample with plain ``generate``, whose scores give the log-probabilities.

    A batch has one limit, so short rows sample on with the longest.
    """
    for batch in batches:
        width = max(map(len, batch.prompts))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in batch.prompts])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in batch.prompts])
        output = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=max(batch.limits),
            do_sample=True,
            top_k=0,
            pad_token_id=0,
            eos_token_id=None,
            output_scores=True,
            return_dict_in_generate=True,
        )
        model.compute_transition_scores(output.sequences, output.scores, normalize_logits=True).tolist()


def measure(function: Callable[[], None]) -> tuple[float, float]:
    """Return processor seconds and wall seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.process_time() - cpu, time.perf_counter() - wall


def compare(sides: dict[str, Callable[[], None]], repeats: int) -> dict[str, tuple[float, float]]:
    """Return the median processor and wall seconds of each side; the sides take turns."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, function in sides.items():
            seen[name].append(measure(function))
    return {name: tuple(map(statistics.median, zip(*times, strict=True))) for name, times in seen.items()}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", help="a model folder")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(args.model) if args.model else Qwen3ForCausalLM(Qwen3Config(**SHAPE))
    model = model.float().eval()
    batches = make_turns(args.episodes, args.turns, model.config.vocab_size)
    # copies, since a generator gives its model an attention of its own
    ours, forgetful = (Generator(copy.deepcopy(model), [], prefix_bytes=size) for size in (PREFIX_BYTES, 0))
    sides: dict[str, Callable[[], None]] = {
        "ours": lambda: run_ours(ours, batches),
        "without_prefixes": lambda: run_ours(forgetful, batches),
        "plain": lambda: run_plain(model, batches),
    }
    for run, one in ((run_ours, ours), (run_ours, forgetful), (run_plain, model)):
        run(one, batches[:2])  # warm-up
    times = compare(sides, args.repeats)
    tokens = sum(sum(batch.limits) for batch in batches)
    result: dict[str, Any] = {"episodes": args.episodes, "turns": args.turns, "sampled_tokens": tokens}
    for name, (cpu, wall) in times.items():
        result[name] = {
            "cpu_seconds": round(cpu, 2),
            "wall_seconds": round(wall, 2),
            "tokens_per_cpu_second": round(tokens / cpu, 1),
            "times_plain": round(times["plain"][0] / cpu, 2),
        }
    print(json.dumps(result, indent=2))
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
