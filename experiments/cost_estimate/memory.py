"""What a run needs of the memory of GPUs, or of this machine if it computes on CPUs, and settings that would fit.

One check for ``estimate=true`` and for a start.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import psutil
from omegaconf import DictConfig, OmegaConf

from config import cards
from config.finalise import rows_per_device
from config.lora import adapter_parameters
from config.method_settings import has_critic
from records.models import gpus
from records.models.gpus import GB
from records.models.shape import Shape, has_experts, linears, settings_of
from records.run_folder import flattened

WEIGHTS, GRADIENTS, ADAM = 4, 4, 8  # bytes a trained parameter, fp32
KV_BYTES = 2  # of a number in vLLM's cache
SERVER_BYTES = 1 * GB  # of vLLM's share that neither weights nor cache get: activations, CUDA graphs
GATHERED = 8  # bytes a number of embedding and head, which a pass gathers whole if the rest is offloaded
USABLE = 0.95  # of a machine's memory
RANK = 16  # of the LoRA that is suggested
MODEL, ACTOR, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("model", "actor", "rollout"))
TOKENS, MICRO, SFT = f"{ACTOR}.ppo_max_token_len_per_gpu", "ppo_micro_batch_size_per_gpu", "model.sft.tokens_per_pass"
SHARE, PARALLEL = f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.tensor_model_parallel_size"


@dataclass(frozen=True)
class Device:
    """Bytes on a kind of device: ``server`` a parameter of the rollout server's weights; ``kept`` of activations a
    token, layer and hidden unit, ``inputs`` with gradient checkpointing; ``logit`` with its gradient; ``rest``."""

    server: int
    kept: int
    inputs: int
    logit: int
    rest: float


GPU = Device(server=2, kept=34, inputs=2, logit=8, rest=2 * GB)  # bf16; CUDA and NCCL
CPU = Device(server=4, kept=92, inputs=4, logit=12, rest=3 * 2**30)  # fp32; seven processes import torch


@dataclass(frozen=True)
class Place:
    """Where a run would compute: ``number`` devices of ``memory`` usable bytes each."""

    name: str
    number: int
    memory: float


def place(config: DictConfig) -> Place | None:
    """None if nothing says how much memory the GPUs have."""
    if config.estimate_gpu:
        name, number = gpus.parse(config.estimate_gpu)
        return Place(name, number, gpus.gpu(name).memory)
    if config.trainer.device == "cpu":
        return Place("this machine", 1, USABLE * psutil.virtual_memory().total)
    name, number = cards.name_of(config), int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    return Place(name, number, gpus.gpu(name).memory) if cards.is_known(config) else None


@dataclass(frozen=True)
class Demand:
    """What a run asks of each device of a place.

    Attributes:
        keys: the config's values by their full names.
        critic: models beside the policy that are trained: 0 or 1.
        adapter: parameters of the policy's LoRA; 0 if all of its own are trained.
    """

    keys: Mapping[str, Any]
    shape: Shape
    where: Place
    critic: int
    adapter: int

    @property
    def on_cpu(self) -> bool:
        return bool(self.keys["trainer.device"] == "cpu")

    @property
    def device(self) -> Device:
        return CPU if self.on_cpu else GPU

    @property
    def row(self) -> int:
        """Tokens of the longest row."""
        return int(self.keys["data.max_prompt_length"] + self.keys["data.max_response_length"])

    @property
    def share(self) -> float:
        """vLLM's, of a GPU; 0 with ``rollout=transformers``."""
        return 0.0 if self.keys[f"{ROLLOUT}.name"] == "transformers" else float(self.keys[SHARE])

    def engines(self, key: str) -> bool:
        """Whether a setting is on in the engines of all models that are trained."""
        nodes = [f"{ACTOR}.fsdp_config", "critic.fsdp"][: 1 + self.critic]
        return all(self.keys[f"{node}.{key}"] for node in nodes)

    def models(self, critic: int) -> tuple[int, int]:
        """Parameters of the policy and ``critic`` models beside it, and those of them that are trained."""
        others = critic * self.shape.parameters
        return self.shape.parameters + self.adapter + others, (self.adapter or self.shape.parameters) + others

    def states(self, critic: int) -> float:
        """Bytes of weights, gradients and Adam on all devices together."""
        weights, trained = self.models(critic)
        return float(WEIGHTS * weights + (GRADIENTS + ADAM) * trained)

    def peak(self) -> float:
        """Bytes that one device needs: the most of SFT, sampling and training."""
        keys, share, played = self.keys, self.keys["budget.sft_share"], 1.0
        tokens = keys[TOKENS] if keys[f"{ACTOR}.use_dynamic_bsz"] else self.row * (keys[f"{ACTOR}.{MICRO}"] or 1)
        if self.on_cpu:  # the RL stage computes logits of action tokens alone
            played = min(1.0, keys["env.max_turns"] * keys["env.max_action_tokens"] / self.row)
        sft = self._training(0, max(keys[SFT], self.row)) if share > 0 else 0.0
        rl = max(self._training(self.critic, tokens, played), self._sampling()) + self._frozen() if share < 1 else 0.0
        return max(sft, rl) + self.device.rest

    def _training(self, critic: int, tokens: int, with_logits: float = 1.0) -> float:
        shape, device = self.shape, self.device
        kept = device.inputs if self.keys[f"{MODEL}.enable_gradient_checkpointing"] else device.kept
        states = self.states(critic) / self.where.number
        if self.engines("offload_policy"):
            states = GATHERED * 2.0 * shape.vocabulary * shape.hidden
        return states + tokens * (kept * shape.layers * shape.hidden + with_logits * device.logit * shape.vocabulary)

    def _sampling(self) -> float:
        """The server beside what is not offloaded. verl 0.9.1 sets gradients to None after each update."""
        weights, trained = self.models(self.critic)
        kept = WEIGHTS * (not self.engines("param_offload")) * weights
        kept += ADAM * (not self.engines("optimizer_offload")) * trained
        return kept * (not self.engines("offload_policy")) / self.where.number + self.share * self.where.memory

    def _frozen(self) -> float:
        """A server without vLLM, and on CPUs the reference; verl's FSDP2 engine keeps it off the GPUs."""
        wanted = self.keys[f"{ACTOR}.use_kl_loss"] or self.keys["algorithm.use_kl_in_reward"]
        reference = bool(self.on_cpu and wanted and not self.adapter)
        return float((self.device.server * (not self.share) + WEIGHTS * reference) * self.shape.parameters)

    def lacking(self) -> Iterator[str]:
        """What does not fit."""
        memory = self.where.memory
        if (need := self.peak()) > memory:
            each = "" if self.on_cpu else "a GPU "
            yield f"memory: {need / GB:.0f} GB {each}needed, {memory / GB:.0f} GB there"
        if not self.share or self.keys["budget.sft_share"] == 1:
            return
        share, parallel = self.share * memory, self.keys[PARALLEL]
        weights = self.device.server * self.shape.parameters / parallel
        cache = self.row * KV_BYTES * self.shape.cached_numbers / parallel
        if share < weights + cache + SERVER_BYTES:
            yield (
                f"memory: the rollout server has {share / GB:.1f} GB and needs {weights / GB:.1f} for its weights, "
                f"{SERVER_BYTES / GB:.1f} to compute and {cache / GB:.1f} for one episode of {self.row} tokens"
            )


