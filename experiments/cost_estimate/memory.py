"""Memory that a run needs, on GPUs or (if it computes on CPUs) on this machine.

If a run does not fit, this module suggests settings that do. ``estimate=true`` and the start of a
run make the same check.
"""

import itertools
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from omegaconf import OmegaConf

from turngrid.config import machine
from turngrid.config.finalise import rows_per_device
from turngrid.config.lora import adapter_parameters
from turngrid.config.method_settings import has_critic
from turngrid.records.models import gpus
from turngrid.records.models.gpus import GB
from turngrid.records.models.shape import PREFIX_BYTES, Shape, has_experts, linears, settings_of, shape_of
from turngrid.records.process.child import LAUNCHED
from turngrid.records.run_folder import flattened
from turngrid.tasks.run import Run
from turngrid.tasks.schema import Cluster

WEIGHTS, GRADIENTS, ADAM = 4, 4, 8  # bytes a trained parameter, fp32
KV_BYTES = 2  # bytes of each value in vLLM's KV cache
SERVER_BYTES = 1 * GB  # part of vLLM's share for activations and CUDA graphs
FUSED, CHUNK = 24, 512  # bytes a logit and tokens at a time of verl's fused kernels (FusedLinearForPPO)
GATHERED = 8  # bytes a parameter of embedding and head, gathered whole if the rest is offloaded
USABLE = 0.95  # share of a machine's memory
GROUPS, LIMITS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")  # Linux's control groups, as of a container
OFFLOADED = {"param_offload": WEIGHTS, "optimizer_offload": ADAM}  # engine key -> bytes a parameter that it offloads
SIZES = (24576, 16384, 12288, 8192, 6144, 4096, 2048)  # tokens of a pass to try
LORA, RANK = "model.lora_rank", 16  # the suggested setting
MODEL, ACTOR, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("model", "actor", "rollout"))
TOKENS, MICRO, SFT = f"{ACTOR}.ppo_max_token_len_per_gpu", "ppo_micro_batch_size_per_gpu", "model.sft.tokens_per_pass"
SHARE, PARALLEL = f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.tensor_model_parallel_size"


@dataclass(frozen=True)
class Bytes:
    """Memory constants of a kind of device, in bytes.

    Attributes:
        kept, inputs: activations of a token, layer and hidden unit, without and with checkpointing.
    """

    server: int  # one parameter of the rollout server's weights
    kept: int
    inputs: int
    logit: int  # one logit with its gradient
    rest: float  # fixed overhead of a process
    cached: int = KV_BYTES  # one number of the keys and values


GPU = Bytes(server=2, kept=34, inputs=2, logit=8, rest=2 * GB)  # bf16; CUDA and NCCL
# fp32; seven processes that import torch took 3.42 GiB
CPU = Bytes(server=4, kept=92, inputs=4, logit=12, rest=3.5 * 2**30, cached=4)
# bf16: an update of SmolLM2 kept 23; the server's weights and a copy in the trainer have 2 each
CPU_BF16 = replace(CPU, kept=24, inputs=2, cached=KV_BYTES)


@dataclass(frozen=True)
class Devices:
    """The devices on which a run would compute, each with ``memory`` usable bytes."""

    name: str
    number: int
    memory: float


def memory_here(cluster: Cluster) -> float:
    """Return a run's bytes: of its SLURM job, else its share of this machine, container or job.

    A job without ``mem_gb`` looks at its node when it starts; before, nothing is known of it.
    """
    if cluster.launcher == "slurm" and (cluster.slurm.mem_gb is not None or LAUNCHED not in os.environ):
        return (cluster.slurm.mem_gb or 0) * float(2**30) or math.inf  # 0: the node's
    limits = [float(psutil.virtual_memory().total), *_limits_of_groups()]
    limits.append(float(os.environ.get("SLURM_MEM_PER_NODE", "0")) * 2**20 or math.inf)  # in MB; 0: the node's
    return min(limits) / (cluster.launcher == "local_parallel" and cluster.runs_at_once or 1)


