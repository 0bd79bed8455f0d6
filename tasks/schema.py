"""The types of our config nodes and the ranges of their numbers.

``conf/config.yaml`` documents them and has their values. Fields have no defaults, so that each
value is written once. An unknown key, or a value of another type or outside its range, is an error
at composition.
"""

from dataclasses import dataclass, field
from typing import Any

from turngrid.algorithms.registry import STATES
from turngrid.rewards.declared import number, word

TURNS = (1, 10**6)
PRICES = (1e-6, 1e12)  # of units, and what they buy
SEEDS = (0, 2**32 - 1)  # numpy takes no others


def option_name() -> Any:
    return field(metadata={"one_word": True})


@dataclass(kw_only=True)
class Env:
    """The environment; its own settings are added (``config/nodes.py``)."""

    name: str
    task: str
    tasks: Any
    max_turns: int | None = number(*TURNS)
    workers: int = number(1, 1024)
    step_deadline_s: float = number(0.1, 86400)
    max_action_tokens: int = number(1, 10**6)
    cache_dir: str | None
    max_actions: int | None = number(*TURNS)
    window_turns: int | None = number(*TURNS)
    window_keep: int | None = number(0, 10**6)


@dataclass(kw_only=True)
class Eval:
    """Held-out games that every checkpoint plays (docs/evaluation.md)."""

    tasks: list[str]
    games: int = number(1, 10**6)
    validation_games: int = number(1, 10**6)
    opponents: list[str] | None
    temperatures: list[float] = field(metadata={"range": (0, 10)})
    samples_per_game: int = number(1, 10**4)
    max_turns: int | None = number(*TURNS)
    servers: bool | None
    library: str | None = word(None, "frozen", "none", "both")
    seed: int = number(*SEEDS)


@dataclass(kw_only=True)
class TurnReward:
    """The reward of a turn (the group ``reward=``; verl owns the name ``reward``)."""

    name: str


@dataclass(kw_only=True)
class Prompt:
    """The prompt form (docs/prompt.md); the settings of its class are added."""

    name: str
    thinking: bool | None


@dataclass(kw_only=True)
class Algo:
    """The algorithm; an estimator's own settings are added. Its numbers are verl's keys."""

    name: str
    state: str | None = word(None, *STATES)


@dataclass(kw_only=True)
class Budget:
    """The units that a run may spend (docs/budget.md)."""

    name: str = option_name()
    units: float = number(*PRICES)
    demo_cost: float = number(*PRICES)
    episode_cost: float = number(*PRICES)
    sft_share: float = number(0, 1)
    count: str = word("games", "rollouts")
    rl_steps: int | None = number(0, 10**9)
    rl_epochs: float | None = number(*PRICES)
    experience_cost: float | None = number(0, 1e12)
    games: int | None = number(1, 10**9)


@dataclass(kw_only=True)
class Demos:
    """Demonstrations (docs/budget.md)."""

    source: str
    run: str | None
    per_game: int = number(1, 10**6)
    max_invalid: int = number(0, 10**6)
    max_turns: int | None = number(*TURNS)
    experience: str | None = word(None, "world_model", "reflection")
    alternatives: int | None = number(1, 1024)
    writer: str | None
    writer_model: str | None
    writer_key_env: str | None


@dataclass(kw_only=True)
class Curriculum:
    """The order of tasks and turn limits (docs/curriculum.md)."""

    name: str = word("none", "phases", "threshold", "horizon")
    phases: Any
    threshold: float = number(0.001, 1)
    window: int = number(1, 10**6)
    keep: bool
    horizon: Any


@dataclass(kw_only=True)
class Sft:
    """verl's SFT trainer."""

    lr: float = number(0, 1)
    epochs: int = number(1, 10**4)
    batch_size: int = number(1, 10**6)
    weight_decay: float = number(0, 10)
    tokens_per_pass: int = number(1, 10**9)


@dataclass(kw_only=True)
class Model:
    """The model (docs/model.md)."""

    name: str = option_name()
    path: str
    context: int = number(1, 10**9)
    lora_rank: int | None = number(1, 512)
    lora_alpha: int | None = number(1, 10**6)
    lora_target_modules: list[str] | None
    rows_per_pass: int | None = number(1, 10**6)
    gradient_checkpointing: bool
    sft: Sft


