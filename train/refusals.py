"""What cannot run, in one table. Every entry says what is wrong and what to do; the tests read the same table.

Nothing here imports torch or verl: a run is refused before anything heavy starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from omegaconf import DictConfig, OmegaConf

from algorithms.registry import ALGORITHMS
from envs.registry import world
from envs.types import TaskError
from experiments.budget import BudgetError, plan_budget
from experiments.mixture import shares, task_weights
from experiments.models import ModelError, check_model
from experiments.rejection import DemosError, draw
from rewards.registry import reward
from train import curriculum
from train.errors import ConfigError
from train.evaluation import evaluation_refusal, too_few_turns, useless_plays
from train.finalise import MICRO_BATCH_KEYS, rows_per_device

Finding = Mapping[str, Any] | None


@dataclass(frozen=True)
class Rule:
    """``find`` returns the words for ``message`` where the rule applies, else None."""

    name: str
    message: str
    find: Callable[[DictConfig], Finding]

    def applies(self, config: DictConfig) -> str | None:
        """The message, if this config is meant."""
        finding = self.find(config)
        return None if finding is None else self.message.format(**finding)


def check(config: DictConfig) -> list[str]:
    """The warnings that a sound config deserves.

    Raises:
        ConfigError: the config is refused; the message of the first refusal that applies.
    """
    for rule in REFUSALS:
        if message := rule.applies(config):
            raise ConfigError(message)
    return [message for rule in WARNINGS if (message := rule.applies(config))]


def _task(config: DictConfig) -> Finding:
    try:
        for task in task_weights(config.env):
            world(config.env.name, config.env).parse_task(task)
    except TaskError as error:
        return {"reason": error}
    return None


def _reward(config: DictConfig) -> Finding:
    offered, name = world(config.env.name, config.env).rewards, config.turn_reward.name
    return None if name in offered else {"env": config.env.name, "reward": name, "offered": ", ".join(offered)}


def _reward_settings(config: DictConfig) -> Finding:
    problem = getattr(reward(config.turn_reward.name, config.turn_reward), "problem", str)()
    return {"reason": problem} if problem else None


def _step_deadline(config: DictConfig) -> Finding:
    longest, deadline = world(config.env.name, config.env).longest_step_s, config.env.step_deadline_s
    return {"deadline": f"{deadline:g}", "longest": f"{longest:g}"} if deadline <= longest else None


def _algorithm(config: DictConfig) -> Finding:
    name = config.algo.name
    return None if name in ALGORITHMS else {"algo": name, "known": ", ".join(ALGORITHMS)}


def _no_critic(config: DictConfig) -> Finding:
    needs = ALGORITHMS[config.algo.name].needs_critic or config.algorithm.adv_estimator == "gae"
    return {"algo": config.algo.name} if needs and config.critic.enable is False else None


def _group_of_one(config: DictConfig) -> Finding:
    samples = config.actor_rollout_ref.rollout.n
    return (
        {"algo": config.algo.name, "n": samples} if ALGORITHMS[config.algo.name].needs_group and samples < 2 else None
    )


def _mini_batch(config: DictConfig) -> Finding:
    batch, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    return {"batch": batch, "mini": mini} if mini < 1 or batch % mini else None


def _batch_over_devices(config: DictConfig) -> Finding:
    devices = config.trainer.n_gpus_per_node * config.trainer.nnodes
    batch, samples = config.data.train_batch_size, config.actor_rollout_ref.rollout.n
    return {"batch": batch, "n": samples, "devices": devices} if batch * samples % devices else None


def _mini_batch_over_devices(config: DictConfig) -> Finding:
    devices = config.trainer.n_gpus_per_node * config.trainer.nnodes
    mini, samples = config.actor_rollout_ref.actor.ppo_mini_batch_size, config.actor_rollout_ref.rollout.n
    return {"mini": mini, "n": samples, "devices": devices} if mini * samples % devices else None


def _micro_batch(config: DictConfig) -> Finding:
    if config.actor_rollout_ref.actor.use_dynamic_bsz:
        return None
    rows = rows_per_device(config)
    sizes = {key: OmegaConf.select(config, key) for key in MICRO_BATCH_KEYS}
    wrong = next(((key, size) for key, size in sizes.items() if size < 1 or rows % size), None)
    return wrong and {"key": wrong[0], "size": wrong[1], "rows": rows}


def _tensor_parallel(config: DictConfig) -> Finding:
    devices, size = config.trainer.n_gpus_per_node, config.actor_rollout_ref.rollout.tensor_model_parallel_size
    return {"size": size, "devices": devices} if devices % size else None


def _share(config: DictConfig) -> Finding:
    share = config.budget.sft_share
    return None if 0 <= share <= 1 else {"share": share}


def _share_against_name(config: DictConfig) -> Finding:
    """The option's name says what is trained, and the run folder carries it."""
    budget = config.budget
    fits = {"rl_only": budget.sft_share == 0, "sft_only": budget.sft_share == 1}.get(budget.name, True)
    if row := re.fullmatch(r"sft(\d+)_rl(\d+)", budget.name):  # of table 9: so many demonstrations at 10, so many at 1
        demonstrations, episodes = map(int, row.groups())
        fits = budget.sft_share == 10 * demonstrations / (10 * demonstrations + episodes)
    return None if fits else {"budget": budget.name, "share": budget.sft_share}


