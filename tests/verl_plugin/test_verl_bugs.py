"""Bugs of verl 0.9.1 in a few lines each, run without our plugin. docs/verl.md shows them
(``python -m benchmarks.pages``).

A failure means that verl has fixed the bug: then remove our replacement
(``verl_plugin/changes.py``) and the function.
"""

from typing import Any

import pytest


def bug_kl_of_padding_rows() -> None:
    """`apply_kl_penalty` averages the KL over all rows, so that rows of padding dilute the metric
    and mislead the adaptive controller."""
    import torch
    from verl import DataProto
    from verl.trainer.ppo.core_algos import FixedKLController
    from verl.trainer.ppo.ray_trainer import apply_kl_penalty

    rows = {name: torch.zeros(2, 3) for name in ("token_level_scores", "ref_log_prob")}
    rows |= {"old_log_probs": torch.ones(2, 3), "response_mask": torch.tensor([[1.0, 1, 1], [0, 0, 0]])}
    _, metrics = apply_kl_penalty(DataProto.from_dict(rows), FixedKLController(0.1))
    assert metrics["actor/reward_kl_penalty"] == 0.5  # of one row whose KL is 1, and one of padding


def bug_logger_with_flush() -> None:
    """`separate_async` with `actor_rollout_ref.hybrid_engine=false` ends in a TypeError: it passes
    an argument of `print` to its logger."""
    import inspect

    from verl.trainer.ppo.v1 import trainer_separate_async

    assert "flush=True" in inspect.getsource(trainer_separate_async.PPOTrainerSeparateAsync._setup)
    try:
        trainer_separate_async.logger.info("rollout served by standalone replicas only", flush=True)
    except TypeError as error:
        assert "flush" in str(error)


def bug_saved_weights_follow_the_update() -> None:
    """`fsdp2_sharded_save_to_cpu` copies nothing if the weights are on the CPU, so that what it
    saved changes with the model."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from verl.utils.fsdp_utils import fsdp2_sharded_save_to_cpu

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.Linear(2, 2)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    saved, _ = fsdp2_sharded_save_to_cpu(model)
    before = saved["weight"][0].clone()
    with torch.no_grad():
        model.weight.add_(1)
    assert not torch.equal(saved["weight"][0], before)


def bug_flag_of_the_reference_stays() -> None:
    """With LoRA, `_compute_ref_log_prob` leaves `no_lora_adapter` in the batch, and the critic,
    which gets the batch next, does not accept it."""
    from unittest.mock import MagicMock, patch

    from verl.trainer.ppo.v1 import trainer_base

    trainer, batch = MagicMock(ref_in_actor=True), MagicMock(extra_info={})
    with patch.object(trainer_base, "tq"), patch.object(trainer_base, "response_from_nested"):
        trainer_base.PPOTrainer._compute_ref_log_prob(trainer, batch, {})
    assert batch.extra_info["no_lora_adapter"]


def bug_critic_with_flash_attention() -> None:
    """`load_valuehead_model` requests flash attention, and ignores the model's config and the
    machine."""
    from unittest.mock import patch

    from transformers import AutoModelForTokenClassification, LlamaConfig
    from verl.utils.model import load_valuehead_model

    with patch.object(AutoModelForTokenClassification, "from_pretrained") as load:
        load_valuehead_model("a model", None, LlamaConfig(attn_implementation="sdpa"), False)
    assert load.call_args.kwargs["attn_implementation"] == "flash_attention_2"


def bug_equal_values_are_whitened_to_others() -> None:
    """`masked_whiten` computes in float32: of equal advantages, it returns the last bit of their
    mean, magnified."""
    import torch
    from verl.utils.torch_functional import masked_whiten

    equal = torch.full((1, 7), 0.1)
    assert masked_whiten(equal, torch.ones(1, 7)).abs().max() > 1e-5


def bug_checkpoint_without_weights_is_loaded() -> None:
    """An engine loads a checkpoint that lacks weights, and trains on random numbers in their
    place."""
    from tempfile import TemporaryDirectory
    from unittest.mock import MagicMock

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    sizes = dict.fromkeys(("vocab_size", "hidden_size", "intermediate_size"), 8)
    config = LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=1, tie_word_embeddings=True)
    off = dict.fromkeys(("use_liger", "use_fused_kernels", "fused_kernel_options", "trust_remote_code"))
    with TemporaryDirectory() as folder:
        LlamaForCausalLM(config).save_pretrained(folder, state_dict={"model.norm.weight": torch.ones(8)})
        model = MagicMock(local_path=folder, hf_config=config, model_type="language_model", **off)
        engine = MagicMock(model_config=model, use_remove_padding=False, ulysses_sequence_parallel_size=1)
        engine.engine_config.model_dtype, model.enable_gradient_checkpointing = "fp32", False
        assert FSDPEngine._build_module(engine).get_input_embeddings().weight.any()


def bug_step_is_saved_before_it_is_logged() -> None:
    """`fit` saves a step's checkpoint before it logs the step: a run that is killed between them
    and resumed never logs it."""
    from unittest.mock import DEFAULT, MagicMock, patch

    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1 import trainer_base

    names = {"project_name": "", "experiment_name": "", "logger": [], "val_before_train": False}
    steps = {"total_epochs": 1, "save_freq": 1, "test_freq": 0}
    config = OmegaConf.create({"trainer": {**names, **steps}, "global_profiler": {"steps": None}})
    trainer = MagicMock(config=config, global_steps=0, steps_per_epoch=1, total_training_steps=1)
    others = ("SkipManager", "ValidationGenerationsLogger", "DapoFilteredRewardTableLogger", "tq")
    with patch.multiple(trainer_base, Tracking=lambda **_: trainer.tracking, **dict.fromkeys(others, DEFAULT)):
        trainer_base.PPOTrainer.fit(trainer, None)
    called = [name for name, *_ in trainer.mock_calls]
    assert called.index("_save_checkpoint") < called.index("tracking.log")


def bug_epoch_without_steps() -> None:
    """With fewer prompts than `data.train_batch_size`, `steps_per_epoch` is 0, by which `fit`
    divides, although `trainer.total_training_steps` says when to end."""
    from unittest.mock import DEFAULT, MagicMock, patch

    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1 import trainer_base

    data = {"train_files": "", "val_files": "", "train_batch_size": 2, "val_batch_size": 1, "dataloader_num_workers": 0}
    steps = {"total_epochs": 1, "total_training_steps": 1, "v1": {"sampler": {}}}
    config = OmegaConf.create({"data": data, "algorithm": {}, "trainer": steps})
    trainer = MagicMock(config=config, trainer_mode="sync", parameter_sync_step=1)
    others = {"create_rl_sampler": DEFAULT, "StatefulDataLoader": DEFAULT}
    with patch.multiple(trainer_base, create_rl_dataset=lambda *_, **__: ["a prompt"], **others):
        trainer_base.PPOTrainer._init_dataloader(trainer)
    assert trainer.total_training_steps == 1 and trainer.steps_per_epoch == 0


BUGS = [name for name in globals() if name.startswith("bug_")]


@pytest.mark.parametrize("bug", BUGS)
def test_the_bug_is_still_there(bug: str, plain_verl: dict[str, Any]) -> None:
    assert plain_verl["bugs"][bug] == "", "if verl has mended it, what is ours goes"