def _limits_of_groups() -> Iterator[float]:
    """Yield the limits of this process's control groups, version 1 or 2, and of those above."""
    with suppress(OSError):
        for line in GROUPS.read_text(encoding="utf-8").splitlines():
            _, kind, group = line.split(":", 2)
            top, name = (LIMITS / "memory", "memory.limit_in_bytes") if "memory" in kind else (LIMITS, "memory.max")
            for folder in (own := top / group.strip("/"), *own.parents):
                with suppress(OSError, ValueError):  # no such file, or "max"
                    yield float((folder / name).read_text(encoding="ascii"))


def devices(run: Run) -> Devices | None:
    """Return the run's devices; None if the memory of its GPUs is not known."""
    config = run.config
    if config.estimate_gpu:
        return Devices(*gpus.parse(config.estimate_gpu))
    if config.trainer.device == "cpu":
        return Devices("this machine", 1, USABLE * memory_here(run.cluster))
    if machine.here() is None and OmegaConf.is_interpolation(config.cluster, "gpu_memory_gb"):
        return None
    size = int(run.cluster.gpu_memory_gb or (machine.here() or machine.USUAL * GB) / GB)
    return Devices(f"{size}GB", int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes), size * GB)


@dataclass(frozen=True)
class Demand:
    """Memory demand of a run on each device."""

    keys: Mapping[str, Any]  # the config's values by their full names
    shape: Shape
    where: Devices
    critic: int  # trained models besides the policy: 0 or 1
    adapter: int  # parameters of the policy's LoRA; 0 if the whole policy is trained
    served: int = 1  # models of the rollout server: 2 with opponents from the policy's past
    teacher: int = 0  # parameters of ``algo.teacher``, which takes the place of a reference

    @property
    def on_cpu(self) -> bool:
        return bool(self.keys["trainer.device"] == "cpu")

    @property
    def device(self) -> Bytes:
        if not self.on_cpu:
            return GPU
        return CPU_BF16 if self.keys["cluster.computes_in"] == "bf16" else CPU

    @property
    def row(self) -> int:
        """Return the tokens of the longest row."""
        return int(self.keys["data.max_prompt_length"] + self.keys["data.max_response_length"])

    @property
    def context(self) -> int:
        """Return the tokens of one row for which vLLM must have room."""
        own = (settings_of(self.keys["model.path"]) or {}).get("max_position_embeddings")
        return int(self.keys[f"{ROLLOUT}.max_model_len"] or own or self.keys["model.context"])

    @property
    def share(self) -> float:
        """Return vLLM's share of a GPU; 0 with ``rollout=transformers``."""
        return 0.0 if self.keys[f"{ROLLOUT}.name"] == "transformers" else float(self.keys[SHARE])

    @property
    def shards(self) -> int:
        return gpus.sharded_over(self.where.number, self.keys[f"{ACTOR}.fsdp_config.fsdp_size"])

    def engines(self, key: str) -> bool:
        """Return whether a setting of the engine is on for all trained models."""
        return all(self.keys[f"{node}.{key}"] for node in (f"{ACTOR}.fsdp_config", "critic.fsdp")[: 1 + self.critic])

    def states(self, critic: int, weight: int = WEIGHTS, trained: int = GRADIENTS + ADAM) -> float:
        """Return the bytes of weights, gradients and Adam on all ``shards`` together."""
        parameters, others = self.shape.parameters, critic * self.shape.parameters
        return float(weight * (parameters + self.adapter + others) + trained * ((self.adapter or parameters) + others))

    def peak(self) -> float:
        """Return the bytes that one device needs: the maximum over SFT, sampling and training.

        On CPUs frozen weights of a reference model count; on GPUs verl's FSDP2 engine offloads it.
        """
        keys, sft_share, logit_share = self.keys, self.keys["budget.sft_share"], 1.0
        tokens = keys[TOKENS] if keys[f"{ACTOR}.use_dynamic_bsz"] else self.row * (keys[f"{ACTOR}.{MICRO}"] or 1)
        if self.on_cpu:  # the RL stage computes logits of action tokens alone
            logit_share = min(1.0, keys["env.max_turns"] * keys["env.max_action_tokens"] / self.row)
        sft = self._training(0, max(keys[SFT], self.row)) if sft_share > 0 else 0.0
        kl = keys[f"{ACTOR}.use_kl_loss"] or keys["algorithm.use_kl_in_reward"]
        reference = WEIGHTS * self.on_cpu * (self.teacher or self.shape.parameters * bool(kl and not self.adapter))
        server = self.device.server * self.served * (not self.share) * self.shape.parameters
        rl = max(self._training(self.critic, tokens, logit_share), self._sampling()) + server + reference
        return max(sft, rl * (sft_share < 1)) + self.device.rest

    def _training(self, critic: int, tokens: int, with_logits: float = 1.0) -> float:
        shape, device = self.shape, self.device
        kept = device.inputs if self.keys[f"{MODEL}.enable_gradient_checkpointing"] else device.kept
        states = self.states(critic) / self.shards
        if self.engines("offload_policy"):
            states = GATHERED * 2.0 * shape.vocabulary * shape.hidden
        logits = with_logits * device.logit * tokens
        if self.keys[f"{MODEL}.use_fused_kernels"] and not self.on_cpu:
            logits = FUSED * min(tokens, CHUNK)
        return states + tokens * kept * shape.layers * shape.hidden + logits * shape.vocabulary

    def _sampling(self) -> float:
        """Return the bytes a device holds while sampling: vLLM or (on CPUs) keys and values of all
        episodes, and trainer state not offloaded.

        Gradients do not count, since verl 0.9.1 sets them to None after each update.
        """
        weight, adam = (kept * (not self.engines(key)) for key, kept in OFFLOADED.items())
        kept = self.states(self.critic, weight, adam) * (not self.engines("offload_policy"))
        return kept / self.shards + self.share * self.where.memory + self._cache()

    def _cache(self) -> float:
        """Return the bytes of keys and values with ``rollout=transformers`` on CPUs."""
        if self.share or not self.on_cpu:
            return 0.0
        tokens = self.keys["data.train_batch_size"] * self.keys[f"{ROLLOUT}.n"] * self.row
        return float(min(PREFIX_BYTES, tokens * self.shape.cached_numbers * self.device.cached))

    def lacking(self) -> Iterator[str]:
        """Yield one line for each part of the run that does not fit into memory."""
        memory, keys = self.where.memory, self.keys
        if (need := self.peak()) > memory:
            each = "" if self.on_cpu else "a GPU "
            yield f"memory: {need / GB:.0f} GB {each}needed, {memory / GB:.0f} GB there"
        share, numbers = self.share * memory, self.shape.cached_numbers
        weights, cache = self.device.server * self.shape.parameters, self.context * KV_BYTES * numbers
        if share and keys["budget.sft_share"] < 1 and share < SERVER_BYTES + (weights + cache) / keys[PARALLEL]:
            own, row = (f"{part / keys[PARALLEL] / GB:.1f}" for part in (weights, cache))
            needs = f"{own} for its weights, {SERVER_BYTES / GB:.1f} to compute"
            context = f"{row} for one row of {self.context} tokens ({ROLLOUT}.max_model_len)"
            yield f"memory: the rollout server has {share / GB:.1f} GB and needs {needs} and {context}"


