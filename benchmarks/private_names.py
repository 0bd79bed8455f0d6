"""Private names of other projects that our code uses, and what it sets in their objects.

``tests/test_private_names.py`` fails for a name that is missing here, or here in vain. Methods of
verl that our classes override are found by ``benchmarks/verl_overrides.py``; docs/verl.md shows
both.
"""

SHOWN = "docs/verl.md has the reason"

_PARTS = "It is a part of verl's step. Until verl's trainer has public names for them"
_BUFFER = "The sampler waits and drops groups as verl's buffer does. Until the buffer has public methods for that"
_TABLES = "It carries out the tables of docs/verl.md. Until these are empty"
_AVERAGE = "The average of weights lives as long as verl's engine. Until an engine holds the state of a plugin"
_ENGINE = "verl.workers.engine.fsdp.transformer_impl"

# file -> name -> reason and end; a name that is set ends in " ="
PRIVATE_NAMES: dict[str, dict[str, str]] = {
    "envs/alfworld/env.py": {
        "sys.argv =": "The planner's translator replaces it, and we put it back. Until the translator leaves it alone",
    },
    "envs/bfcl/env.py": {
        "service._load_scenario": "BFCL's own evaluation calls it. Until its services take a scenario in public",
    },
    "envs/tau2/environment.py": {
        "sys.modules['tau2'] =": (
            "tau2's `__init__` imports clients of model providers, which a ticket does not need. "
            "Until it imports them when they are used"
        ),
    },
    "envs/textarena/environment.py": {
        "self.game._get_percentage_completion": "It is a game's score. Until textarena has a public name for it",
    },
    "envs/textworld/games.py": {
        "textworld.generator.data.KnowledgeBase.load =": (
            "TextWorld reads its rules in the order of the file system, so games would differ by machine. "
            "Until it sorts them"
        ),
    },
    "verl_plugin/averaged.py": {"engine.NAME =": _AVERAGE},
    "verl_plugin/changes.py": {"owner.own =": _TABLES, "module.name =": _TABLES},
    "verl_plugin/cpu/engines.py": {
        f"{_ENGINE}.prepare_micro_batches =": SHOWN,
        f"{_ENGINE}.CPUOffloadPolicy =": SHOWN,
        f"{_ENGINE}.MixedPrecisionPolicy =": SHOWN,
        "verl.utils.model.load_valuehead_model =": SHOWN,
    },
    "verl_plugin/cpu/packed_rows.py": {
        "config._attn_implementation": "Other kinds of attention stay. Until transformers has a public name for it",
    },
    "verl_plugin/cpu/platform.py": {
        "torch.distributed.init_process_group =": (
            "verl asks for the backend `cpu:gloo,cpu:gloo`. Until verl has a platform for CPUs"
        ),
    },
    "verl_plugin/servers/transformers_server/replica.py": {
        "self.workers[0].__ray_call__": (
            "Ray's call of a function in an actor, for libraries. Until verl's workers tell their node and their GPU"
        ),
    },
    "verl_plugin/servers/vllm_cpu.py": {
        "vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm =": (
            "vLLM's CPU build drops a layer's weights, to which verl's weight sync writes. Until vLLM keeps them"
        ),
    },
    "verl_plugin/sft.py": {
        "verl.trainer.sft_trainer.Tracking =": SHOWN,
    },
    "verl_plugin/training/dynamic_sampling.py": {
        name: _BUFFER
        for name in (
            "self._clear_groups",
            "self._materialize_batch",
            "self._sync_metadata_from_transfer_queue",
            "self._wait_for_next_poll",
        )
    },
    "verl_plugin/training/trainer.py": {
        name: _PARTS
        for name in (
            "self._balance_batch",
            "self._compute_advantage",
            "self._compute_ref_log_prob",
            "self._compute_reward_colocate",
            "self._compute_values",
            "self._update_actor",
            "self._update_critic",
        )
    },
    "verl_plugin/whole_models.py": {"verl.utils.model.get_hf_auto_model_class =": SHOWN},
}
