"""The range of each number that a run has, from what the number is and not from the door's own
checks."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from math import inf, isfinite
from typing import Any

PROCESSES, TURNS, GAMES, COUNT, TOKENS, SECONDS, SEED = 4096, 10**9, 10**9, 10**9, 10**9, 10**8, 2**32 - 1


@dataclass(frozen=True)
class Range:
    """``low`` and ``high`` belong to it unless they are ``outside``. ``fine``: overrides that alone
    must be accepted."""

    keys: str
    low: float
    high: float = inf
    whole: bool = False
    null: bool = False
    outside: tuple[float, ...] = ()
    fine: tuple[str, ...] = ()

    def holds(self, value: Any) -> bool:
        if value is None:
            return self.null
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return False
        return isfinite(value) and self.low <= value <= self.high and value not in self.outside


def _whole(keys: str, low: int, high: float, *, null: bool = False, fine: tuple[str, ...] = ()) -> Range:
    return Range(keys, low, high, whole=True, null=null, fine=fine)


def _more_than_0(keys: str, high: float, *, null: bool = False, fine: tuple[str, ...] = ()) -> Range:
    return Range(keys, 0, high, null=null, outside=(0,), fine=fine)


# The first whose pattern fits a key is the one that counts.
RANGES = (
    _whole("seed", 0, SEED, fine=("0", "1", "4294967295")),
    _whole("eval.seed", 0, SEED, fine=("0", "3")),
    _whole("data.seed", 0, SEED, null=True, fine=("7",)),
    _whole("*.data_loader_seed", 0, SEED),
    _whole("*.seed", 0, SEED),
    _whole("env.max_turns", 1, TURNS, null=True, fine=("5", "100")),
    _whole("env.workers", 1, PROCESSES, fine=("1", "16")),
    _whole("env.max_action_tokens", 1, TOKENS, fine=("8", "64")),
    _whole("env.window_turns", 1, TURNS, null=True, fine=("1", "4")),
    _whole("env.window_keep", 0, TURNS, null=True),
    _more_than_0("env.step_deadline_s", SECONDS, fine=("5", "60.5")),
    _more_than_0("env.tests_deadline_s", SECONDS),
    _whole("env.memory_mib", 1, COUNT),
    _whole("env.show_*", 1, COUNT),
    _whole("env.expert_max_commands", 1, TURNS),
    Range("env.test_share", 0, 1),
    Range("env.validation_share", 0, 1),
    _whole("eval.games", 1, GAMES, fine=("1", "500")),
    _whole("eval.validation_games", 0, GAMES, fine=("10",)),
    _whole("eval.samples_per_game", 1, COUNT, fine=("1", "4")),
    _whole("eval.max_turns", 1, TURNS, null=True, fine=("9",)),
    _more_than_0("budget.units", 1e12, fine=("1000", "5000.0")),
    _more_than_0("budget.*_cost", 1e12, fine=("1", "2.5")),
    Range("budget.sft_share", 0, 1, fine=("0.5",)),
    _whole("budget.rl_steps", 0, COUNT, null=True, fine=("1", "30")),
    _more_than_0("budget.rl_epochs", 1e12, null=True),
    _whole("demos.per_game", 1, COUNT, fine=("1",)),
    _whole("demos.max_invalid", 0, COUNT, fine=("0", "2")),
    _whole("demos.max_turns", 1, TURNS, null=True),
    Range("curriculum.threshold", 0, 1, fine=("0.5",)),
    _whole("curriculum.window", 1, COUNT, fine=("1",)),
    _whole("model.context", 1, TOKENS, fine=("2048",)),
    Range("model.sft.lr", 0, 10, fine=("1e-6", "0.01")),
    _whole("model.sft.epochs", 1, COUNT, fine=("1", "3")),
    _whole("model.sft.batch_size", 1, COUNT, fine=("1", "8")),
    Range("model.sft.weight_decay", 0, 10, fine=("0", "0.1")),
    _whole("model.sft.tokens_per_pass", 1, TOKENS, fine=("4096",)),
    _whole("cluster.trainer_threads", 1, PROCESSES, fine=("1", "4")),
    _more_than_0("cluster.start_deadline_s", SECONDS, fine=("600",)),
    _whole("cluster.runs_at_once", 1, PROCESSES, null=True),
    _more_than_0("cluster.gpu_memory_gb", COUNT, null=True),
    _whole("cluster.slurm.nodes", 1, PROCESSES),
    _whole("cluster.slurm.gpus_per_node", 0, PROCESSES, null=True),
    _whole("cluster.slurm.cpus_per_task", 1, PROCESSES, null=True),
    _whole("cluster.slurm.mem_gb", 0, COUNT, null=True),  # 0: all that the node has
    _whole("cluster.slurm.timeout_min", 1, COUNT),
    _whole("cluster.slurm.signal_delay_s", 0, COUNT),
    _whole("cluster.slurm.max_num_timeout", 0, COUNT),
    _whole("cluster.slurm.array_parallelism", 1, COUNT),
    Range("cluster.slurm.lost_after_s", 0, SECONDS),
    _whole("scale.rl_steps", 1, COUNT, null=True),
    _more_than_0("turn_reward.timeout_s", SECONDS),
    _whole("turn_reward.retries", 0, COUNT),
    # verl's
    Range("*.optim.lr", 0, 10, fine=("1e-6", "5e-5", "0.01")),
    Range("*.optim.weight_decay", 0, 10, fine=("0", "0.1")),
    _more_than_0("*.optim.clip_grad", inf, fine=("0.5",)),
    Range("*.optim.lr_warmup_steps_ratio", 0, 1, fine=("0.1",)),
    _whole("*.optim.lr_warmup_steps", -1, COUNT, fine=("-1", "10")),
    Range("*.grad_clip", 0, inf, fine=("0.5",)),
    _whole("*micro_batch_size*", 1, COUNT, null=True, fine=("1", "2", "4")),
    _whole("*.ppo_mini_batch_size", 1, COUNT, fine=("4", "8")),
    _whole("*.ppo_epochs", 1, COUNT, fine=("1", "2")),
    _whole("*max_token_len_per_gpu", 1, TOKENS, fine=("8192",)),
    Range("*.clip_ratio", 0, 1000, fine=("0.1",)),
    Range("*.clip_ratio_low", 0, 1000, fine=("0.1",)),
    Range("*.clip_ratio_high", 0, 1000, fine=("0.28",)),
    Range("actor_rollout_ref.actor.clip_ratio_c", 1, inf, outside=(1,), fine=("3.0",)),
    Range("*.entropy_coeff", -100, 100, fine=("0", "0.001")),
    Range("*.kl_loss_coef", 0, 1e6, fine=("0.01",)),
    Range("algorithm.kl_ctrl.kl_coef", 0, 1e6, fine=("0.01",)),
    _more_than_0("algorithm.kl_ctrl.target_kl", inf, fine=("0.1",)),
    _more_than_0("algorithm.kl_ctrl.horizon", inf, fine=("1000",)),
    Range("algorithm.gamma", 0, 1, fine=("1", "0.99", "0.0")),
    Range("algorithm.lam", 0, 1, fine=("1.0", "0.95", "0")),
    Range("critic.cliprange_value", 0, inf, fine=("0.5",)),
    Range("*.rollout.temperature", 0, 100, fine=("1", "0.7")),
    Range("*.val_kwargs.temperature", 0, 100, fine=("0", "1.0")),
    _more_than_0("*.top_p", 1, fine=("1", "0.9")),
    _whole("*.top_k", -1, COUNT, fine=("-1", "50")),
    _whole("*.val_kwargs.n", 1, COUNT, fine=("1",)),
    _whole("*.rollout.n", 1, COUNT, fine=("2", "8")),
    _more_than_0("*.gpu_memory_utilization", 1, fine=("0.4", "0.9")),
    _whole("*.tensor_model_parallel_size", 1, PROCESSES, fine=("1",)),
    _whole("*.data_parallel_size", 1, PROCESSES),
    _whole("*.max_num_batched_tokens", 1, TOKENS, fine=("4096",)),
    _whole("*.max_num_seqs", 1, COUNT, fine=("32",)),
    _whole("*.max_model_len", 1, TOKENS, null=True),
    _whole("*.agent.num_workers", 1, PROCESSES, fine=("1", "2")),
    _whole("*.prompt_length", 1, TOKENS),
    _whole("*.response_length", 1, TOKENS),
    _whole("data.max_prompt_length", 1, TOKENS, fine=("256", "512")),
    _whole("data.max_response_length", 1, TOKENS, fine=("256", "1024")),
    _whole("data.train_batch_size", 1, COUNT, fine=("4", "16", "32")),
    _whole("data.*_batch_size", 1, COUNT, null=True),
    _whole("data.dataloader_num_workers", 0, PROCESSES, fine=("0", "2")),
    _whole("trainer.nnodes", 1, PROCESSES, fine=("1",)),
    _whole("trainer.n_gpus_per_node", 1, PROCESSES, fine=("1",)),
    _whole("trainer.save_freq", 1, COUNT, fine=("1", "5")),  # -1 saves nothing that evaluation could play
    _whole("trainer.test_freq", -1, COUNT, fine=("-1", "5")),
    _whole("trainer.total_epochs", 1, COUNT, fine=("10",)),
    _whole("trainer.total_training_steps", 1, COUNT, null=True),
    _whole("trainer.max_*_ckpt_to_keep", 1, COUNT, null=True, fine=("1", "5")),
    _whole("trainer.critic_warmup", 0, COUNT, fine=("0", "2")),
    _whole("trainer.log_val_generations", 0, COUNT, fine=("0",)),
    _more_than_0("trainer.ray_wait_register_center_timeout", SECONDS),
    Range("trainer.v1.*.num_warmup_batches", 0, COUNT, fine=("0.5", "1")),
    _whole("trainer.v1.*.parameter_sync_step", 1, COUNT),
    _whole("trainer.v1.sampler.max_off_policy_threshold", 1, COUNT),
    _more_than_0("algorithm.rollout_correction.rollout_is_threshold", inf, fine=("2.0",)),
    _whole("ray_kwargs.ray_init.num_cpus", 1, PROCESSES, null=True),
)
CHOICES = {
    "budget.count": ("games", "rollouts"),
    "demos.source": ("expert", "episodes"),
    "cluster.launcher": ("here", "slurm", "local_parallel"),
    "trainer.v1.trainer_mode": ("sync", "colocate_async", "separate_async"),
    "env.sandbox": ("auto", "limits"),
    "env.expert": ("searcher", "plan"),
    "env.provider": ("auto", "inline", "git", "container"),
}
# Whole by default, and yet a part of something
FRACTIONS = ("*.top_p", "*.entropy_coeff", "*.over_sample_rate", "*.temperature", "*.horizon", "*.n_gpus_per_node")
# Handed on to somebody else as they are, or null where the chosen options say so
FREE = (
    "*kwargs*",
    "*override_config*",
    "*options*",
    "*tool_config*",
    "*turbo_config*",
    "*.mixed_precision.*",
    "ray_kwargs.*",
    "curriculum.*",
    "actor_rollout_ref.rollout.profiler.*",  # verl's server runs without one
)


@cache
def range_of(key: str) -> Range | None:
    return next((entry for entry in RANGES if fnmatchcase(key, entry.keys)), None)