def _count(config: DictConfig) -> Finding:
    return None if config.budget.count in ("games", "rollouts") else {"count": config.budget.count}


def _prices(config: DictConfig) -> Finding:
    for key in ("units", "demo_cost", "episode_cost"):
        if not (isfinite(config.budget[key]) and config.budget[key] > 0):
            return {"key": key, "value": config.budget[key]}
    return None


def _no_demonstration(config: DictConfig) -> Finding:
    budget = config.budget
    units = budget.units * budget.sft_share
    if budget.sft_share == 0 or units >= budget.demo_cost:
        return None
    return {"units": f"{units:g}", "price": f"{budget.demo_cost:g}"}


def _budget(config: DictConfig) -> Finding:
    try:
        plan_budget(config)
    except BudgetError as error:
        return {"reason": error}
    return None


def _demos(config: DictConfig) -> Finding:
    demos, wanted = config.demos, plan_budget(config).demonstrations
    if demos.source not in ("walkthrough", "episodes"):
        return {"reason": f"demos.source={demos.source} must be walkthrough or episodes"}
    if demos.source == "walkthrough":
        return {"reason": f"demos.run={demos.run} needs demos.source=episodes"} if demos.run else None
    if demos.per_game < 1:
        return {"reason": f"demos.per_game={demos.per_game} must be at least 1"}
    try:
        draw(config, wanted)
    except DemosError as error:
        return {"reason": error}
    return None


def _no_steps(config: DictConfig) -> Finding:
    budget = config.budget
    without = budget.count == "games" and budget.sft_share < 1 and budget.rl_steps < 1
    return {"steps": budget.rl_steps} if without else None


def _mixture(config: DictConfig) -> Finding:
    """A task without games would never be played, and one without test games would have no figure."""
    plan, weights = plan_budget(config), task_weights(config.env)
    drawn = plan.demonstrations if config.demos.source == "walkthrough" else 0
    counts = {"training games": plan.games, "demonstrations": drawn, "test games": config.eval.games}
    for what, count in counts.items():
        none = next((task for task, share in shares(weights, count).items() if count and not share), None)
        if none:
            return {"count": count, "what": what, "task": none}
    return None


def _curriculum(config: DictConfig) -> Finding:
    reason = curriculum.refusal(config)
    return {"reason": reason} if reason else None


def _model(config: DictConfig) -> Finding:
    try:
        check_model(config.model.path)
    except ModelError as error:
        return {"reason": error}
    return None


def _context(config: DictConfig) -> Finding:
    length = config.data.max_prompt_length + config.data.max_response_length
    context = config.model.context
    return {"length": length, "context": context, "model": config.model.name} if length > context else None


def _counts(config: DictConfig) -> Finding:
    minimum_one = {
        "env.max_turns": config.env.max_turns,
        "env.workers": config.env.workers,
        "env.max_action_tokens": config.env.max_action_tokens,
        "eval.games": config.eval.games,
        "data.train_batch_size": config.data.train_batch_size,
        "actor_rollout_ref.rollout.n": config.actor_rollout_ref.rollout.n,
    }
    wrong = next(((key, value) for key, value in minimum_one.items() if value < 1), None)
    return wrong and {"key": wrong[0], "value": wrong[1]}


def _evaluation(config: DictConfig) -> Finding:
    reason = evaluation_refusal(config)
    return {"reason": reason} if reason else None


def _trainer(config: DictConfig) -> Finding:
    sync = config.trainer.use_v1 and config.trainer.v1.trainer_mode == "sync"
    return None if sync else {}


def _equal_rewards(config: DictConfig) -> Finding:
    if config.turn_reward.name not in ("dense", "balanced"):
        return None
    place = world(config.env.name, config.env)
    tasks = list(task_weights(config.env))
    params = [place.with_reward(place.parse_task(task), config.turn_reward.name) for task in tasks]
    equal = all(map(place.scores_only_at_end, params))
    return {"task": " and ".join(tasks), "reward": config.turn_reward.name} if equal else None


