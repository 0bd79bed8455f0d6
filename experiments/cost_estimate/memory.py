"""Memory that a run needs, on GPUs or (if it computes on CPUs) on this machine.

If a run does not fit, this module suggests settings that do. ``estimate=true`` and the start of a
run make the same check.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import psutil
from omegaconf import DictConfig, OmegaConf

from turngrid.config import machine
from turngrid.config.finalise import rows_per_device
from turngrid.config.lora import adapter_parameters
from turngrid.config.method_settings import has_critic
from turngrid.records.models import checkpoint_cost, gpus
from turngrid.records.models.gpus import GB
from turngrid.records.models.shape import Shape, has_experts, linears, settings_of
from turngrid.records.run_folder import flattened

WEIGHTS, GRADIENTS, ADAM = 4, 4, 8  # bytes a trained parameter, fp32
KV_BYTES = 2  # bytes of each value in vLLM's KV cache
SERVER_BYTES = 1 * GB  # part of vLLM's share for activations and CUDA graphs
FUSED, CHUNK = 24, 512  # bytes a logit and tokens at a time of verl's fused kernels (FusedLinearForPPO)
GATHERED = 8  # bytes a parameter of embedding and head, gathered whole if the rest is offloaded
USABLE = 0.95  # share of a machine's memory
LORA, RANK = "model.lora_rank", 16  # the suggested setting
MODEL, ACTOR, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("model", "actor", "rollout"))
TOKENS, MICRO, SFT = f"{ACTOR}.ppo_max_token_len_per_gpu", "ppo_micro_batch_size_per_gpu", "model.sft.tokens_per_pass"
SHARE, PARALLEL = f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.tensor_model_parallel_size"


@dataclass(frozen=True)
class Bytes:
    """Memory constants of a kind of device, in bytes.

    Attributes:
        server: one parameter of the rollout server's weights.
        kept: activations of one token, in one layer and hidden unit.
        inputs: the same as ``kept``, with gradient checkpointing.
        logit: one logit with its gradient.
        rest: fixed overhead of a process.
    """

    server: int
    kept: int
    inputs: int
    logit: int
    rest: float


GPU = Bytes(server=2, kept=34, inputs=2, logit=8, rest=2 * GB)  # bf16; CUDA and NCCL
CPU = Bytes(
    server=4, kept=92, inputs=4, logit=12, rest=3.5 * 2**30
)  # fp32; seven processes that import torch took 3.42 GiB


@dataclass(frozen=True)
class Devices:
    """The devices on which a run would compute: ``number`` of them, ``memory`` usable bytes
    each.
    """

    name: str
    number: int
    memory: float


def devices(config: DictConfig) -> Devices | None:
    """Return the run's devices; None if the memory of its GPUs is not known."""
    if config.estimate_gpu:
        name, number = gpus.parse(config.estimate_gpu)
        return Devices(name, number, gpus.gpu(name).memory)
    if config.trainer.device == "cpu":
        return Devices("this machine", 1, USABLE * psutil.virtual_memory().total)
    name, number = machine.name_of(config), int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    return Devices(name, number, gpus.gpu(name).memory) if machine.is_known(config) else None


