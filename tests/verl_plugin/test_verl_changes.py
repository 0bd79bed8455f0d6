"""What is changed in verl, against the verl that is installed: a new version that breaks an entry
is told which."""

import ast
import inspect
import sys
import textwrap
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from plain_verl import vllm_adapter
from verl.trainer import main_ppo
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from benchmarks.private_names import PRIVATE_NAMES, SHOWN
from benchmarks.verl_overrides import IN_PROCESS, ON_CPUS, overrides, reason, until
from turngrid.envs.utils import stacks
from turngrid.verl_plugin.changes import REPLACED, WRAPPED
from turngrid.verl_plugin.training.trainer import StepTrainer

SIGNATURES = {  # of verl's, by which ours are called
    "verl_F.masked_whiten": "values, mask, shift_mean",
    "apply_kl_penalty": "data, kl_ctrl, kl_penalty",
    "compute_advantage_for_multi_trajectories": (
        "data, batch_keys, adv_estimator, gamma, lam, num_repeat, norm_adv_by_std_in_grpo, config"
    ),
    "compute_data_metrics": "batch, use_critic",
    "Tracking": "project_name, experiment_name, default_backend, config",
    "ppo_loss": "config, model_output, data, dp_group",
    "value_loss": "config, model_output, data, dp_group",
    "load_valuehead_model": "local_path, torch_dtype, model_config, trust_remote_code",
    "FSDPEngineWithValueHead.prepare_model_outputs": "self, output, output_args, micro_batch, logits_processor_func",
    "FSDPEngine.forward_backward_batch": "self, data, loss_function, forward_only",
    "FSDPEngine._build_module": "self",
    "FSDPEngine._build_lora_module": "self, module",
    "FSDPEngine._merged_lora_per_tensor_param": "self",
    "get_fsdp_full_state_dict": "model, offload_to_cpu, rank0_only",
    "FSDPCheckpointManager.save_checkpoint": "self, local_path, hdfs_path, global_step, max_ckpt_to_keep",
    "ActorRolloutRefWorker.init_model": "self",
    "BucketedWeightSender.__init__": "self, zmq_handle, bucket_size_mb, use_shm",
    "BucketedWeightReceiver.__init__": "self, zmq_handle, device, use_shm",
    "fsdp2_sharded_save_to_cpu": "model",
    "get_hf_auto_model_class": "hf_config",
    "prepare_micro_batches": (
        "data, dp_group, num_batches_divided_by, same_micro_num_in_dp, min_num_micro_batch, use_dynamic_bsz_balance"
    ),
}
TABLES = (WRAPPED, REPLACED, IN_PROCESS, ON_CPUS)
ENTRIES = [(module, name, by) for table in TABLES for module, names in table.items() for name, by in names.items()]


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=lambda number: ".".join(ENTRIES[number][:2]))
def test_verl_has_what_the_entry_changes(number: int, plain_verl: dict[str, Any]) -> None:
    """Registries, loggers and CPUOffloadPolicy have no signature that ours depends on."""
    (module, name, _), found = ENTRIES[number], plain_verl["signatures"][number]
    assert module.startswith("verl."), "another project's names are in benchmarks/private_names.py"
    assert found == SIGNATURES.get(name, found) and "Error: " not in found


def test_runs_on_one_machine_have_sockets_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    verls, names = vllm_adapter(), list[str]()
    for run in "ab":
        monkeypatch.setenv(stacks.FOLDER, run)
        ends = verls.BucketedWeightSender, verls.BucketedWeightReceiver
        names += {end("ipc:///tmp/verls", 1).zmq_handle for end in ends}
    assert len(names) == 2 and len({*names, "ipc:///tmp/verls"}) == 3
    sys.modules.pop(verls.__package__)  # it may be a stand-in for a package that needs vLLM


@pytest.mark.parametrize("by", sorted({by for *_, by in ENTRIES}))
def test_every_change_has_its_reason_and_an_end(by: str) -> None:
    ours = resolve_name(by)
    assert reason(ours) and (until(ours) or by in [b for names in ON_CPUS.values() for b in names.values()])


def test_what_the_list_of_names_leaves_to_the_tables_is_there() -> None:
    in_tables = {
        f"{module}.{name} =" for table in (IN_PROCESS, ON_CPUS) for module, own in table.items() for name in own
    }
    left = {name for names in PRIVATE_NAMES.values() for name, why in names.items() if why == SHOWN}
    assert left == in_tables


def test_every_override_has_its_reason_and_an_end() -> None:
    """docs/verl.md lists them, and tests/docs says that it is current: a hook that verl renames is
    missing there."""
    assert not [f"{one.ours}.{one.method}" for one in overrides() if not (one.why and one.end)]


def called(function: object, owner: str) -> list[str]:
    """The methods of ``owner`` that a function names, in their order."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == owner]
    ordered = sorted(named, key=lambda node: (node.lineno, node.col_offset))
    methods = [node.attr for node in ordered if callable(getattr(PPOTrainer, node.attr, None))]
    return list(dict.fromkeys(methods))


def test_an_update_has_all_parts_of_verls_in_their_order() -> None:
    ours = [*called(StepTrainer._sampled, "self"), *called(StepTrainer.parts, "self")]
    updates = [*called(StepTrainer.learn_values, "self"), *called(StepTrainer.update_policy, "self")]
    assert [*ours, *updates] == called(PPOTrainer._step_once, "self")


def test_ours_makes_the_calls_by_which_verl_trains() -> None:
    """``task.train`` replaces these two of verl's, whose other lines concern a profiler."""
    assert calls_of("TaskRunnerV1.run") == [
        "configure_verl_logging",
        "get_trainer_cls",
        "pprint",
        "OmegaConf.to_container",
        "OmegaConf.resolve",
        "tq.init",
        "trainer_cls",
        "self.trainer.init",
        "self.init_agent_loop_manager",
        "self.trainer.fit",
        "getattr",
        "tracking.finish",
        "tq.close",
    ]
    assert calls_of("TaskRunnerV1.init_agent_loop_manager")[-4:] == [
        "agent_loop_manager_cls.create",
        "self.trainer.get_llm_client",
        "self.trainer.get_teacher_client",  # the workers use neither teachers nor reward models
        "self.trainer.get_reward_handles",
    ]
    assert [name for name in calls_of("run_ppo") if name.startswith(("ray.", "get_ppo"))] == [
        "ray.is_initialized",
        "get_ppo_ray_runtime_env",
        "ray.init",
        "ray.get",
        "ray.timeline",
    ]


def calls_of(name: str) -> list[str]:
    """What a function of verl's ``main_ppo`` calls, in the order of the lines."""
    node: Any = ast.parse(Path(main_ppo.__file__).read_text(encoding="utf-8"))
    for part in name.split("."):
        node = next(one for one in node.body if getattr(one, "name", "") == part)
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    return [ast.unparse(one.func) for one in sorted(calls, key=lambda one: (one.lineno, one.col_offset))]
