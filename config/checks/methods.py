"""Which methods cannot be combined: with each other, with an algorithm, with verl's settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from algorithms.chosen import ALGO, Method, algorithm, method_class
from algorithms.registry import ESTIMATORS, FORM, LOSS_MODE, OF_TURNS, ON_TURNS, ONE, SLOTS, STATES, on_turns
from config import asynchronous
from config.method_settings import HEADS, SAMPLING, has_critic, made
from config.prompts import form_of, in_windows, one_row, several_rows
from envs.catalogue import cache_root
from envs.registry import make_environment
from records.models.locate import ModelError, resolve_model
from rewards.named import NAMED, named_reward
from rewards.shaping.g_ra import GRa
from rewards.shaping.view import TRAINED
from rollouts.prompt_forms.registry import PROMPTS, prompt_class
from rollouts.window import SUMMED_UP, summed_up
from tasks.budget import allocate_budget

PAYS_WINS_ALONE = ("sparse", "binary")  # of the rewards


def bad_methods(config: DictConfig) -> str | None:
    return next(_reasons(config), None)


def _reasons(config: DictConfig) -> Iterator[str]:
    yield from _verls_own(config)
    yield from _estimator(config)
    yield from _labels(config)
    if not any(config.get(slot) for slot in SLOTS):
        return
    yield from _slots(config)
    yield from _shaping(config)
    yield from _named(config)
    yield from _rollout_form(config)
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


def _estimator(config: DictConfig) -> Iterator[str]:
    name, verls = config.algo.name, config.algorithm
    if on_turns(name) and verls.adv_estimator != ON_TURNS:
        yield f"algo.name={name} estimates over turns: set algorithm.adv_estimator={ON_TURNS}, not {verls.adv_estimator}"
    if not on_turns(name) and verls.adv_estimator == ON_TURNS:
        yield f"algorithm.adv_estimator={ON_TURNS} needs an estimator over turns: choose one of algo={', '.join(ESTIMATORS)}"
    for key in ("gamma", "lam"):
        if name in ESTIMATORS and verls[key] != 1:
            yield f"algorithm.{key}={verls[key]} is read by estimators over tokens and algo={name} has its own: set algo.{key}"
    heads = made(config).heads()
    if (given := OmegaConf.select(config, HEADS)) not in (None, heads):
        yield f"{HEADS}={given} and algo={name} reads {heads} of the critic: leave it out"
    yield from _teacher(config)
    if config.algo.state not in (None, *STATES):
        yield f"algo.state={config.algo.state} must be one of: {', '.join(STATES)}"


def _labels(config: DictConfig) -> Iterator[str]:
    """Of methods that tell kinds of answer apart, which one prompt form alone has."""
    told = form_of(config).labels
    named = [(ALGO, config.algo.name)] if on_turns(config.algo.name) else []
    named += [(slot, name) for slot in ("shaping", "credit") for name in config.get(slot) or {}]
    for slot, name in named:
        kind = method_class(slot, str(name), {} if slot == ALGO else config[slot][name])
        if (wanted := getattr(kind, "labels", told)) != told:
            fitting = [f"prompt={form}" for form in PROMPTS if prompt_class(form).labels == wanted]
            yield (
                f"{slot}={name} tells answers of {', '.join(wanted)} apart, which prompt={config.prompt.name} does not read: choose "
                f"{' or '.join(fitting) or 'a prompt form with these labels'}"
            )
        if getattr(kind, "labels", ()) and (form := summed_up(config.get(FORM))):
            yield f"{slot}={name} tells kinds of answer apart and a summary of rollout_form={form} is none: choose rollout_form=linear"


def _teacher(config: DictConfig) -> Iterator[str]:
    """Who stands in the reference policy's place, where the estimator needs one."""
    if "teacher" not in made(config).needs():
        return
    asked, path = f"algo={config.algo.name}", config.algo.teacher
    if not path:
        yield f"{asked} learns from a teacher: set algo.teacher, to a run folder, a model folder or a Hugging Face name"
    try:
        teacher = resolve_model(str(path), cache_root())
    except ModelError as error:
        yield str(error).replace("model.path=", "algo.teacher=", 1)
        return
    if _other_tokens(teacher, str(config.model.path)):
        yield f"algo.teacher={path} has other tokens than model.path={config.model.path}, and judges each token"
    if config.model.lora_rank:
        yield f"{asked} has a model of its own for a teacher and model.lora_rank={config.model.lora_rank} makes verl ask the policy's: set it to null"
    if config.algorithm.kl_penalty not in ("kl", "k1"):
        yield f"{asked} learns from the difference of log-probs: set algorithm.kl_penalty=kl, not {config.algorithm.kl_penalty}"


