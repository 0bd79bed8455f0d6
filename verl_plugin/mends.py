"""What ``changes.AFTER_IMPORT`` does to verl's modules, one function an entry, called with the module."""

from __future__ import annotations

import importlib
from types import ModuleType

POLL_SECONDS = 0.05


def estimators(module: ModuleType) -> None:
    importlib.import_module("verl_plugin.training.estimators")


def gae(module: ModuleType) -> None:
    of_actions = importlib.import_module("verl_plugin.training.gae").gae_of_actions
    module.compute_gae_advantage_return = of_actions(module.compute_gae_advantage_return)  # type: ignore[attr-defined]


def whitening(module: ModuleType) -> None:
    module.verl_F.masked_whiten = importlib.import_module("algorithms.masked").whiten


def policy_loss(module: ModuleType) -> None:
    module.ppo_loss = importlib.import_module("verl_plugin.training.losses").with_methods(module.ppo_loss)  # type: ignore[attr-defined]


def value_loss(module: ModuleType) -> None:
    module.value_loss = importlib.import_module("verl_plugin.value_heads").sum_of_heads(module.value_loss)  # type: ignore[attr-defined]


def value_outputs(module: ModuleType) -> None:
    engine = module.FSDPEngineWithValueHead
    engine.prepare_model_outputs = importlib.import_module("verl_plugin.value_heads").each_head(
        engine.prepare_model_outputs
    )


def value_heads(module: ModuleType) -> None:
    load = importlib.import_module("verl_plugin.value_heads").with_heads
    module.load_valuehead_model = load(module.load_valuehead_model)  # type: ignore[attr-defined]


def kl_in_reward(module: ModuleType) -> None:
    module.apply_kl_penalty = importlib.import_module("verl_plugin.training.estimators").apply_kl_penalty  # type: ignore[attr-defined]


def agent_loop(module: ModuleType) -> None:
    importlib.import_module("verl_plugin.rollout.agent_loop")


def rollout_adapter(module: ModuleType) -> None:
    module._ROLLOUT_REGISTRY["transformers", "async"] = "verl_plugin.servers.transformers_server.replica.WeightSync"


def rollout_replica(module: ModuleType) -> None:
    def load() -> type:
        return importlib.import_module("verl_plugin.servers.transformers_server.replica").TransformersReplica

    module.RolloutReplicaRegistry.register("transformers", load)


def sums_of_terms(module: ModuleType) -> None:
    engine = module.FSDPEngine
    engine.forward_backward_batch = importlib.import_module("verl_plugin.training.losses").with_sums(
        engine.forward_backward_batch
    )


def teacher(module: ModuleType) -> None:
    worker = module.ActorRolloutRefWorker
    worker.init_model = importlib.import_module("verl_plugin.training.teacher").with_teacher(worker.init_model)


def whole_models(module: ModuleType) -> None:
    engine = module.FSDPEngine
    engine._build_module = importlib.import_module("verl_plugin.whole_models").whole(engine._build_module)


def lora_adapters(module: ModuleType) -> None:
    engine = module.FSDPEngine
    engine._build_lora_module = importlib.import_module("verl_plugin.lora").seeded(engine._build_lora_module)


def lora_weights(module: ModuleType) -> None:
    module.FSDPEngine._merged_lora_per_tensor_param = importlib.import_module("verl_plugin.lora").streamed


def lora_saved_merged(module: ModuleType) -> None:
    lora = importlib.import_module("verl_plugin.lora")
    module.get_fsdp_full_state_dict = lora.merged_state(module.get_fsdp_full_state_dict)  # type: ignore[attr-defined]


def lora_saved_alone(module: ModuleType) -> None:
    manager = module.FSDPCheckpointManager
    manager.save_checkpoint = importlib.import_module("verl_plugin.lora").with_adapter(manager.save_checkpoint)


def cpu_engines(module: ModuleType) -> None:
    importlib.import_module("verl_plugin.cpu.engines")


def platform(module: ModuleType) -> None:
    """verl finds CUDA and NPU by itself; the CPU only where it is asked for, since it never outranks them."""
    importlib.import_module("verl_plugin.cpu.platform")


def advantages_by_episode(module: ModuleType) -> None:
    rows = importlib.import_module("verl_plugin.training.episode_advantages")
    usual = module.compute_advantage_for_multi_trajectories
    module.compute_advantage_for_multi_trajectories = rows.by_episode(usual)  # type: ignore[attr-defined]


def poll_interval(module: ModuleType) -> None:
    """verl's replay buffer looks for finished episodes every 2 s, a floor under every step of a small model."""
    original = module.ReplayBuffer.__init__

    def init(self: object, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("poll_interval", POLL_SECONDS)
        original(self, *args, **kwargs)

    module.ReplayBuffer.__init__ = init


def save_copies(module: ModuleType) -> None:
    """verl keeps a step's weights "on the CPU" while it updates them; where they are there already, its copy is the weights
    themselves."""
    save = module.fsdp2_sharded_save_to_cpu

    def save_copies(model: object) -> tuple[dict[str, tuple], object]:
        state, spec = save(model)
        return {name: (tensor.clone(), own) for name, (tensor, own) in state.items()}, spec

    module.fsdp2_sharded_save_to_cpu = save_copies  # type: ignore[attr-defined]
