"""What a run needs of the memory of GPUs, here or elsewhere: arithmetic that no measurement has been fitted to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from omegaconf import DictConfig

from config.lora import adapter_parameters
from config.method_settings import has_critic
from records.models import gpus as cards
from records.models.gpus import GB
from records.models.shape import Shape

WEIGHTS, GRADIENTS, ADAM = 4, 4, 8  # bytes a trained parameter, fp32
WEIGHT_BYTES = 2  # of the rollout server
KV_BYTES = 2  # of a number in its cache
SERVER_BYTES = 1 * GB  # of vLLM's share that neither weights nor cache get: activations, CUDA graphs
CONTEXT_BYTES = 2 * GB  # of CUDA and NCCL, trainer and server together
ON_ITS_WAY = 8  # bytes a number of the embedding and the head, which a pass gathers whole where the rest is offloaded
ASSUMPTIONS = (
    f"memory of a GPU: {WEIGHTS + GRADIENTS + ADAM} bytes a trained parameter (weights, gradients, Adam in fp32), with LoRA "
    f"{WEIGHTS} a frozen one, sharded over all GPUs, the gradients only while training; a frozen reference waits in the machine's "
    "memory; vLLM has its share while it samples, rollout=transformers keeps its weights throughout; activations by ppo_max_token_len_per_gpu; "
    f"{CONTEXT_BYTES / GB:g} GB for CUDA; no measurement has been fitted to it"
)


@dataclass(frozen=True)
class Demand:
    """What a config asks of each GPU.

    Attributes:
        tokens: of a training pass. row: of the longest row, prompt and response. sft_tokens: of a pass of SFT, 0 without.
        share: of the GPU, vLLM's; 0: ``rollout=transformers``. parallel: GPUs that share a server's weights.
        trained: models, with the critic; 0: no RL. adapter: parameters of the policy's LoRA; 0: all of its own are trained.
        kept: bytes of activations a token, layer and hidden unit: a layer's input, or all.
        optimizer, weights: what waits in the machine's memory while the model plays; ``policy``: all, and while it trains too.
    """

    tokens: int
    row: int
    sft_tokens: int
    share: float
    parallel: int
    trained: int
    adapter: int
    kept: int
    optimizer: bool
    weights: bool
    policy: bool


def demand(config: DictConfig, shape: Shape) -> Demand:
    actor, rollout, critic = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, has_critic(config)
    engines = [actor.fsdp_config, *([config.critic.fsdp] if critic else [])]
    row = int(config.data.max_prompt_length) + int(config.data.max_response_length)
    rows = int(actor.ppo_micro_batch_size_per_gpu or 1)
    return Demand(
        tokens=int(actor.ppo_max_token_len_per_gpu) if actor.use_dynamic_bsz else rows * row,
        row=row,
        sft_tokens=max(int(config.model.sft.tokens_per_pass), row) if config.budget.sft_share > 0 else 0,
        share=0.0 if rollout.name == "transformers" else float(rollout.gpu_memory_utilization),
        parallel=int(rollout.tensor_model_parallel_size),
        trained=(1 + critic) if config.budget.sft_share < 1 else 0,
        adapter=adapter_parameters(config, shape),
        kept=2 if config.actor_rollout_ref.model.enable_gradient_checkpointing else 34,
        optimizer=all(engine.optimizer_offload for engine in engines),
        weights=all(engine.param_offload for engine in engines),
        policy=all(engine.offload_policy for engine in engines),
    )


def memory_bytes(config: DictConfig, gpus: tuple[str, int], shape: Shape) -> float:
    """The peak of one GPU of several, named as ``records.models.gpus.parse`` does."""
    return _peak(demand(config, shape), gpus, shape)


def _peak(asked: Demand, gpus: tuple[str, int], shape: Shape) -> float:
    """Training, playing beside what is not offloaded, or SFT. verl 0.9.1 sets gradients to None after each update, and its FSDP2
    engine keeps a frozen model on the CPU."""
    playing = _states(asked, gpus[1], shape, playing=True) + asked.share * cards.gpu(gpus[0]).memory
    training = _states(asked, gpus[1], shape) + _activations(asked.tokens, asked, shape)
    imitating = _states(replace(asked, trained=1), gpus[1], shape) + _activations(asked.sft_tokens, asked, shape)
    server = WEIGHT_BYTES * shape.parameters if not asked.share else 0
    phases = [max(training, playing) + server] * bool(asked.trained) + [imitating] * bool(asked.sft_tokens)
    return max(phases, default=0.0) + CONTEXT_BYTES


def _states(asked: Demand, gpus: int, shape: Shape, playing: bool = False) -> float:
    """Weights, gradients and Adam of what is trained, as far as they lie on the GPU."""
    if asked.policy:
        return 0.0 if playing else ON_ITS_WAY * 2.0 * shape.vocabulary * shape.hidden
    if not playing:
        return _training_bytes(asked, shape) / gpus
    weights, learned = _numbers(asked, shape)
    return (ADAM * (not asked.optimizer) * learned + WEIGHTS * (not asked.weights) * weights) / gpus


def _training_bytes(asked: Demand, shape: Shape) -> float:
    """On all GPUs together."""
    weights, learned = _numbers(asked, shape)
    return float(WEIGHTS * weights + (GRADIENTS + ADAM) * learned)


def _numbers(asked: Demand, shape: Shape) -> tuple[int, int]:
    """Parameters that are there, and those of them that are trained: of policy and critic, or of the policy alone in SFT."""
    critic = max(0, asked.trained - 1) * shape.parameters
    return shape.parameters + asked.adapter + critic, (asked.adapter or shape.parameters) + critic


def _activations(tokens: int, asked: Demand, shape: Shape) -> float:
    return tokens * (asked.kept * shape.layers * shape.hidden + 8.0 * shape.vocabulary)


def host_bytes(config: DictConfig, shape: Shape) -> float:
    """Of the machine's memory, what is trained takes where it is offloaded for good."""
    asked = demand(config, shape)
    return _training_bytes(asked, shape) * asked.policy