@dataclass(frozen=True)
class Demand:
    """Memory demand of a run on each device.

    Attributes:
        keys: the config's values by their full names.
        critic: trained models besides the policy: 0 or 1.
        adapter: parameters of the policy's LoRA; 0 if the whole policy is trained.
    """

    keys: Mapping[str, Any]
    shape: Shape
    where: Devices
    critic: int
    adapter: int

    @property
    def on_cpu(self) -> bool:
        return bool(self.keys["trainer.device"] == "cpu")

    @property
    def device(self) -> Bytes:
        return CPU if self.on_cpu else GPU

    @property
    def row(self) -> int:
        """Return the tokens of the longest row."""
        return int(self.keys["data.max_prompt_length"] + self.keys["data.max_response_length"])

    @property
    def share(self) -> float:
        """Return vLLM's share of a GPU; 0 with ``rollout=transformers``."""
        return 0.0 if self.keys[f"{ROLLOUT}.name"] == "transformers" else float(self.keys[SHARE])

    def engines(self, key: str) -> bool:
        """Return whether a setting of the engine is on for all trained models."""
        nodes = [f"{ACTOR}.fsdp_config", "critic.fsdp"][: 1 + self.critic]
        return all(self.keys[f"{node}.{key}"] for node in nodes)

    def models(self, critic: int) -> tuple[int, int]:
        """Return the number of parameters of policy and ``critic`` critics, and how many are
        trained.
        """
        others = critic * self.shape.parameters
        return self.shape.parameters + self.adapter + others, (self.adapter or self.shape.parameters) + others

    def states(self, critic: int) -> float:
        """Return the bytes of weights, gradients and Adam on all devices together."""
        weights, trained = self.models(critic)
        return float(WEIGHTS * weights + (GRADIENTS + ADAM) * trained)

    def peak(self) -> float:
        """Return the bytes that one device needs: the maximum over SFT, sampling and training."""
        keys, share, logit_share = self.keys, self.keys["budget.sft_share"], 1.0
        tokens = keys[TOKENS] if keys[f"{ACTOR}.use_dynamic_bsz"] else self.row * (keys[f"{ACTOR}.{MICRO}"] or 1)
        if self.on_cpu:  # the RL stage computes logits of action tokens alone
            logit_share = min(1.0, keys["env.max_turns"] * keys["env.max_action_tokens"] / self.row)
        sft = self._training(0, max(keys[SFT], self.row)) if share > 0 else 0.0
        rl = max(self._training(self.critic, tokens, logit_share), self._sampling()) + self._frozen()
        return max(sft, rl * (share < 1)) + self.device.rest

    def _training(self, critic: int, tokens: int, with_logits: float = 1.0) -> float:
        shape, device = self.shape, self.device
        kept = device.inputs if self.keys[f"{MODEL}.enable_gradient_checkpointing"] else device.kept
        states = self.states(critic) / self.where.number
        if self.engines("offload_policy"):
            states = GATHERED * 2.0 * shape.vocabulary * shape.hidden
        logits = with_logits * device.logit * tokens
        if self.keys[f"{MODEL}.use_fused_kernels"] and not self.on_cpu:
            logits = FUSED * min(tokens, CHUNK)
        return states + tokens * kept * shape.layers * shape.hidden + logits * shape.vocabulary

    def _sampling(self) -> float:
        """Return the bytes a device holds while sampling: the server, and trainer state not
        offloaded.

        Gradients do not count, since verl 0.9.1 sets them to None after each update.
        """
        weights, trained = self.models(self.critic)
        kept = WEIGHTS * (not self.engines("param_offload")) * weights
        kept += ADAM * (not self.engines("optimizer_offload")) * trained
        return kept * (not self.engines("offload_policy")) / self.where.number + self.share * self.where.memory

    def _frozen(self) -> float:
        """Return the bytes of frozen weights: a server without vLLM and, on CPUs, the reference
        model.

        On GPUs the reference does not count, since verl's FSDP2 engine offloads it.
        """
        wanted = self.keys[f"{ACTOR}.use_kl_loss"] or self.keys["algorithm.use_kl_in_reward"]
        reference = bool(self.on_cpu and wanted and not self.adapter)
        return float((self.device.server * (not self.share) + WEIGHTS * reference) * self.shape.parameters)

    def lacking(self) -> Iterator[str]:
        """Yield one line for each part of the run that does not fit into memory."""
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


def demand(config: DictConfig, shape: Shape, where: Devices) -> Demand:
    keys = dict(flattened(OmegaConf.to_container(config, resolve=True)))
    return Demand(keys, shape, where, int(has_critic(config)), adapter_parameters(config, shape))


def checkpoint_bytes(config: DictConfig, shape: Shape) -> float:
    """Return the size of a checkpoint."""
    return checkpoint_cost.size(shape.parameters, has_critic(config), adapter_parameters(config, shape))