def demand(config: DictConfig, shape: Shape, where: Place) -> Demand:
    keys = dict(flattened(OmegaConf.to_container(config, resolve=True)))
    return Demand(keys, shape, where, int(has_critic(config)), adapter_parameters(config, shape))


def problems(config: DictConfig, shape: Shape, where: Place) -> list[str]:
    """What does not fit; the last one ends with settings that were checked to fit, if there are any."""
    asked = demand(config, shape, where)
    found = list(asked.lacking())
    there, needed = psutil.virtual_memory().total * int(config.trainer.nnodes), asked.states(asked.critic)
    if asked.engines("offload_policy") and not config.estimate_gpu and needed > USABLE * there:
        words = f"offload_policy keeps {needed / GB:.0f} GB in the machine's memory"
        found.append(f"{words}, which has {there / GB:.0f}")
    return [*found[:-1], f"{found[-1]}; {_advice(config, asked)}"] if found else []


def _advice(config: DictConfig, asked: Demand) -> str:
    """The first sizes that fit as it is; else with each means that makes it fit."""
    own, *others = (_first(config, asked, means) for means in _means(config, asked))
    if fitting := [own] if own else [change for change in others if change]:
        return f"what fits: {'; or '.join(fitting)}"
    return "no batch size, LoRA or offloading makes it fit: take more or larger devices, or a smaller model"


