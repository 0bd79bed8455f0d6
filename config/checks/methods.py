"""Which methods cannot be combined: with each other, with an algorithm, with verl's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from algorithms.chosen import Method, algorithm
from algorithms.registry import FORM, LOSS_MODE, OF_TURNS, ONE, SLOTS
from config import asynchronous
from config.checks import estimators, rollout_forms
from config.errors import first
from config.method_settings import SAMPLING, has_critic, kinds, made
from config.prompts import one_row, several_rows
from envs.registry import make_environment
from rewards.named import NAMED, named_reward
from rewards.shaping.g_ra import GRa
from rewards.shaping.view import TRAINED
from tasks.budget import allocate_budget

ROW_MEAN = "seq-mean-token-mean"
PAYS_WINS_ALONE = ("sparse", "binary")  # of the rewards


@first
def bad_methods(config: DictConfig) -> Iterator[str]:
    yield from _verls_own(config)
    yield from _over_batch(config)
    yield from estimators.reasons(config)
    if not any(config.get(slot) for slot in SLOTS):
        return
    yield from _slots(config)
    yield from _shaping(config)
    yield from _named(config)
    yield from rollout_forms.reasons(config)
    yield from _credit(config)
    yield from _compared(config)
    yield from _replacing(config)
    yield from _masks(config)
    yield from _turn_clip(config)
    yield from _step_level(config)
    yield from _sampling(config)
    yield from _in_async(config)


def _verls_own(config: DictConfig) -> Iterator[str]:
    """Keys of verl's that a slot sets, or that go against one."""
    mode, chosen = config.actor_rollout_ref.actor.policy_loss.loss_mode, list(config.get("loss") or {})
    key = f"actor_rollout_ref.actor.policy_loss.loss_mode={mode}"
    if chosen and mode != LOSS_MODE:
        yield f"loss={chosen[0]} would do nothing with {key}: set {LOSS_MODE}, or leave out the one or the other"
    if mode == LOSS_MODE and not chosen:
        yield f"{key} stands for a loss of ours: choose one, such as loss=turn_clip"
    if mode == "gspo" and (key := several_rows(config)):
        yield (
            f"loss=gspo has one ratio a row and {key} makes several rows of an episode: choose "
            f"loss=turn_clip, or {one_row(key)}"
        )
    for node in ("actor_rollout_ref.actor", "critic"):
        if OmegaConf.select(config, f"{node}.loss_agg_mode") == ROW_MEAN and (key := several_rows(config)):
            yield (
                f"{node}.loss_agg_mode={ROW_MEAN} takes the mean of each row and {key} makes several rows of an episode: set "
                f"actor_rollout_ref.actor.loss_agg_mode=token-mean, or {one_row(key)}"
            )
    if config.distillation.enabled:
        yield (
            "distillation.enabled=true asks teacher servers on GPUs of their own, which rollouts here do not ask: choose algo=distill "
            "algo.teacher=MODEL"
        )
    if config.algorithm.filter_groups.enable:
        yield (
            "algorithm.filter_groups.enable=true plays on without an end, since verl ignores its max_num_gen_batches: choose "
            f"filter=[{SAMPLING}]"
        )


def _over_batch(config: DictConfig) -> Iterator[str]:
    """Methods that compare all episodes of a step, of which ``separate_async`` takes one update's share at a time."""
    batch, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    if asynchronous.mode(config) != asynchronous.SEPARATE or mini == batch:
        return
    chosen = [("algo", config.algo.name, algorithm(config.algo.name))]
    chosen += [(slot, *method) for slot in ("filter", "credit") for method in made(config).of(slot, 1).items()]
    for slot, name, method in chosen:
        if getattr(method, "over_batch", False):
            yield (
                f"{slot}={name} compares all episodes of a step, and trainer.v1.trainer_mode=separate_async has {mini} of {batch} "
                f"prompts at a time: set actor_rollout_ref.actor.ppo_mini_batch_size={batch}, or trainer.v1.trainer_mode=colocate_async"
            )


def _slots(config: DictConfig) -> Iterator[str]:
    for slot in ONE:
        if len(names := list(config.get(slot) or {})) > 1:
            yield f"{slot}=[{','.join(names)}]: choose one, since a step has one"


def _shaping(config: DictConfig) -> Iterator[str]:
    before: list[str] = []
    for name, method in made(config).of("shaping", 1).items():
        if before and isinstance(method, GRa) and TRAINED not in method.reads:
            yield (
                f"shaping=[{','.join([*before, name])}]: {name} pays its levels alone, so what {before[-1]} did would be lost: put "
                f"{name} first, or {{reward: {TRAINED}}} among its levels"
            )
        before.append(name)