def problems(config: DictConfig, shape: Shape, where: Devices) -> list[str]:
    """Return a line for each part that does not fit; the last one ends with settings that fit."""
    asked = demand(config, shape, where)
    reasons = list(asked.lacking())
    there, needed = psutil.virtual_memory().total * int(config.trainer.nnodes), asked.states(asked.critic)
    if asked.engines("offload_policy") and not config.estimate_gpu and needed > USABLE * there:
        words = f"offload_policy keeps {needed / GB:.0f} GB in the machine's memory"
        reasons.append(f"{words}, which has {there / GB:.0f}")
    return [*reasons[:-1], f"{reasons[-1]}; {_advice(config, asked)}"] if reasons else []


def _advice(config: DictConfig, asked: Demand) -> str:
    """Return the first sizes that fit; add LoRA or offloading only if needed."""
    nodes = [f"{ACTOR}.fsdp_config", "critic.fsdp"][: 1 + asked.critic]
    means: list[dict[str, Any]] = [{LORA: RANK}] if _adapter(config) and not asked.adapter else []
    if not asked.on_cpu:
        means += [{f"{node}.{key}": True for node in nodes} for key in ("optimizer_offload", "offload_policy")]
    own = _fitting(config, asked, {})
    fitting = [own] if own else [*filter(None, (_fitting(config, asked, settings) for settings in means))]
    if fitting:
        return f"what fits: {'; or '.join(fitting)}"
    return "no batch size, LoRA or offloading makes it fit: take more or larger devices, or a smaller model"


def _adapter(config: DictConfig) -> int:
    """Return the number of parameters of a LoRA of rank ``RANK``; 0 if the model's layers are
    unknown.
    """
    path = config.model.path
    return 0 if has_experts(settings_of(path) or {}) else RANK * sum((linears(path) or {}).values())


def _fitting(config: DictConfig, asked: Demand, settings: Mapping[str, Any]) -> str:
    """Return the settings to type for the first sizes that fit together with the given ones, or
    "".
    """
    adapter = _adapter(config) if LORA in settings else asked.adapter
    for sizes in _sizes(config, asked):
        change = {**settings, **sizes}
        if change and not any(replace(asked, keys={**asked.keys, **change}, adapter=adapter).lacking()):
            return " ".join(f"{key}={str(value).lower()}" for key, value in change.items())
    return ""


def _sizes(config: DictConfig, asked: Demand) -> Iterator[dict[str, Any]]:
    """Return sizes to try: smaller passes, then SFT's passes, vLLM's share, GPUs of a server."""
    keys, served = asked.keys, bool(asked.share)
    options: list[list[dict[str, Any]]] = [
        [{PARALLEL: n} for n in (2, 4, 8) if served and n > keys[PARALLEL] and asked.where.number % n == 0],
        [{SHARE: share} for share in (0.6, 0.5, 0.4, 0.3, 0.7, 0.8) if served and share != asked.share],
        [{SFT: asked.row}] if keys["budget.sft_share"] > 0 and keys[SFT] > asked.row else [],
        list(_passes(config, asked)),
    ]
    for chosen in itertools.product(*([{}, *own] for own in options)):
        yield {key: value for part in chosen for key, value in part.items()}


def _passes(config: DictConfig, asked: Demand) -> Iterator[dict[str, int]]:
    """Return smaller passes, by tokens or by rows."""
    if asked.keys[f"{ACTOR}.use_dynamic_bsz"]:
        for size in (24576, 16384, 12288, 8192, 6144, 4096, 2048):
            if asked.row <= size < asked.keys[TOKENS]:
                yield {TOKENS: size} | ({"critic.ppo_infer_max_token_len_per_gpu": size} if asked.critic else {})
        return
    for rows in range(int(asked.keys[f"{ACTOR}.{MICRO}"] or 1) - 1, 0, -1):
        if rows_per_device(config) % rows == 0:
            yield {f"{node}.{MICRO}": rows for node in (ACTOR, "critic")[: 1 + asked.critic]}
