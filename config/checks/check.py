"""The checks of a composed config, in order: refusals and warnings. The tests read the same lists.

Each check is a generator of messages, one line with the problem and the fix. This module does not
import torch or verl: a run is refused before anything heavy starts.
"""

from collections.abc import Callable, Iterator

from omegaconf import DictConfig, OmegaConf

from turngrid.config import asynchronous, base, curriculum_settings, experience, extension, lora, precision
from turngrid.config.checks import environment, estimators, methods, model
from turngrid.config.errors import ConfigError
from turngrid.config.finalise import MICRO_BATCH_KEYS, rows_per_device
from turngrid.config.method_settings import has_critic
from turngrid.config.values.values import because
from turngrid.envs.extensions import shipped
from turngrid.records.run_folder import begun_folder
from turngrid.rollouts.policy import EXACT, RANDOM
from turngrid.tasks.budget import BudgetError, demonstration_price, steps_of_epochs
from turngrid.tasks.demonstrations import episodes_file
from turngrid.tasks.mixture import shares, task_weights
from turngrid.tasks.rejection import DemosError, draw
from turngrid.tasks.run import Run
from turngrid.tasks.splits import demonstration_games

Check = Callable[[Run], Iterator[str]]


ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
PASS_KEYS = (  # tokens of a forward pass, if verl fills it by tokens (use_dynamic_bsz)
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    "critic.ppo_infer_max_token_len_per_gpu",
)
WHOLE = ("model", "optimizer", "extra", "hf_model")  # of a checkpoint; evaluation loads the last
TURN_REWARD = "reward=NAME or turn_reward.name=module:Name"
NOT_READ = {  # keys that verl's V1 trainer does not read or that the pipeline sets itself -> what to use instead
    "custom_reward_function.path": TURN_REWARD,
    "reward.custom_reward_function.path": TURN_REWARD,
    "trainer.total_epochs": "budget.rl_steps",
    "trainer.total_training_steps": "budget.rl_steps",
    "trainer.resume_from_path": "extend=runs/NAME",
    "data.train_files": "env= and env.task=",
    "data.val_files": "env= and env.task=",
    "trainer.default_local_dir": "output_dir=",
    "trainer.experiment_name": "tracking.run_name=",
    "data.seed": "seed=",
    f"{ROLLOUT}.seed": "seed=",
    f"{ACTOR}.data_loader_seed": "seed=",
    "critic.data_loader_seed": "seed=",
    f"{ACTOR}.grad_clip": f"{ACTOR}.optim.clip_grad=",
    "critic.grad_clip": "critic.optim.clip_grad=",
    "critic.ppo_max_token_len_per_gpu": "critic.ppo_infer_max_token_len_per_gpu=",
    f"{ROLLOUT}.multi_turn.max_assistant_turns": "env.max_turns=",
    f"{ROLLOUT}.multi_turn.max_user_turns": "env.max_turns=",
    "actor_rollout_ref.nccl_timeout": "actor_rollout_ref.nccl_timeout=600",
    "trainer.balance_batch": "trainer.balance_batch=true",
}
UNNAMED = "run"  # trainer.experiment_name by default


def set_in_vain(run: Run) -> Iterator[str]:
    for key, instead in NOT_READ.items():
        value, (node, _, name) = OmegaConf.select(run.config, key), key.rpartition(".")
        typed = value is not None and not OmegaConf.is_interpolation(OmegaConf.select(run.config, node), name)
        if typed and value not in (OmegaConf.select(base.verl_tree(), key), UNNAMED):
            yield f"{key}={value}: it changes nothing here; use {instead}"
    budget, prompts = run.config.budget, run.config.data.train_batch_size
    typed = budget.rl_epochs not in (None, shipped("budget", budget.name).get("rl_epochs"))
    if typed and budget.sft_share < 1 and not run.config.extend and budget.rl_steps != steps_of_epochs(budget, prompts):
        games = budget.count == "games"
        by = f"budget.rl_steps={budget.rl_steps}" if games else f"budget.count={budget.count}"
        use = "budget.rl_steps=null" if games else "budget.count=games budget.rl_steps=null"
        yield f"budget.rl_epochs={budget.rl_epochs:g}: {by} sets the steps; use {use}"


