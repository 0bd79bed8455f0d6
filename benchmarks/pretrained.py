"""A pretrained model on CPUs: what bf16 gains, and how far the server's log-probs are from the
trainer's.

    python -m benchmarks.pretrained speed [--model FOLDER] [--episodes 64] [--turns 4]
    python -m benchmarks.pretrained mismatch --model FOLDER --file EPISODES [--temperature 0.7]

``speed`` runs in one thread, in fp32 and bf16 in turn, beside plain transformers in fp32, and
counts CPU seconds of passes as in a run of SmolLM2-135M; without a model it makes one of that shape
with random weights. Shares are of the rate at which this machine multiplies matrices of the model's
MLP. Plain transformers reads each prompt from its beginning and computes logits at every token.
``mismatch`` reads episodes that the rollout server sampled with this model, in the same precision.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tensordict import TensorDict
from torch.nn.functional import linear
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from turngrid.rollouts.episode import Episode
from turngrid.rollouts.sampling import SampleRequest
from turngrid.rollouts.store import read_episodes

SHAPE: dict[str, Any] = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
PROMPT, OBSERVED, SAMPLED = 160, 40, 8  # tokens of a first message, of an observation, of an answer
GROUP = 8
TINY = Path(__file__).parents[1] / "assets" / "tiny"
ALONE = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": ""}


def random_model(folder: Path) -> str:
    AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SHAPE)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(folder)
    return str(folder)


def make_engine(model: str, precision: str) -> Any:
    """Build the policy's engine as verl's worker builds it."""
    os.environ |= {**ALONE, "MASTER_PORT": "0", "VERL_PLATFORM": "cpu"}
    from verl.trainer.config import CheckpointConfig
    from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
    from verl.workers.engine import EngineRegistry

    from turngrid import verl_plugin  # noqa: F401 - registers our engines

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    engine = EngineRegistry.new(
        model_type="language_model",
        backend="fsdp2",
        model_config=HFModelConfig(
            path=model,
            use_remove_padding=False,
            enable_gradient_checkpointing=True,
            override_config={"attn_implementation": "sdpa"},
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2", use_torch_compile=False, mixed_precision={"param_dtype": precision}
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-6, total_training_steps=10),
        checkpoint_config=CheckpointConfig(),
    )
    engine.initialize()
    return engine


def batch_of(rows: list[list[int]], masks: list[list[int]], temperature: float = 1.0) -> TensorDict:
    """Return rows as the trainer gets them; a mask covers the response at the end of its row."""
    from verl.utils import tensordict_utils as tu

    def jagged(columns: list[list[int]]) -> torch.Tensor:
        return torch.nested.as_nested_tensor([torch.tensor(column) for column in columns], layout=torch.jagged)

    masked = jagged(masks)
    columns = {"input_ids": jagged(rows), "position_ids": jagged([list(range(len(row))) for row in rows])}
    batch = TensorDict({**columns, "response_mask": masked, "loss_mask": masked}, batch_size=len(rows))
    settings = {"use_remove_padding": False, "use_dynamic_bsz": False, "micro_batch_size_per_gpu": GROUP}
    tu.assign_non_tensor(batch, temperature=temperature, **settings)
    return batch


# ---- mismatch


def mismatch(model: str, file: Path, precision: str, temperature: float) -> None:
    """Print mean and 99 % of |server - trainer| by turn, in nats and in probability."""
    episodes = [episode for episode in read_episodes(file) if episode.turns]
    rows = [[*episode.prompt_ids, *response(episode)[0]] for episode in episodes]
    batch = batch_of(rows, [response(episode)[1] for episode in episodes], temperature)
    engine = make_engine(model, precision)
    with engine.eval_mode():
        found = engine.infer_batch(batch)["model_output"]["log_probs"].unbind()
    by_turn: dict[int, list[tuple[float, float]]] = defaultdict(list)  # of each token: server's and trainer's
    for episode, log_probs in zip(episodes, found, strict=True):
        place = len(episode.prompt_ids) - 1  # the token at place t is judged at place t - 1
        for number, turn in enumerate(episode.turns, 1):
            judged = log_probs[place : place + len(turn.action_ids)].tolist()
            by_turn[number] += zip(turn.logprobs, judged, strict=True)
            place += len(turn.action_ids) + len(turn.context_ids)
    everything = [pair for pairs in by_turn.values() for pair in pairs]
    for name, pairs in [*by_turn.items(), ("all", everything)]:
        server, trainer = np.array(pairs).T
        nats, shares = np.abs(server - trainer), np.abs(np.exp(server) - np.exp(trainer))
        told = (f"mean {apart.mean():.5f}, 99 % {np.quantile(apart, 0.99):.4f}" for apart in (nats, shares))
        print(f"turn {name}: {len(pairs)} tokens, nats {next(told)}, probability {next(told)}")


def response(episode: Episode) -> tuple[list[int], list[int]]:
    """Return the ids after the prompt, and 1 for each that was sampled."""
    parts = [(ids, own) for turn in episode.turns for ids, own in ((turn.action_ids, 1), (turn.context_ids, 0))]
    return [i for ids, _ in parts for i in ids], [own for ids, own in parts for _ in ids]


# ---- speed


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def matmul_rate(dtype: torch.dtype) -> float:
    """Return FLOP/s of the MLP's largest matrix with 1,024 tokens, the best of ten."""
    inputs = torch.randn(1024, SHAPE["hidden_size"], dtype=dtype)
    weight = torch.randn(SHAPE["intermediate_size"], SHAPE["hidden_size"], dtype=dtype)
    best = min(seconds(lambda: linear(inputs, weight)) for _ in range(10))
    return 2 * inputs.numel() * len(weight) / best


