"""GPU options: what each card gets, what Ray is asked for, what a checkpoint costs, and that names
stay as they were."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from turngrid.config import machine
from turngrid.config.compose import Composer
from turngrid.experiments.cost_estimate.memory import devices
from turngrid.records.models import gpus
from turngrid.records.run_folder import identity
from turngrid.tasks.run import Run

SIZES = (
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "critic.ppo_infer_max_token_len_per_gpu",
    "actor_rollout_ref.rollout.gpu_memory_utilization",
    "actor_rollout_ref.rollout.max_num_seqs",
    "actor_rollout_ref.model.use_fused_kernels",
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes",
)
CORRECTION = "algorithm.rollout_correction.rollout_is"
BYPASS = "algorithm.rollout_correction.bypass_mode"
QWEN = "model=qwen2.5_1.5b"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An nvidia-smi whose answer is in a file; what it was asked is in another."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {tmp_path}/cards\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    machine.here.cache_clear()
    yield tmp_path
    machine.here.cache_clear()


def sizes(config: DictConfig) -> tuple[object, ...]:
    return tuple(OmegaConf.select(config, key) for key in SIZES)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cluster=gpu1 algo=grpo estimate_gpu=RTX4090", (8192, 8192, 0.4, 128, True, 1024)),
        ("cluster=gpu1 algo=rloo estimate_gpu=A100", (24576, 24576, 0.5, 256, False, 4096)),
        ("cluster=gpu8 algo=ppo estimate_gpu=H100x8", (16384, 16384, 0.5, 256, False, 4096)),
        ("cluster=slurm_gpu1 algo=grpo cluster.gpu_memory_gb=24", (8192, 8192, 0.4, 128, True, 1024)),
        # an embedding of 1.24 GB in fp32; a head of its own, which fused kernels cannot read
        ("model=qwen2.5_3b_lora cluster=gpu1 cluster.gpu_memory_gb=24", (8192, 8192, 0.4, 128, True, 1187)),
        ("model=qwen2.5_7b cluster=gpu8 estimate_gpu=L40Sx8", (8192, 8192, 0.6, 128, False, 2079)),
    ],
)
def test_sizes_follow_the_cards_memory_and_the_critic(composed: Composer, words: str, expected: object) -> None:
    assert sizes(composed([*[QWEN] * ("model=" not in words), *words.split()])) == expected


def test_the_smallest_visible_card_decides(composed: Composer, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (smi / "cards").write_text("81559\n24564\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert machine.here() == 24564 * 2**20
    config = composed([QWEN, "cluster=gpu1"])
    where = devices(Run(config))
    assert where and where.name == "25GB"
    assert sizes(config)[0] == 8192
    assert "--id=0,1" in (smi / "asked").read_text()


@pytest.mark.parametrize("cluster", ["gpu1", "gpu8", "slurm_gpu1", "slurm_gpu8"])
def test_ray_gives_out_what_verl_asks_for(composed: Composer, cluster: str) -> None:
    """3 cores a GPU for verl's placement groups, one for TransferQueue's controller and one for
    each of its storage units; with fewer the start hangs."""
    config = composed([QWEN, f"cluster={cluster}", "cluster.slurm.cpus_per_task=2"])
    units = config.transfer_queue.backend.SimpleStorage.num_data_storage_units
    asked = 3 * config.trainer.n_gpus_per_node + 1 + units
    assert config.ray_kwargs.ray_init.num_cpus >= asked
    assert config.ray_kwargs.ray_init.address == "local", "no stray cluster is joined"


def test_several_nodes_take_their_own_ray_and_shard_within_a_node(composed: Composer) -> None:
    config = composed([QWEN, "cluster=slurm_multinode", "algo=ppo", "trainer.n_gpus_per_node=4"])
    assert (config.ray_kwargs.ray_init.address, config.ray_kwargs.ray_init.num_cpus) == (None, None)
    actor = config.actor_rollout_ref
    engines = (actor.actor.fsdp_config, actor.ref.fsdp_config, config.critic.fsdp)
    assert [engine.fsdp_size for engine in engines] == [4, 4, 4]


def test_importance_weights_are_for_servers_that_differ(composed: Composer) -> None:
    def chosen(*words: str) -> object:
        return OmegaConf.select(composed([QWEN, *words]), CORRECTION)

    assert (chosen("cluster=gpu1"), chosen("cluster=gpu8")) == ("token", "token")
    assert chosen("cluster=gpu1", "loss=turn_clip") is None, "its ratio is of whole turns"
    assert chosen("cluster=gpu1", "trainer.v1.trainer_mode=colocate_async") == "token"


def test_a_checkpoints_cost_by_hand(composed: Composer) -> None:
    """7.6 billion parameters: 122 GB take 61 s at 2 GB/s, an eighth of 25 steps of 20 s."""
    steps = {"gpu8": 25, "slurm_multinode": 45}  # the second saves two copies
    saved = {name: composed(["model=qwen2.5_7b", f"cluster={name}"]).trainer.save_freq for name in steps}
    assert saved == steps
    size = gpus.checkpoint_size(7_600_000_000, critic=False)
    assert size == 121.6e9
    assert gpus.steps_between(size) == 25
    assert [gpus.steps_between(cost) for cost in (0.0, 25e9, 25.1e9, 1e15)] == [5, 5, 10, 50]


def test_a_typed_correction_is_another_run_and_a_cluster_is_not(composed: Composer) -> None:
    def name(words: str) -> str:
        return identity(composed(words.split()))

    rejection = "algorithm.rollout_correction.rollout_rs"
    ways = ["", "correction=geometric", f"correction=geometric {BYPASS}=true", "correction=token_tis"]
    ways += ["correction=none", "correction=sampler_clip"]
    names = [*map(name, ways)]
    assert len({*names, name(f"{BYPASS}=false")}) == 1 + len(ways)
    assert [name(f"cluster=gpu1 {way}") for way in ways] == names
    alone = composed([f"{rejection}=seq_mean_k1", f"{rejection}_threshold='0.999_1.001'", f"{CORRECTION}=null"])
    assert identity(alone) == names[1] and not OmegaConf.select(alone, BYPASS)
    assert name("cluster=gpu1 algo=infopo") == name("algo=infopo"), "its bypass_mode=false was not typed"