def critic_off(run: Run) -> Iterator[str]:
    config = run.config
    needs_critic = run.algorithm.needs_critic or config.algorithm.adv_estimator == "gae"
    if needs_critic and config.critic.enable is False:
        name = config.algo.name
        yield f"critic.enable=false: algo={name} learns from a critic; use critic.enable=null or algo=grpo"


def batches(run: Run) -> Iterator[str]:
    config = run.config
    actor, samples = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
    sizes = {
        "data.train_batch_size": config.data.train_batch_size,
        f"{ACTOR}.ppo_mini_batch_size": actor.ppo_mini_batch_size,
    }
    (batch_key, batch), (mini_key, mini) = sizes.items()
    if batch % mini:
        yield f"{batch_key}={batch} and {mini_key}={mini}: the first must be a multiple; use {mini_key}={batch}"
    devices = config.trainer.n_gpus_per_node * config.trainer.nnodes
    for key, prompts in sizes.items():
        if prompts * samples % devices:
            of_n = f"{prompts * samples} episodes ({ROLLOUT}.n={samples})"
            over = f"trainer.nnodes x trainer.n_gpus_per_node = {devices}"
            yield f"{key}={prompts}: its {of_n} do not divide over {over}; use another {key}"
    key, parallel = f"{ROLLOUT}.tensor_model_parallel_size", config.actor_rollout_ref.rollout.tensor_model_parallel_size
    if (gpus := config.trainer.n_gpus_per_node) % parallel:
        yield f"{key}={parallel}: it must divide trainer.n_gpus_per_node={gpus}; use {key}=1"
    key, batch = "model.sft.batch_size", config.model.sft.batch_size
    if config.budget.sft_share and config.trainer.device == "cuda" and batch % gpus:
        use = f"{key}={-(-batch // gpus) * gpus}"
        yield f"{key}={batch}: it must be a multiple of trainer.n_gpus_per_node={gpus}; use {use}"


def passes(run: Run) -> Iterator[str]:
    """Refuse forward passes whose size in rows or tokens verl cannot fill."""
    config = run.config
    rows, longest = rows_per_device(config), config.data.max_prompt_length + config.data.max_response_length
    for key in PASS_KEYS if config.actor_rollout_ref.actor.use_dynamic_bsz else ():
        if (tokens := OmegaConf.select(config, key)) is not None and tokens < longest:
            row = f"a row of data.max_prompt_length + data.max_response_length = {longest} tokens"
            yield f"{key}={tokens}: it must hold {row}; use {key}={longest} or more"
    for key in () if config.actor_rollout_ref.actor.use_dynamic_bsz else MICRO_BATCH_KEYS:
        if rows % (size := OmegaConf.select(config, key)):
            yield f"{key}={size}: it must divide a device's mini-batch of {rows} episodes; use {key}=1"


def bad_trainer(run: Run) -> Iterator[str]:
    config, mode = run.config, asynchronous.mode(run.config)
    if config.health.name == "rollback" and mode != asynchronous.SYNC:
        reason = "episodes in its queue are of the policy that a rollback drops"
        yield f"health=rollback and trainer.v1.trainer_mode={mode}: {reason}; use health=stop"
    if config.tracking.reasoning == 1:
        yield "tracking.reasoning=1: an answer is compared with others; use tracking.reasoning=16"
    if config.trainer.device == "cpu":
        yield from _processes_on_cpus(config)