def _named(config: DictConfig) -> Iterator[str]:
    """Of the rewards that methods read by name."""
    environment, chosen = make_environment(config.env.name, config.env), config.turn_reward.name
    for name in sorted(made(config).reads() - {*NAMED, chosen}):
        try:
            problem = getattr(named_reward(name), "problem", str)()
        except (ValueError, ImportError, AttributeError) as error:
            yield f"a method reads the reward {name}: {error}"
            continue
        if problem:
            yield f"a method reads the reward {name}, which is asked with its own settings only as reward={name}: {problem}"
        if not environment.offers(name):
            names = ", ".join([*NAMED, *environment.rewards])
            yield f"a method reads the reward {name}, which env={config.env.name} does not offer; it offers: {names}"


def _credit(config: DictConfig) -> Iterator[str]:
    grain = algorithm(config.algo.name).grain
    for name, kind in kinds(config, "credit"):
        if grain not in (taken := getattr(kind, "grains", (grain,))):
            yield (
                f"credit={name} acts on one advantage for each {' or '.join(sorted(taken))} and algo={config.algo.name} has one for "
                f"each {grain}: choose algo=grpo or algo=rloo"
            )
        if "rloo" in (config.algo.name, algorithm(config.algo.name).built_on) and config.credit[name].get("std"):
            yield f"algo={config.algo.name} divides by no standard deviation, so nor may credit.{name}.std: set it to false"


def _compared(config: DictConfig) -> Iterator[str]:
    samples = config.actor_rollout_ref.rollout.n
    for slot in ("filter", "credit", "buffer"):
        for name, kind in kinds(config, slot):
            if getattr(kind, "compares", False) and samples < 2:
                yield (
                    f"{slot}={name} compares the samples of a prompt: set actor_rollout_ref.rollout.n to 2 or more, not {samples}"
                )
    if config.get("buffer") and has_critic(config):
        yield (
            f"buffer={next(iter(config.buffer))} replays episodes for the policy alone and algo={config.algo.name} learns from a "
            "critic: choose algo=grpo or algo=rloo"
        )


def _replacing(config: DictConfig) -> Iterator[str]:
    """Of a buffer that puts an episode's one row in the place of another's, with the log-probs that it was sampled with."""
    correction, forms = config.algorithm.rollout_correction, made(config).of(FORM, 1)
    for name in _replacers(config):
        if key := several_rows(config):
            yield f"buffer={name} replaces one row by another and {key} makes several of an episode: choose {one_row(key)}"
        if SAMPLING in (config.get("filter") or {}):
            yield f"filter=[{SAMPLING}] plays another group in the place of one that buffer={name} would mend: choose one"
        if branching := next((word for word, form in forms.items() if form.branches), None):
            yield f"rollout_form={branching} has episodes share turns, so buffer={name} cannot replace one: choose rollout_form=linear"
        if not correction.bypass_mode and correction.rollout_is != "token":
            yield (
                f"buffer={name} learns from episodes of earlier policies, which nothing would correct for: set "
                "algorithm.rollout_correction.rollout_is=token, or algorithm.rollout_correction.bypass_mode=true"
            )


def _replacers(config: DictConfig) -> list[str]:
    return [name for name, kind in kinds(config, "buffer") if hasattr(kind, "replace")]


def no_game_comes_again(config: DictConfig) -> str | None:
    """What such a buffer keeps of a game is of use when the game is played again."""
    bought = allocate_budget(config)
    prompts = bought.steps * int(config.data.train_batch_size)
    if not (names := _replacers(config)) or prompts > bought.games:
        return None
    return (
        f"buffer={names[0]} waits for a game to be played again and {prompts} prompts of {bought.games} games are each played once: "
        "lower budget.units, or raise budget.rl_steps"
    )


def _masks(config: DictConfig) -> Iterator[str]:
    aggregation = str(config.actor_rollout_ref.actor.loss_agg_mode)
    if config.get("filter") and aggregation.startswith("seq-mean"):
        yield (
            f"filter=[{','.join(config.filter)}] mutes episodes and loss_agg_mode={aggregation} divides by their number all the same: "
            "set actor_rollout_ref.actor.loss_agg_mode=token-mean"
        )