def _other_tokens(teacher: str, policy: str) -> bool:
    """As far as both can be had on this disk; a policy that cannot has a check of its own."""
    try:
        files = [Path(folder) / "tokenizer.json" for folder in (teacher, resolve_model(policy, cache_root()))]
    except ModelError:
        return False
    if not all(file.exists() for file in files):
        return False
    ours, theirs = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    return bool(ours != theirs)


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


def _rollout_form(config: DictConfig) -> Iterator[str]:
    forms, samples = made(config).of(FORM, 1), int(config.actor_rollout_ref.rollout.n)
    for name, form in forms.items():
        if name in SUMMED_UP:
            yield from _summaries(config, name)
        elif (key := in_windows(config)) and not form.windows:
            yield f"rollout_form={name} replays turns, which a window of {key.split('=')[0]} would leave out: set it to null"
        if (mode := asynchronous.mode(config)) != asynchronous.SYNC:
            yield f"rollout_form={name} is for synchronous steps: choose trainer.v1.trainer_mode=sync, not {mode}"
        if form.episodes(samples) < samples:
            yield (
                f"rollout_form={name} plays {form.episodes(samples)} episodes of a prompt and actor_rollout_ref.rollout.n={samples} are to "
                "be learned from: lower it, or raise rollout_form.tree.nodes"
            )
        if form.entropies and config.actor_rollout_ref.rollout.name != "transformers":
            yield f"rollout_form={name} asks the rollout server for entropies, which vLLM does not tell through verl: choose rollout=transformers"
        yield from _credit_of_form(config, name, form)
        yield from _curriculum_of_form(config, name, form)
    for name, kind in _kinds(config, "credit"):
        if getattr(kind, "of_trees", False) and not any(form.branches for form in forms.values()):
            yield f"credit={name} compares the leaves of a tree and no episode branches off: choose rollout_form=tree"


def _summaries(config: DictConfig, form: str) -> Iterator[str]:
    """Of the form that every episode has, validated and evaluated ones too, and so without a schedule."""
    place, data = f"{FORM}.{form}", config.data
    settings: Any = OmegaConf.to_container(config[FORM][form], resolve=True)
    if key := in_windows(config):
        yield f"rollout_form={form} and {key} both say how much of an episode is seen: choose one"
    if scheduled := next((name for name, value in settings.items() if isinstance(value, dict)), None):
        yield f"{place}.{scheduled} follows a schedule and evaluation, which has no steps, sums up too: set one number"
        return
    room = int(data.max_prompt_length) + int(data.max_response_length)
    if (settings["tokens"] or 0) + settings["length"] > room:
        yield (
            f"{place}.tokens={settings['tokens']} and a summary of {settings['length']} tokens have no room in data.max_prompt_length "
            f"+ data.max_response_length = {room}: lower it"
        )


def _credit_of_form(config: DictConfig, name: str, form: Any) -> Iterator[str]:
    for credit, kind in _kinds(config, "credit"):
        of_leaves = getattr(kind, "of_trees", False)
        if getattr(kind, "compares", False) and not (of_leaves or form.compares_turns):
            yield (
                f"credit={credit} compares the turns of a group and rollout_form={name} has some of them replayed or shared: choose "
                "rollout_form=linear"
            )
        if getattr(kind, "by_number", False) and not form.numbered:
            yield (
                f"credit={credit} compares turn t of a group's samples and rollout_form={name} has summaries between their turns: choose "
                "credit=gigpo, or rollout_form=linear"
            )


def _curriculum_of_form(config: DictConfig, name: str, form: Any) -> Iterator[str]:
    if config.curriculum.name == "threshold" and not form.whole:
        yield (
            f"curriculum=threshold asks how many episodes were won and those of rollout_form={name} begin after replayed turns: "
            "choose curriculum=phases"
        )
    if config.curriculum.horizon is not None and name == "tcod":
        yield "rollout_form=tcod and curriculum.horizon both say how many turns a step plays: choose one"


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
    for name, kind in _kinds(config, "credit"):
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
        for name, kind in _kinds(config, slot):
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
    return [name for name, kind in _kinds(config, "buffer") if hasattr(kind, "replace")]


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
    for name, kind in _kinds(config, "credit"):
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


def _in_async(config: DictConfig) -> Iterator[str]:
    mode = asynchronous.mode(config)
    if mode == asynchronous.SYNC:
        return
    for name, kind in _kinds(config, "buffer"):
        if getattr(kind, "synchronous", False):
            yield f"buffer={name} counts synchronous steps: leave trainer.v1.trainer_mode=sync"
    stateful = [name for slot in ("terms", "buffer") for name in config.get(slot) or {}]
    if mode == asynchronous.SEPARATE and stateful:
        yield f"{', '.join(stateful)}: trainer_mode={mode} updates several times a step and their state counts steps: choose sync"


def _kinds(config: DictConfig, slot: str) -> Iterator[tuple[str, Any]]:
    for name, node in (config.get(slot) or {}).items():
        yield str(name), method_class(slot, str(name), node)