def _processes_on_cpus(config: DictConfig) -> Iterator[str]:
    if (nodes := config.trainer.nnodes) > 1:
        yield f"trainer.nnodes={nodes}: on CPUs a run has one machine; use trainer.n_gpus_per_node={nodes}"
    key, needed = "ray_kwargs.ray_init.num_gpus", asynchronous.gpus_needed(config)
    logical = OmegaConf.select(config, key)  # null where Ray runs already
    if logical is not None and logical < needed:
        yield f"{key}={logical}: each process of trainer and separate servers takes one; use {key}={needed}"


def bad_checkpoints(run: Run) -> Iterator[str]:
    """Refuse checkpoints from which a run could not go on, or which evaluation could not load."""
    nodes = (ACTOR, "critic") if has_critic(run.config) else (ACTOR,)
    reason = "a run goes on from model, optimizer and extra, and evaluation loads hf_model"
    for key in (f"{node}.checkpoint.{verb}_contents" for node in nodes for verb in ("save", "load")):
        needed = WHOLE if key == f"{ACTOR}.checkpoint.save_contents" else WHOLE[:3]
        contents = list(OmegaConf.select(run.config, key) or ())
        if missing := [what for what in needed if what not in contents]:
            yield f"{key}={contents}: {reason}; use {key}=[{','.join([*contents, *missing])}]"