def demand(run: Run, shape: Shape, where: Devices) -> Demand:
    keys = dict(flattened(OmegaConf.to_container(run.config, resolve=True)))
    served = 1 + any(form.keeps(1) for form in run.forms.values())
    teacher = (shape_of(path) or shape).parameters if (path := keys.get("algo.teacher")) else 0
    adapter = adapter_parameters(run.config, shape)
    return Demand(keys, shape, where, int(has_critic(run.config)), adapter, served, teacher)


def runs_that_fit(run: Run) -> float:
    """Return how many such runs this machine has memory for, at least 1."""
    shape, where = shape_of(run.model.path), devices(run)
    return max(1, where.memory // demand(run, shape, where).peak()) if shape and where else math.inf


def problems(run: Run, shape: Shape, where: Devices) -> list[str]:
    """Return a line for each part that does not fit, with settings that fit or another advice."""
    asked = demand(run, shape, where)
    reasons = list(asked.lacking())
    if reasons:
        reasons[-1] += f"; {_advice(run, asked)}"
    if asked.engines("offload_policy") and (reason := _beyond_host(run, asked)):
        reasons.append(reason)
    return reasons


def _beyond_host(run: Run, asked: Demand) -> str:
    """Return why the machines cannot hold what ``offload_policy`` keeps there, or ""."""
    nodes = int(run.config.trainer.nnodes)
    there = memory_here(run.cluster) * nodes
    needed = asked.states(asked.critic) * (asked.where.number // asked.shards)
    if run.config.estimate_gpu or needed <= USABLE * there:
        return ""
    reason = f"offload_policy keeps {needed / GB:.0f} GB in the machine's memory, which has {there / GB:.0f}"
    of_job = run.cluster.launcher == "slurm" and run.cluster.slurm.mem_gb
    larger = f"cluster.slurm.mem_gb={math.ceil(needed / USABLE / nodes / 2**30)}" if of_job else "a larger machine"
    return f"{reason}; use {ACTOR}.fsdp_config.optimizer_offload=true instead, or {larger}"


def _advice(run: Run, asked: Demand) -> str:
    """Return the first sizes that fit; add LoRA or offloading only if needed."""
    path, nodes = run.model.path, [f"{ACTOR}.fsdp_config", "critic.fsdp"][: 1 + asked.critic]
    rank = 0 if asked.adapter or has_experts(settings_of(path) or {}) else sum((linears(path) or {}).values())
    means: list[tuple[Demand, dict[str, Any]]] = [(asked, {})]
    if rank:
        means.append((replace(asked, adapter=RANK * rank), {LORA: RANK}))
    if not asked.on_cpu:
        for key in ("optimizer_offload", *(["offload_policy"] if not _beyond_host(run, asked) else [])):
            means.append((asked, {f"{node}.{key}": True for node in nodes}))
    plain, *others = [_first_that_fits(*each, rows_per_device(run.config)) for each in means]
    fitting = [plain] if plain else [*filter(None, others)]
    cluster, memory = run.cluster, asked.where.memory
    if asked.on_cpu and cluster.launcher == "slurm":
        fitting.append(f"cluster.slurm.mem_gb={math.ceil(asked.peak() / USABLE / 2**30)}")
    fewer = int(memory * (cluster.runs_at_once or 1) // asked.peak())
    if asked.on_cpu and cluster.launcher == "local_parallel" and fewer:
        fitting.append(f"cluster.runs_at_once={fewer}")
    if fitting:
        return f"what fits: {'; or '.join(fitting)}"
    return "no batch size, LoRA or offloading makes it fit: take more or larger devices, or a smaller model"


def _first_that_fits(asked: Demand, settings: Mapping[str, Any], rows: int) -> str:
    """Return ``settings`` with the first smaller sizes that fit, as they are typed; "" if none."""
    keys, nodes = asked.keys, (ACTOR, "critic")[: 1 + asked.critic]
    passes: list[dict[str, Any]] = [{TOKENS: size} for size in SIZES if asked.row <= size < keys[TOKENS]]
    if asked.critic:
        passes = [{**one, "critic.ppo_infer_max_token_len_per_gpu": one[TOKENS]} for one in passes]
    if not keys[f"{ACTOR}.use_dynamic_bsz"]:
        fewer = [n for n in range(int(keys[f"{ACTOR}.{MICRO}"] or 1) - 1, 0, -1) if rows % n == 0]
        passes = [{f"{node}.{MICRO}": n for node in nodes} for n in fewer]
    shares = [{SHARE: share} for share in (0.6, 0.5, 0.4, 0.3, 0.7, 0.8) if asked.share not in (0, share)]
    imitation = [{SFT: asked.row}] if keys["budget.sft_share"] > 0 and keys[SFT] > asked.row else []
    contexts = [{f"{ROLLOUT}.max_model_len": asked.row}] if asked.share and asked.context > asked.row else []
    for chosen in itertools.product(*([{}, *sizes] for sizes in (shares, imitation, passes, contexts))):
        change = {key: value for part in (settings, *chosen) for key, value in part.items()}
        if change and not any(replace(asked, keys={**keys, **change}).lacking()):
            return " ".join(f"{key}={str(value).lower()}" for key, value in change.items())
    return ""