def problems(config: DictConfig, gpus: tuple[str, int], shape: Shape) -> list[str]:
    """What does not fit, each in words; the last one ends with settings that were checked to fit, where there are any."""
    found = list(_lacking(demand(config, shape), gpus, shape))
    return [*found[:-1], f"{found[-1]}; {_advice(config, gpus, shape)}"] if found else []


def _lacking(asked: Demand, gpus: tuple[str, int], shape: Shape) -> Iterator[str]:
    need, room = _peak(asked, gpus, shape), cards.gpu(gpus[0]).memory
    if need > room:
        yield f"memory: {need / GB:.0f} GB a GPU needed, {room / GB:.0f} GB there"
    if not asked.share or not asked.trained:
        return
    share, weights = asked.share * room, WEIGHT_BYTES * shape.parameters / asked.parallel
    cache = asked.row * KV_BYTES * shape.cached_numbers / asked.parallel
    if share < weights + cache + SERVER_BYTES:
        yield (
            f"memory: the rollout server has {share / GB:.1f} GB and needs {weights / GB:.1f} for its weights, {SERVER_BYTES / GB:.1f} "
            f"to compute and {cache / GB:.1f} for one episode of {asked.row} tokens"
        )


ACTOR, CRITIC = "actor_rollout_ref.actor.fsdp_config", "critic.fsdp"
KEYS: dict[str, Callable[[object, bool], list[str]]] = {
    "tokens": lambda value, critic: [
        f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu={value}",
        *([f"critic.ppo_infer_max_token_len_per_gpu={value}"] if critic else []),
    ],
    "share": lambda value, critic: [f"actor_rollout_ref.rollout.gpu_memory_utilization={value}"],
    "parallel": lambda value, critic: [f"actor_rollout_ref.rollout.tensor_model_parallel_size={value}"],
    "optimizer": lambda value, critic: _offloads("optimizer_offload", critic),
    "policy": lambda value, critic: _offloads("offload_policy", critic),
}


def _offloads(key: str, critic: bool) -> list[str]:
    return [f"{engine}.{key}=true" for engine in (ACTOR, *([CRITIC] if critic else []))]


def _advice(config: DictConfig, gpus: tuple[str, int], shape: Shape) -> str:
    """The first change that fits, of those that cost little speed first."""
    asked, critic = demand(config, shape), has_critic(config)
    for change in _changes(asked, gpus[1]):
        if change and next(_lacking(replace(asked, **change), gpus, shape), None) is None:
            words = [word for key, value in change.items() for word in KEYS[key](value, critic)]
            host = _training_bytes(asked, shape) / GB
            slow = f" (slow, and {host:.0f} GB of the machine's memory)" if "policy" in change else ""
            return f"what fits: {' '.join(words)}{slow}"
    return "no batch size and no offloading makes it fit: take more or larger GPUs, or a smaller model"


def _changes(asked: Demand, gpus: int) -> Iterator[dict[str, Any]]:
    """Tokens of a pass first, since they change least; then vLLM's share, its GPUs, and what is offloaded."""
    tokens = [size for size in (24576, 16384, 12288, 8192, 6144, 4096, 2048) if asked.row <= size < asked.tokens]
    shares = [share for share in (0.6, 0.5, 0.4, 0.3, 0.7, 0.8) if asked.share and share != asked.share]
    parallel = [size for size in (2, 4, 8) if size > asked.parallel and gpus % size == 0 and asked.share]
    offloads = ({}, {"optimizer": True}, {"policy": True})
    for offload, wide, share, size in itertools.product(offloads, (None, *parallel), (None, *shares), (None, *tokens)):
        chosen = {"parallel": wide, "share": share, "tokens": size}
        yield {**offload, **{key: value for key, value in chosen.items() if value is not None}}