def _turn_clip(config: DictConfig) -> Iterator[str]:
    name = next(iter(config.get("loss") or {}), "")
    if name not in OF_TURNS:
        return
    correction = config.algorithm.rollout_correction
    if str(correction.get("rollout_rs") or "").startswith("token"):
        yield f"loss={name} takes a ratio over all tokens of a turn and rollout_correction.rollout_rs drops some: set it to null"
    updates = config.data.train_batch_size // config.actor_rollout_ref.actor.ppo_mini_batch_size
    if correction.get("rollout_is") == "token" and updates * config.actor_rollout_ref.actor.ppo_epochs > 1:
        yield (
            f"loss={name} and algorithm.rollout_correction.rollout_is=token would correct the same samples twice over several "
            "updates: set rollout_is=null, or actor_rollout_ref.actor.ppo_mini_batch_size=data.train_batch_size"
        )


def _step_level(config: DictConfig) -> Iterator[str]:
    """hgpo takes the place of what came before it, and counts the same returns as other methods that compare turns."""
    names = list(config.get("credit") or {})
    if "hgpo" not in names:
        return
    for name, kind in kinds(config, "credit"):
        if name != "hgpo" and getattr(kind, "compares_turns", False):
            yield f"credit=[{','.join(names)}]: hgpo and {name} would count the same turns twice: choose one"
    if names[0] != "hgpo":
        yield f"credit=[{','.join(names)}]: hgpo would undo what acts before it: put it first"


def _sampling(config: DictConfig) -> Iterator[str]:
    """Filters that also say how much is played, or how much is left."""
    filters: Any = config.get("filter") or {}
    mode = asynchronous.mode(config)
    if "std_top" in filters:
        groups, settings = config.data.train_batch_size, OmegaConf.to_container(filters.std_top, resolve=True)
        if not Method("filter", "std_top", cast(dict[str, Any], settings)).at(1).kept(groups):
            yield (
                f"filter=[std_top] would keep int({filters.std_top.share} x {groups}) = 0 groups of data.train_batch_size={groups}: "
                "raise filter.std_top.share"
            )
    if SAMPLING not in filters:
        return
    if mode != asynchronous.SYNC:
        yield f"filter=[{SAMPLING}] plays more within a step and trainer_mode={mode} plays ahead: choose filter=[zero_std]"
    if config.budget.count == "rollouts":
        yield (
            f"filter=[{SAMPLING}] plays as many episodes as it takes and budget.count=rollouts pays for a fixed number a step: "
            "set budget.count=games, or choose filter=[zero_std]"
        )


def schedule_out_of_range(config: DictConfig) -> str | None:
    """A schedule that leaves, while the run lasts, what its setting may be."""
    try:
        made(config).refuse(allocate_budget(config).steps)
    except ValueError as error:
        return str(error)
    return None


def hides_credit(config: DictConfig) -> str | None:
    """Episodes that are cut off are muted, and the reward pays them for what they had done by then."""
    reward = config.turn_reward.name
    if "over_turns" not in (config.get("filter") or {}) or reward in PAYS_WINS_ALONE:
        return None
    return (
        f"filter=[over_turns] leaves out episodes that were cut off, and with them what reward={reward} paid them for"
    )


def loses_kl(config: DictConfig) -> str | None:
    """Credit that takes the place of the advantages is computed of rewards without the KL."""
    credit = config.get("credit") or {}
    name = next((name for name in credit if name == "graft" or (name == "hgpo" and not credit.hgpo.get("base"))), None)
    if not name or not config.algorithm.use_kl_in_reward:
        return None
    return (
        f"credit={name} replaces the advantages, and with them the KL of algorithm.use_kl_in_reward=true: set it to false, and "
        "actor_rollout_ref.actor.use_kl_loss=true for a KL in the loss"
    )


def biased_stops(config: DictConfig) -> str | None:
    """Credit by turn t and a won outcome alone do not tell an agent that going on earns more."""
    credit = (config.get("credit") or {}).get("mt_grpo")
    if not credit or (credit.outcome, credit.scope) != ("won", "own"):
        return None
    if not make_environment(config.env.name, config.env).agent_stops:
        return None
    return (
        f"credit.mt_grpo.outcome=won compares turn t with other turns t alone, and in env={config.env.name} the agent decides when to "
        "stop: what only longer episodes earn is not credited; use credit.mt_grpo.outcome=reward"
    )


def _in_async(config: DictConfig) -> Iterator[str]:
    mode = asynchronous.mode(config)
    if mode == asynchronous.SYNC:
        return
    for name, kind in kinds(config, "buffer"):
        if getattr(kind, "synchronous", False):
            yield f"buffer={name} counts synchronous steps: leave trainer.v1.trainer_mode=sync"
    stateful = [name for slot in ("terms", "buffer") for name in config.get(slot) or {}]
    if mode == asynchronous.SEPARATE and stateful:
        yield f"{', '.join(stateful)}: trainer_mode={mode} updates several times a step and their state counts steps: choose sync"