def _large_on_cpu(config: DictConfig) -> Finding:
    large = config.scale.name == "paper" and config.trainer.device == "cpu"
    return {"model": config.model.name, "cluster": config.cluster.name} if large else None


REFUSALS: tuple[Rule, ...] = (
    Rule("task", "{reason}", _task),
    Rule("reward", "env={env} does not offer reward={reward}; it offers: {offered}", _reward),
    Rule("reward_settings", "{reason}", _reward_settings),
    Rule(
        "step_deadline",
        "env.step_deadline_s={deadline} is no more than the {longest} s that one step of this world may take: raise it",
        _step_deadline,
    ),
    Rule("algorithm", "algo.name={algo} is not registered in algorithms/registry.py; known: {known}", _algorithm),
    Rule("counts", "{key}={value} must be at least 1", _counts),
    Rule("no_critic", "algo={algo} learns from a critic: leave critic.enable unset, or choose algo=grpo", _no_critic),
    Rule(
        "group_of_one",
        "algo={algo} compares the samples of a prompt and actor_rollout_ref.rollout.n={n} leaves nothing to compare: "
        "set it to 2 or more, or choose algo=ppo or algo=reinforce_plus_plus",
        _group_of_one,
    ),
    Rule(
        "mini_batch",
        "data.train_batch_size={batch} is no multiple of actor_rollout_ref.actor.ppo_mini_batch_size={mini} (prompts)",
        _mini_batch,
    ),
    Rule(
        "batch_over_devices",
        "data.train_batch_size={batch} x actor_rollout_ref.rollout.n={n} does not divide over {devices} devices",
        _batch_over_devices,
    ),
    Rule(
        "mini_batch_over_devices",
        "actor_rollout_ref.actor.ppo_mini_batch_size={mini} x actor_rollout_ref.rollout.n={n} does not divide over "
        "{devices} devices",
        _mini_batch_over_devices,
    ),
    Rule("micro_batch", "{key}={size} does not divide a device's mini-batch of {rows} episodes", _micro_batch),
    Rule(
        "tensor_parallel",
        "actor_rollout_ref.rollout.tensor_model_parallel_size={size} does not divide trainer.n_gpus_per_node={devices}",
        _tensor_parallel,
    ),
    Rule("share", "budget.sft_share={share} must lie between 0 and 1", _share),
    Rule(
        "share_against_name",
        "budget={budget} leaves no choice of budget.sft_share={share}: choose budget=sft_rl to divide the units",
        _share_against_name,
    ),
    Rule("count", "budget.count={count} must be games or rollouts", _count),
    Rule("prices", "budget.{key}={value} must be more than 0", _prices),
    Rule(
        "no_demonstration",
        "budget.units x budget.sft_share = {units} units cannot pay a demonstration at budget.demo_cost={price}; "
        "raise one, lower the other, or choose budget=rl_only",
        _no_demonstration,
    ),
    Rule("budget", "{reason}", _budget),
    Rule("demos", "{reason}", _demos),
    Rule("no_steps", "budget.rl_steps={steps} must be at least 1 where the budget has a share for RL", _no_steps),
    Rule("mixture", "env.tasks: {count} {what} leave none for {task}; raise their number or its weight", _mixture),
    Rule("curriculum", "{reason}", _curriculum),
    Rule("model", "{reason}", _model),
    Rule(
        "context",
        "data.max_prompt_length + data.max_response_length = {length} tokens, more than model={model} can attend to "
        "(model.context={context})",
        _context,
    ),
    Rule("evaluation", "{reason}", _evaluation),
    Rule(
        "trainer",
        "only verl's V1 trainer in sync mode keeps turn rewards: leave trainer.use_v1=true, "
        "trainer.v1.trainer_mode=sync",
        _trainer,
    ),
)

WARNINGS: tuple[Rule, ...] = (
    Rule(
        "equal_rewards", "reward={reward} equals reward=sparse on {task}, which scores only at the end", _equal_rewards
    ),
    Rule(
        "too_few_turns",
        "{task} is won in {plan} turns at best and an episode may have {turns}: expect no wins",
        too_few_turns,
    ),
    Rule(
        "short_horizon",
        "{task} is won in {plan} turns at best and curriculum.horizon allows {turns} at first: expect no wins before step "
        "{step}",
        curriculum.short_horizon,
    ),
    Rule(
        "useless_plays",
        "temperature 0 plays a game {plays} times the same way: leave 0 out of eval.temperatures, or eval.plays=1",
        useless_plays,
    ),
    Rule("large_on_cpu", "model={model} on cluster={cluster} will take days; cluster=gpu1 or gpu8?", _large_on_cpu),
)
