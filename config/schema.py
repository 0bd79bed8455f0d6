"""The types of our own config nodes, and the ranges of their numbers.

A key that is not here, or a value of another type or outside its range, is an error at composition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

TURNS = (1, 10**6)
PRICES = (1e-6, 1e12)  # of units, and what they buy
SEEDS = (0, 2**32 - 1)  # numpy takes no others


def number(default: Any, low: float, high: float) -> Any:
    """A field with a range, both ends included. An environment's or a reward's own settings say it as this does, by
    ``metadata={"range": (low, high)}``."""
    return field(default=default, metadata={"range": (low, high)})


def choice(default: str, *others: str) -> Any:
    """A field that is one of some words."""
    return field(default=default, metadata={"choices": (default, *others)})


def option_name() -> Any:
    """A field that names the chosen option."""
    return field(default=MISSING, metadata={"one_word": True})


@dataclass
class Env:
    """Which environment is played, and how.

    Attributes:
        tasks: a mixture in place of ``task``: a list (equal weights), or task -> weight; ``docs/mixtures.md``.
        max_turns: actions an episode may have; None means what the environment says for the task (the most, in a
            mixture).
        workers: processes that play the games.
        step_deadline_s: seconds after which a step counts as hung and its worker is replaced.
        max_action_tokens: tokens that the model may spend on one action.
        cache_dir: where games are kept; None means ``TURNGRID_CACHE``, else ``~/.cache/turngrid``.
        window_turns: turns that a token row holds at most: the model sees no more of an episode, which then has several
            rows (``docs/rollout_server.md``); None: all of them.
        window_keep: turns with which the next row begins, as part of its prompt; None: half of ``window_turns``.
    """

    name: str = MISSING
    task: str = MISSING
    tasks: Any = None
    max_turns: int | None = number(None, *TURNS)
    workers: int = number(2, 1, 1024)
    step_deadline_s: float = number(20.0, 0.1, 86400)
    max_action_tokens: int = number(16, 1, 10**6)
    cache_dir: str | None = None
    window_turns: int | None = number(None, *TURNS)
    window_keep: int | None = number(None, 0, 10**6)


@dataclass
class Eval:
    """Held-out games that every checkpoint of a run plays (docs/evaluation.md).

    Attributes:
        tasks: whose games, each an evaluation set of its own, ``ENV/TASK`` for another environment's; none: the run's
            own task.
        games: of each evaluation set.
        validation_games: of the split ``validation``, played every ``trainer.test_freq`` RL steps if that is above 0.
        temperatures: of sampling, one after the other; 0 is greedy.
        samples_per_game: times that each game is played; from 2 on, pass@k is reported.
        max_turns: of every evaluation set; None: ``env.max_turns`` on the run's own task, the environment's limit on
            any other.
        servers: play through rollout servers on all GPUs of the run, or in one process; None: servers where they are vLLM's
            on GPUs.
    """

    tasks: list[str] = field(default_factory=list)
    games: int = number(200, 1, 10**6)
    validation_games: int = number(100, 1, 10**6)
    temperatures: list[float] = field(default_factory=lambda: [0.4], metadata={"range": (0, 10)})
    samples_per_game: int = number(1, 1, 10**4)
    max_turns: int | None = number(None, *TURNS)
    servers: bool | None = None
    seed: int = number(0, *SEEDS)


@dataclass
class TurnReward:
    """What a turn earns (the group ``reward=``; verl owns the name ``reward``)."""

    name: str = MISSING


@dataclass
class Prompt:
    """What the agent is told and how its answers are read (docs/prompt.md); a form adds its settings.

    Attributes:
        admissible, history, train_thoughts, tell_format: as in ``rollouts.prompt_forms.form.PromptForm``.
        thinking: whether a model whose chat template can be told (``enable_thinking``, as Qwen3's) thinks by itself before it answers;
            None: as its template has it.
    """

    name: str = "plain"
    admissible: bool = False
    history: int | None = number(None, 0, 10**6)
    train_thoughts: bool = True
    tell_format: bool = True
    thinking: bool | None = None


@dataclass
class Algo:
    """A name of ``algorithms.registry``; the numbers are verl's keys.

    Attributes:
        state: what makes two states of a group equal for methods that compare states: ``observation`` (None means that),
            ``observation+goal``, ``observation+turn`` or ``history``: everything that was seen and done before.
    """

    name: str = MISSING
    state: str | None = None


@dataclass
class Budget:
    """What a run may spend; ``docs/budget.md`` has the arithmetic.

    Attributes:
        count: ``games`` charges a distinct game once, ``rollouts`` every episode played.
        rl_steps: training length; None means ``rl_epochs`` passes over the games (``count=games``), or whatever the
            budget pays for (``count=rollouts``).
        experience_cost: what the alternatives of a demonstration cost (``demos.experience``); None: ``episode_cost`` for each that is
            drawn at a state.
        games: distinct training games at most; None: as many as the units buy and the steps can visit.
    """

    name: str = option_name()
    units: float = number(1000.0, *PRICES)
    demo_cost: float = number(10.0, *PRICES)
    episode_cost: float = number(1.0, *PRICES)
    sft_share: float = number(MISSING, 0, 1)
    count: str = choice("games", "rollouts")
    rl_steps: int | None = number(None, 0, 10**9)
    rl_epochs: float | None = number(None, *PRICES)
    experience_cost: float | None = number(None, 0, 1e12)
    games: int | None = number(None, 1, 10**9)


@dataclass
class Demos:
    """Where demonstrations come from; each costs ``budget.demo_cost`` wherever that is (``docs/budget.md``).

    Attributes:
        source: ``expert`` plays the games' expert plans, ``episodes`` takes the wins of another run.
        run: the run folder whose training episodes are taken (``source=episodes``).
        per_game: demonstrations of one game at most.
        max_invalid: actions that the environment did not understand, at most.
        max_turns: actions at most; None means ``env.max_turns``.
        experience: SFT also learns from the model's own actions at the demonstrations' states: ``world_model`` or ``reflection``.
        alternatives: actions that are drawn at each state; None: 8, or 3 for ``reflection``.
        writer: of reflections, a chat endpoint up to and with ``/v1``; ``writer_key_env`` names the variable with its key.
    """

    source: str = "expert"
    run: str | None = None
    per_game: int = number(1, 1, 10**6)
    max_invalid: int = number(0, 0, 10**6)
    max_turns: int | None = number(None, *TURNS)
    experience: str | None = None
    alternatives: int | None = number(None, 1, 1024)
    writer: str | None = None
    writer_model: str | None = None
    writer_key_env: str | None = None


@dataclass
class Curriculum:
    """What is played when; ``docs/curriculum.md`` has examples. Steps are counted from 1.

    Attributes:
        phases: first step -> the tasks of ``env.tasks`` that are played from then on.
        threshold: share of the newest task's episodes, over the last ``window`` steps, at which the next task comes.
        keep: go on playing the tasks before the newest.
        horizon: first step -> turns that an episode may have from then on; None: ``env.max_turns`` throughout.
    """

    name: str = option_name()
    phases: Any = None
    threshold: float = number(0.7, 0.001, 1)
    window: int = number(3, 1, 10**6)
    keep: bool = False
    horizon: Any = None


@dataclass
class Sft:
    """verl's SFT trainer; the defaults are the study's, the batch (in episodes) is our choice."""

    lr: float = number(1.0e-6, 0, 1)
    epochs: int = number(1, 1, 10**4)
    batch_size: int = number(16, 1, 10**6)
    weight_decay: float = number(0.01, 0, 10)
    tokens_per_pass: int = number(8192, 1, 10**9)


@dataclass
class Model:
    """``path``: ``asset://``, ``packaged://``, a folder, or a Hugging Face name. ``context``: tokens it can attend to.

    Attributes:
        lora_rank: train adapters of this rank beside frozen weights (``docs/model.md``); None: all weights.
        lora_alpha: an adapter's product counts ``lora_alpha / lora_rank`` times; None: 32.
        lora_target_modules: names of linear layers, as ``q_proj``; None: all in the model's blocks.
    """

    name: str = option_name()
    path: str = MISSING
    context: int = number(MISSING, 1, 10**9)
    lora_rank: int | None = number(None, 1, 512)
    lora_alpha: int | None = number(None, 1, 10**6)
    lora_target_modules: list[str] | None = None
    sft: Sft = field(default_factory=Sft)


@dataclass
class Slurm:
    """A job of SLURM's, one a run (``docs/slurm.md``). None leaves a key to SLURM; hydra-submitit-launcher's names.

    Attributes:
        gres: in place of ``gpus_per_node``, as in ``gpu:a100:8``.
        mem_gb: of a node.
        timeout_min: time limit of a job, in minutes.
        signal_delay_s: seconds before the limit at which a run is ended and its job goes back into the queue.
        max_num_timeout: times that a job may go back into the queue.
        array_parallelism: jobs of one launch that run at once.
        setup: shell lines before the run, such as ``module load cuda``.
        srun_args: arguments of srun, such as ``--container-image=...``.
        additional_parameters: any other options of sbatch, as in ``{mail-type: FAIL}``.
        wait: whether the launch waits for its jobs.
        lost_after_s: seconds after which a job that SLURM has ended, or knows nothing of, and that left no result is
            given up.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    nodes: int = number(1, 1, 4096)
    gpus_per_node: int | None = number(None, 0, 64)
    cpus_per_task: int | None = number(None, 1, 4096)
    mem_gb: int | None = number(None, 0, 10**6)
    timeout_min: int = number(1440, 1, 10**6)
    signal_delay_s: int = number(120, 0, 86400)
    max_num_timeout: int = number(20, 0, 10**6)
    array_parallelism: int = number(256, 1, 10**6)
    setup: list[str] = field(default_factory=list)
    srun_args: list[str] = field(default_factory=list)
    additional_parameters: Any = None
    wait: bool = True
    lost_after_s: float = number(60.0, 0, 10**6)


@dataclass
class Cluster:
    """A name; what it means is in verl's keys.

    Attributes:
        trainer_threads: torch threads of the trainer on CPUs. It works while server and games wait, so it may have
            their cores too; a model with a hidden size below 256 gains nothing from that and has one.
        start_deadline_s: seconds from the RL stage's start to its first step, after which it is given up.
        launcher: who starts runs: ``here`` (one after the other), ``slurm`` or ``local_parallel``.
        runs_at_once: of ``local_parallel``; None: one for every two cores, and at least two.
        gpu_memory_gb: memory of a card, by which GPU options choose their sizes; None: nobody asks.
    """

    name: str = option_name()
    trainer_threads: int = number(1, 1, 1024)
    start_deadline_s: float = number(1800.0, 1, 10**6)
    launcher: str = choice("here", "slurm", "local_parallel")
    runs_at_once: int | None = number(None, 1, 1024)
    gpu_memory_gb: float | None = number(None, 1, 10**4)
    slurm: Slurm = field(default_factory=Slurm)


@dataclass
class Tracking:
    """``group`` and ``tags`` are for Weights & Biases; runs of one grid share a group. ``run_name``: what trackers
    call the run; None means its folder's name. ``credit``: keep each token's advantage, return and value. ``verl_names``: trackers
    get what verl reports under verl's names too."""

    name: str = option_name()
    offline: bool = False
    group: str | None = None
    run_name: str | None = None
    tags: list[str] = field(default_factory=list)
    credit: bool = True
    verl_names: bool = False


@dataclass
class Scale:
    """``laptop``, ``first`` or ``paper``; ``rl_steps`` is what ``budget.rl_steps`` follows."""

    name: str = option_name()
    rl_steps: int | None = number(None, 0, 10**9)


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
    "scale": Scale,
}


@dataclass
class Top:
    """Keys outside any node."""

    seed: int = number(0, *SEEDS)
    output_dir: str = "runs"
    fresh: bool = False
    extend: str | None = None
    estimate: bool = False
    estimate_gpu: str | None = None
    dry_run: bool = False