def _means(config: DictConfig, asked: Demand) -> Iterator[tuple[dict[str, Any], int, str]]:
    """Settings, parameters of LoRA's adapters, and a remark: first none, then LoRA, then offloading."""
    yield {}, asked.adapter, ""
    layers = linears(config.model.path)
    if layers and not asked.adapter and not has_experts(settings_of(config.model.path) or {}):
        yield {"model.lora_rank": RANK}, RANK * sum(layers.values()), ""
    nodes = [f"{ACTOR}.fsdp_config", "critic.fsdp"][: 1 + asked.critic]
    host = f" (slow, and {asked.states(asked.critic) / GB:.0f} GB of the machine's memory)"
    for key, cost in (("optimizer_offload", ""), ("offload_policy", host)):
        if not asked.on_cpu:
            yield {f"{node}.{key}": True for node in nodes}, asked.adapter, cost


def _first(config: DictConfig, asked: Demand, means: tuple[dict[str, Any], int, str]) -> str | None:
    """What to type for the first sizes with which these means fit."""
    settings, adapter, cost = means
    for sizes in _sizes(config, asked):
        change = {**settings, **sizes}
        if change and not any(replace(asked, keys={**asked.keys, **change}, adapter=adapter).lacking()):
            typed = (f"{key}={str(value).lower()}" for key, value in change.items())
            return " ".join(typed) + cost
    return None


def _sizes(config: DictConfig, asked: Demand) -> Iterator[dict[str, Any]]:
    """Tokens of a pass change least and vary fastest; then SFT's, vLLM's share and the GPUs of a server."""
    keys = asked.keys
    shares = [share for share in (0.6, 0.5, 0.4, 0.3, 0.7, 0.8) if asked.share and share != asked.share]
    parallel = [n for n in (2, 4, 8) if n > keys[PARALLEL] and asked.where.number % n == 0 and asked.share]
    sft = [asked.row] if keys["budget.sft_share"] > 0 and keys[SFT] > asked.row else []
    plain = [{PARALLEL: n} for n in parallel], [{SHARE: share} for share in shares], [{SFT: n} for n in sft]
    for chosen in itertools.product(*([{}, *values] for values in (*plain, [*_passes(config, asked)]))):
        yield {key: value for part in chosen for key, value in part.items()}


def _passes(config: DictConfig, asked: Demand) -> Iterator[dict[str, int]]:
    """Smaller passes, by tokens or by rows."""
    if asked.keys[f"{ACTOR}.use_dynamic_bsz"]:
        for size in (24576, 16384, 12288, 8192, 6144, 4096, 2048):
            if asked.row <= size < asked.keys[TOKENS]:
                yield {TOKENS: size} | ({"critic.ppo_infer_max_token_len_per_gpu": size} if asked.critic else {})
        return
    for rows in range(int(asked.keys[f"{ACTOR}.{MICRO}"] or 1) - 1, 0, -1):
        if rows_per_device(config) % rows == 0:
            yield {f"{node}.{MICRO}": rows for node in (ACTOR, "critic")[: 1 + asked.critic]}