@dataclass(frozen=True)
class Work:
    """Token ids of episodes after each turn, and masks of the sampled ones at the end."""

    rows: list[list[list[int]]]
    masks: list[list[int]]
    first: int  # tokens of the distinct first prompts

    @property
    def sampled(self) -> int:
        return sum(map(sum, self.masks))


def work(episodes: int, turns: int) -> Work:
    """Groups of ``GROUP`` episodes with one first prompt, and random tokens after it."""
    draw = np.random.default_rng(0)
    first = [draw.integers(10, 1000, PROMPT).tolist() for _ in range(-(-episodes // GROUP))]
    rows = [[first[index // GROUP] for index in range(episodes)]]
    for _ in range(turns):
        rows.append([row + draw.integers(10, 1000, SAMPLED + OBSERVED).tolist() for row in rows[-1]])
    masks = [([1] * SAMPLED + [0] * OBSERVED) * turns] * episodes
    return Work(rows, masks, PROMPT * len(first))


def speed(model: str, precision: str, work: Work) -> dict[str, tuple[float, float]]:
    """Return FLOP and CPU seconds of each part; FLOP of all matrices, without attention."""
    from turngrid.verl_plugin.servers.transformers_server.generator import Generator

    generator = Generator.from_pretrained(model, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[precision])
    config = generator.model.config
    head = 2.0 * config.hidden_size * config.vocab_size
    body = 2.0 * sum(p.numel() for p in generator.model.parameters()) - head * (1 if config.tie_word_embeddings else 2)
    prefill, decode = 0.0, 0.0
    *prompts, rows = work.rows
    for turn in prompts:
        for limit in (1, SAMPLED):  # one token costs the prefill alone, and its prompt is then cached
            asked = [SampleRequest(f"{index}", row, limit, 1.0, seed=index) for index, row in enumerate(turn)]
            taken = seconds(lambda asked=asked: generator.generate(asked))
            prefill, decode = (prefill + taken, decode) if limit == 1 else (prefill, decode + taken)
    made = len(rows) * len(prompts) * SAMPLED
    fed = work.first + len(rows) * (len(prompts) - 1) * (SAMPLED + OBSERVED)
    engine, batch = make_engine(model, precision), batch_of(rows, work.masks)
    flop = body * (work.first + sum(map(len, work.masks))) + head * work.sampled
    with engine.eval_mode():
        passed = seconds(lambda: engine.infer_batch(batch))
    with engine.train_mode():
        engine.optimizer_zero_grad()
        updated = seconds(lambda: (engine.forward_backward_batch(batch, sum_of_log_probs), engine.optimizer_step()))
    return {
        "prefill": (body * fed + head * len(rows) * len(prompts), prefill),
        "decode": ((body + head) * made, decode),
        "log-probs": (flop, passed),
        "update": (3 * flop, updated),
    }


def plain(model: str, work: Work) -> dict[str, float]:
    """Return CPU seconds of the same turns and update by plain transformers in fp32."""
    made = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-6)
    *prompts, rows = work.rows
    settings = {"do_sample": True, "eos_token_id": None, "pad_token_id": 0}
    prefill = decode = passed = updated = 0.0
    for turn in prompts:
        ids = torch.tensor(turn)
        one, all_ = (
            seconds(
                lambda ids=ids, limit=limit: made.generate(ids, max_new_tokens=limit, min_new_tokens=limit, **settings)
            )
            for limit in (1, SAMPLED)
        )
        prefill, decode = prefill + one, decode + all_ - one
    for start in range(0, len(rows), 4):
        ids = torch.tensor(rows[start : start + 4])

        def loss(ids: torch.Tensor = ids) -> torch.Tensor:
            return made(ids).logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None]).mean()

        with torch.no_grad():
            passed += seconds(loss)
        updated += seconds(lambda loss=loss: loss().backward())
    return {"prefill": prefill, "decode": decode, "log-probs": passed, "update": updated + seconds(optimizer.step)}


def sum_of_log_probs(model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[torch.Tensor, dict[str, Any]]:
    return -model_output["log_probs"].values().sum() / data["batch_num_tokens"], {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "mismatch"])
    parser.add_argument("--model")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--temperature", type=float, default=1.0, help="at which the episodes were sampled")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=4)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or random_model(Path(folder))
        episodes = work(given.episodes, given.turns)
        base = plain(model, episodes) if given.what == "speed" else {}
        for precision in given.precision:
            if given.what == "mismatch":
                print(precision)
                mismatch(model, given.file, precision, given.temperature)
                continue
            rate = matmul_rate({"fp32": torch.float32, "bf16": torch.bfloat16}[precision])
            print(f"{precision}: matrices {rate / 1e9:.0f} GFLOP/s")
            parts = speed(model, precision, episodes)
            for part, (flop, taken) in parts.items():
                share, times = flop / taken / rate, base[part] / taken
                print(f"  {part}: {taken:.2f} CPU s, {share:.2f} of the rate of matrices, {times:.1f} times plain fp32")
            decoding = parts["decode"][1] / given.turns / SAMPLED
            print(f"  a step of decoding {given.episodes} rows: {1e3 * decoding:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