@dataclass(kw_only=True)
class Slurm:
    """A job of SLURM, one a run (docs/slurm.md), by the names of submitit."""

    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    gres: str | None
    nodes: int = number(1, 4096)
    gpus_per_node: int | None = number(0, 64)
    cpus_per_task: int | None = number(1, 4096)
    mem_gb: int | None = number(0, 10**6)
    timeout_min: int = number(1, 10**6)
    signal_delay_s: int = number(0, 86400)
    max_num_timeout: int = number(0, 10**6)
    array_parallelism: int = number(1, 10**6)
    setup: list[str]
    srun_args: list[str]
    additional_parameters: Any
    wait: bool
    lost_after_s: float = number(0, 10**6)


@dataclass(kw_only=True)
class Cluster:
    """Launcher, precision and limits of the machine (docs/cluster.md).

    The number of nodes and GPUs are verl's keys ``trainer.nnodes`` and ``trainer.n_gpus_per_node``.
    """

    name: str = option_name()
    trainer_threads: int = number(1, 1024)
    rollout_threads: int = number(1, 1024)
    start_deadline_s: float = number(1, 10**6)
    hung_factor: float = number(1, 10**6)
    hung_after_s: float = number(1, 10**6)
    computes_in: str | None = word(None, "fp32", "bf16")
    launcher: str = word("here", "slurm", "local_parallel")
    runs_at_once: int | None = number(1, 1024)
    gpu_memory_gb: float | None = number(1, 10**4)
    slurm: Slurm


@dataclass(kw_only=True)
class Tracking:
    """Trackers (docs/tracking.md); the list of them is verl's ``trainer.logger``."""

    name: str = option_name()
    offline: bool
    group: str | None
    run_name: str | None
    tags: list[str]
    credit: bool
    reasoning: int = number(0, 10**4)
    reasoning_every: int = number(1, 10**6)


@dataclass(kw_only=True)
class Health:
    """Limits of alarms by the names of ``records.health.rules.RULES`` (docs/health.md)."""

    name: str = option_name()
    not_finite: float | None = number(0, 0)
    grad_norm: float | None = number(1, 10**6)
    critic_grad_norm: float | None = number(1, 10**6)
    entropy_up: float | None = number(1, 10**6)
    entropy_down: float | None = number(1, 10**6)
    policy_kl: float | None = number(0, 10**6)
    clip_share: float | None = number(0, 1)
    mismatch: float | None = number(0, 1)
    kl_coefficient: float | None = number(0, 10**6)
    wrong_sign: float | None = number(-1, 1)
    one_sided: float | None = number(0, 0)
    trained_tokens: float | None = number(1, 10**6)
    no_signal: float | None = number(0, 1)
    groups_all_won: float | None = number(0, 1)
    groups_all_lost: float | None = number(0, 1)
    hacked: float | None = number(0.5, 0.9999)
    invalid_actions: float | None = number(1, 10**6)
    unparsed_actions: float | None = number(1, 10**6)
    mostly_unparsed: float | None = number(0, 1)
    repeated_tokens: float | None = number(1, 10**6)
    answers_at_limit: float | None = number(0, 1)
    out_of_context: float | None = number(0, 1)
    repeated_prompts: float | None = number(0, 1)
    staleness: float | None = number(0, 10**6)
    replay_age: float | None = number(0, 10**6)
    slowest_episode: float | None = number(1, 10**6)
    success: float | None = number(0.5, 0.9999)


@dataclass(kw_only=True)
class Scale:
    """Sizes of a run (docs/configuration.md)."""

    name: str = option_name()
    rl_steps: int | None = number(0, 10**9)


NODES: dict[str, Any] = {
    "env": Env,
    "eval": Eval,
    "turn_reward": TurnReward,
    "prompt": Prompt,
    "algo": Algo,
    "budget": Budget,
    "curriculum": Curriculum,
    "demos": Demos,
    "model": Model,
    "cluster": Cluster,
    "tracking": Tracking,
    "health": Health,
    "scale": Scale,
}


@dataclass(kw_only=True)
class Top:
    """Keys outside any node."""

    seed: int = number(*SEEDS)
    precision: str = word("auto", "fp32", "bf16")
    output_dir: str
    fresh: bool
    extend: str | None
    estimate: bool
    estimate_gpu: str | None
    dry_run: bool
