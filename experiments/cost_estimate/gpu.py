"""What a run needs of the memory of GPUs that are not here: arithmetic that no measurement has been fitted to."""

from __future__ import annotations

from omegaconf import DictConfig

from config.lora import adapter_parameters
from config.method_settings import has_critic
from records.models.gpus import GB, GPUS
from records.models.shape import Shape

WEIGHTS, GRADIENTS, ADAM = 4, 4, 8  # bytes a trained parameter, fp32
WEIGHT_BYTES = 2  # of the rollout server
CONTEXT_BYTES = 2 * GB  # of CUDA and NCCL, trainer and server together
ASSUMPTIONS = (
    f"memory of a GPU: {WEIGHTS + GRADIENTS + ADAM} bytes a trained parameter (weights, gradients, Adam in fp32), with LoRA "
    f"{WEIGHTS} a frozen one, sharded over all GPUs, the gradients only while training; a frozen reference waits in the machine's "
    "memory; vLLM has its share while it samples, rollout=transformers keeps its weights throughout; activations by ppo_max_token_len_per_gpu; "
    f"{CONTEXT_BYTES / GB:g} GB for CUDA; no measurement has been fitted to it"
)


def memory_bytes(config: DictConfig, gpus: tuple[str, int], shape: Shape) -> float:
    """The peak of one GPU of several, named as ``gpus.parse`` does: training, or playing beside what is not offloaded. verl
    0.9.1 sets gradients to None after each update, and its FSDP2 engine keeps a frozen model on the CPU."""
    actor, (name, number) = config.actor_rollout_ref, gpus
    adapter = adapter_parameters(config, shape)
    critic = shape.parameters if has_critic(config) else 0
    trained = ((adapter or shape.parameters) + critic) / number
    weights = (shape.parameters + adapter + critic) / number
    tokens = int(actor.actor.ppo_max_token_len_per_gpu or 16384)
    kept = (
        2 if actor.model.enable_gradient_checkpointing else 34
    )  # bytes a token, layer and hidden unit: its input, or all
    activations = tokens * (kept * shape.layers * shape.hidden + 8 * shape.vocabulary)
    training = WEIGHTS * weights + (GRADIENTS + ADAM) * trained + activations
    engine = actor.actor.fsdp_config
    playing = ADAM * (not engine.optimizer_offload) * trained + WEIGHTS * (not engine.param_offload) * weights
    if actor.rollout.name == "transformers":
        return max(training, playing) + WEIGHT_BYTES * shape.parameters + CONTEXT_BYTES
    return max(training, playing + float(actor.rollout.gpu_memory_utilization) * GPUS[name]) + CONTEXT_BYTES


def problems(config: DictConfig, gpus: tuple[str, int], shape: Shape) -> list[str]:
    """What does not fit, each with what to change."""
    found, rollout = [], config.actor_rollout_ref.rollout
    need, room = memory_bytes(config, gpus, shape) / GB, GPUS[gpus[0]] / GB
    if need > room:
        found.append(
            f"memory: {need:.0f} GB a GPU needed, {room:.0f} GB there; more or larger GPUs, a smaller model, or "
            "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true (and critic.fsdp.optimizer_offload=true)"
        )
    weights = WEIGHT_BYTES * shape.parameters / int(rollout.tensor_model_parallel_size) / GB
    share = float(rollout.gpu_memory_utilization) * room
    if rollout.name != "transformers" and weights > share:
        found.append(
            f"memory: the rollout server's weights take {weights:.0f} GB of its {share:.0f} GB; "
            "raise actor_rollout_ref.rollout.tensor_model_parallel_size"
        )
    return found