def too_few_checkpoints(run: Run) -> Iterator[str]:
    """Refuse a rollback without a checkpoint before the steps that an alarm looked at.

    In step s, which is not saved yet, these are the steps from ``s - LOOK_BACK + 1`` on.
    """
    from turngrid.records.health.rules import LOOK_BACK  # imports numpy, which --help does not need

    if run.config.health.name != "rollback":
        return
    trainer, roles = run.config.trainer, ("actor", "critic") if has_critic(run.config) else ("actor",)
    needed = 1 + -(-(LOOK_BACK - 1) // trainer.save_freq)
    for key in (f"max_{role}_ckpt_to_keep" for role in roles):
        if (kept := trainer[key]) and kept < needed:
            reason = f"with trainer.save_freq={trainer.save_freq} health=rollback may find none before an alarm's steps"
            yield f"trainer.{key}={kept}: {reason}; use trainer.{key}={needed}"


# ---- budget and demonstrations


FREE = "sft_rl"  # the only option whose share may be changed, since a run's folder has the option's name
OF_WINS = {"max_invalid": 0, "max_turns": None, "per_game": 1}  # keys of rejection sampling, with their defaults
LEAST_MOVE = 2e-5  # minimum change of a weight by SFT


def bad_budget(run: Run) -> Iterator[str]:
    budget = run.config.budget
    if budget.name != FREE and budget.sft_share != shipped("budget", budget.name).get("sft_share", budget.sft_share):
        yield f"budget.sft_share={budget.sft_share}: budget={budget.name} has its own share; use budget={FREE}"
    units, price = budget.units * budget.sft_share, float(demonstration_price(budget))
    if budget.sft_share and units < price:
        reason = f"SFT's share of {units:g} units cannot pay a demonstration of {price:g}"
        use = "a higher budget.units or budget.sft_share, a lower budget.demo_cost or budget.experience_cost"
        yield f"budget.units={budget.units:g}: {reason}; use {use}, or budget=rl_only"
    try:
        _ = run.allocation
    except BudgetError as error:
        yield str(error)


def bad_demonstrations(run: Run) -> Iterator[str]:
    demos, family = run.config.demos, run.environment
    without = family.seats and EXACT not in family.opponents and run.config.budget.sft_share
    offered = [*(() if without else ("expert",)), "episodes", *([RANDOM] if family.seats else [])]
    if demos.source not in offered:
        uses = " or ".join(f"demos.source={source}" for source in offered)
        yield f"demos.source={demos.source}: env={run.config.env.name} has no such demonstrations; use {uses}"
    if demos.source != "episodes" and demos.run:
        yield f"demos.run={demos.run}: demos.source={demos.source} reads no run; use demos.source=episodes"
    for key, default in OF_WINS.items() if demos.source != "episodes" else ():
        if demos[key] != default and not (key == "per_game" and family.seats):
            reason = f"demos.source={demos.source} does not read it"
            yield f"demos.{key}={demos[key]}: {reason}; use demos.{key}={'null' if default is None else default}"
    if family.seats and demos.experience:
        yield f"demos.experience={demos.experience}: it replays games of one seat; use demos.experience=null"
    if demos.source == "episodes" and (run.config.fresh or not episodes_file(begun_folder(run.config)).exists()):
        try:
            draw(run, run.allocation.demonstrations)
        except DemosError as error:
            yield str(error)


def nothing_left(run: Run) -> Iterator[str]:
    """Refuse RL without a step, and a task without a training game, demonstration or test game."""
    config, budget, weights = run.config, run.config.budget, task_weights(run.config.env)
    if budget.sft_share < 1 and budget.rl_steps is not None and budget.rl_steps < 1:
        reason = f"the budget has a share for RL{because(config, 'budget.rl_steps')}"
        yield f"budget.rl_steps={budget.rl_steps}: {reason}; use budget.rl_steps=1 or more"
    counts = {"training games": run.allocation.games, "demonstrations": demonstration_games(run)}
    counts["test games"] = config.eval.games
    for what, count in counts.items():
        if none := next((task for task, share in shares(weights, count).items() if count and not share), None):
            yield f"env.tasks: {count} {what} leave none for {none}; use more of them, or a higher weight"


def sft_of_nothing(run: Run) -> Iterator[str]:
    """Warn if SFT hardly changes the model: Adam moves a weight by about ``lr`` an update."""
    sft, demonstrations = run.config.model.sft, run.allocation.demonstrations
    updates = sft.epochs * -(-demonstrations // sft.batch_size)
    if updates and updates * sft.lr < LEAST_MOVE:
        reason = f"{updates} updates on {demonstrations} demonstrations change next to nothing, as in the study"
        yield f"model.sft.lr={sft.lr:g}: {reason}; model.sft.lr=1e-5 model.sft.epochs=3 is a usual choice"


CHECKS: tuple[Check, ...] = (
    model.estimate_gpu,
    precision.of_gpus,
    precision.typed_dtypes,
    model.unusable_folders,
    environment.unknown_task,
    environment.reward_not_offered,
    environment.bad_reward_settings,
    environment.step_deadline,
    environment.bad_window,
    environment.bad_prompt,
    environment.bad_actions,
    model.long_name,
    critic_off,
    batches,
    passes,
    methods.bad_methods,
    bad_budget,
    methods.bad_schedules,
    bad_demonstrations,
    experience.bad_experience,
    nothing_left,
    curriculum_settings.bad_curriculum,
    model.bad_model,
    lora.bad_adapters,
    environment.bad_evaluation,
    environment.bad_opponents,
    environment.not_in_this_environment,
    bad_trainer,
    bad_checkpoints,
    too_few_checkpoints,
    asynchronous.bad_async,
    estimators.bad_correction,
)
WARNINGS: tuple[Check, ...] = (
    extension.depends_on_length,
    environment.too_few_turns,
    methods.doubtful_methods,
    estimators.cut_samples,
    set_in_vain,
)
OF_MODEL: tuple[Check, ...] = (  # warnings that ``turngrid-play`` skips, as it does bad_demonstrations
    environment.little_room,
    lora.far_lr,
    sft_of_nothing,
    precision.without_instructions,
    model.doubtful_model,
)


def check(config: DictConfig, with_model: bool = True) -> list[str]:
    """Return the config's warnings; raise ConfigError with the first refusal."""
    run = Run(config)
    for refused in CHECKS:
        if (with_model or refused is not bad_demonstrations) and (message := next(refused(run), None)):
            raise ConfigError(message)
    return [message for warned in (*WARNINGS, *(OF_MODEL if with_model else ())) for message in warned(run)]
