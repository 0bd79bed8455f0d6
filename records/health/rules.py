"""The rules by which metrics raise alarms: while a run trains, and in ``experiments.doctor``."""

from dataclasses import dataclass

from turngrid.records.health import conditions as when


@dataclass(frozen=True)
class Rule:
    """One alarm; several rules may raise it, each from other metrics."""

    name: str  # also the key of its limit, ``health.NAME``
    metrics: tuple[str, ...]  # what the condition reads; ``*`` stands for any part of a name
    condition: when.Condition
    cause: str
    advice: str
    instead: str = ""  # metric that is read if a run lacks the first one
    unless: str = ""  # a metric (``*`` as above) of runs in which the rule means nothing
    by_rate: bool = False  # a smaller learning rate is the cure, so ``health=rollback`` acts


RATE = "try a third of actor_rollout_ref.actor.optim.lr"
LOST_UPDATE = "the update is lost, and the weights may be"
OF_CRITIC = (f"{LOST_UPDATE}: those of the critic", "try a third of critic.optim.lr")
STRONG_KL = "the KL term ties the policy to its first model, so it hardly learns"
# Alarms of one step have this order, and the doctor names the first: exact faults, then from the
# update to the outcome; what may explain a lack of signal comes before it
RULES = (
    Rule("not_finite", ("actor/grad_norm",), when.not_finite, LOST_UPDATE, RATE, by_rate=True),
    Rule("not_finite", ("actor/loss",), when.not_finite, LOST_UPDATE, RATE, "actor/pg_loss", by_rate=True),
    Rule("not_finite", ("critic/grad_norm",), when.not_finite, *OF_CRITIC),
    Rule("not_finite", ("critic/loss",), when.not_finite, *OF_CRITIC, "critic/vf_loss"),
    Rule(
        "trained_tokens",
        ("credit/trained_tokens", "rollout/sampled_tokens"),
        when.ratio,
        "the mask trains tokens that the policy did not sample, such as observations",
        "check response_mask",
        unless="rollout/shared_tokens",  # of branches: each trains the turns that it shares
    ),
    Rule(
        "wrong_sign",
        ("credit/advantage/follows_reward",),
        when.lasting_below,
        "episodes with less reward have more advantage: a sign, or an order of rows, is wrong",
        "check the estimator and algorithm.adv_estimator",
    ),
    Rule(
        "one_sided",
        ("credit/advantage/min", "credit/advantage/max"),
        when.one_sided,
        "nothing is compared with anything: groups of one, or no baseline",
        "try actor_rollout_ref.rollout.n=8",
        unless="filter/over_turns/dropped_share",  # it may leave only the wins of each group
    ),
    Rule("grad_norm", ("actor/grad_norm",), when.above_median, "one batch moves the policy far", RATE, by_rate=True),
    Rule("critic_grad_norm", ("critic/grad_norm",), when.above_median, "one batch moves the critic far", OF_CRITIC[1]),
    Rule(
        "entropy_up",
        ("rollout/entropy",),
        when.soon_grown,
        "answers become random",
        RATE,
        "actor/entropy",
        by_rate=True,
    ),
    Rule(
        "entropy_down",
        ("rollout/entropy",),
        when.shrunk,
        "answers hardly vary, so groups score alike",
        RATE,
        "actor/entropy",
        by_rate=True,
    ),
    Rule(
        "policy_kl",
        ("actor/ppo_kl",),
        when.above,
        "the policy is far from the one that sampled: too large updates, or rows and log-probs that are not as sampled",
        f"{RATE}; if the first step has it too: python -m train.doctor",
        by_rate=True,
    ),
    Rule(
        "clip_share",
        ("actor/pg_clipfrac",),
        when.above,
        "most of the update is clipped: too large updates, stale weights, or log-probs that are not as sampled",
        f"{RATE}; if the first step has it too: python -m train.doctor",
        by_rate=True,
    ),
    Rule(
        "mismatch",
        ("verl/training/rollout_probs_diff_mean",),
        when.above,
        "server and trainer disagree about log-probs",
        "python -m train.doctor names the cause; correction= corrects small differences",
        unless="rollout/staleness/max",  # of runs whose episodes may be older than the trainer's weights
    ),
    Rule(
        "kl_coefficient",
        ("actor/kl_coef",),
        when.above,
        STRONG_KL,
        "try actor_rollout_ref.actor.kl_loss_coef=0.001",
    ),
    Rule(
        "kl_coefficient",
        ("reward/kl_coefficient",),
        when.above,
        STRONG_KL,
        "try algorithm.kl_ctrl.kl_coef=0.001",
    ),
    Rule(
        "mostly_unparsed",
        ("rollout/unparsed_actions",),
        when.lasting_above,
        "most answers do not have the form of prompt=, so the environment sees no action",
        "try SFT first, more env.max_action_tokens, prompt=plain",
    ),
    Rule(
        "groups_all_won",
        ("credit/groups_all_won",),
        when.lasting_above,
        "nothing is left to learn; if so from the start, the end of a game counts as won, or prompts give it away",
        "try a harder env.task; python -m experiments.check_env",
    ),
    Rule(
        "groups_all_lost",
        ("credit/groups_all_lost",),
        when.lasting_above,
        "no sample of any prompt wins",
        "try an easier env.task, more env.max_turns, SFT first, reward=dense",
    ),
    Rule(
        "no_signal",
        ("credit/groups_without_signal",),
        when.lasting_above,
        "the samples of each prompt score alike, so advantages are 0",
        "try an easier or harder env.task, a larger actor_rollout_ref.rollout.n, filter=[dynamic_sampling]",
    ),
    Rule(
        "no_signal",
        ("reward/trained/min", "reward/trained/max"),
        when.equal,
        "all episodes of a step have the same reward",
        "check the reward; try another env.task or reward=",
    ),
    Rule(
        "hacked",
        ("reward/trained/mean", "success/train"),
        when.apart,
        "the policy collects reward that does not win",
        "try another reward=; python -m experiments.check_env",
        unless="rollout/match/self/seat_0/won",  # against itself a policy wins as often as it loses
    ),
    Rule(
        "invalid_actions",
        ("rollout/invalid_actions",),
        when.grown_share,
        "an invalid action costs no reward",
        "try 'shaping=[invalid_action]'",
    ),
    Rule(
        "unparsed_actions",
        ("rollout/unparsed_actions",),
        when.grown_share,
        "answers lose the form of prompt=",
        "try 'shaping=[format]' or more env.max_action_tokens",
    ),
    Rule(
        "repeated_tokens",
        ("rollout/repeated_tokens",),
        when.grown_far,
        "answers repeat themselves",
        f"{RATE}, or a higher actor_rollout_ref.rollout.temperature",
        by_rate=True,
    ),
    Rule(
        "answers_at_limit",
        ("rollout/answers_at_limit",),
        when.lasting_above,
        "answers are cut off at their limit",
        "try more env.max_action_tokens, roles.NAME.max_tokens, 'shaping=[overlong]'; else data.max_response_length",
        "verl/response_length/clip_ratio",
    ),
    Rule(
        "out_of_context",
        ("rollout/out_of_context",),
        when.above,
        "episodes end because their tokens do not fit",
        "try a larger data.max_response_length, or env.window_turns",
    ),
    Rule(
        "repeated_prompts",
        ("rollout/distinct_prompts",),
        when.lasting_below,
        "games with different goals begin alike: their prompts lack the goal",
        "python -m experiments.check_env",
    ),
    Rule(
        "staleness",
        ("rollout/staleness/max",),
        when.above,
        "episodes are older than corrections allow for",
        "try a smaller trainer.v1.sampler.max_off_policy_threshold",
        "verl/training/off_policy/trajectory_staleness/max",
    ),
    Rule(
        "replay_age",
        ("buffer/*/age",),
        when.above,
        "stored episodes come from another policy",
        "try a smaller buffer.NAME.tolerate, the most steps that NAME keeps an episode",
        unless="buffer/task_replay/age",  # it keeps wins for 20 steps or, as RAPO's paper, without a limit
    ),
    Rule(
        "slowest_episode",
        ("timing/slowest_to_median",),
        when.lasting_above,
        "the step waits for its slowest episode",
        "try fewer env.max_turns, more env.workers, trainer.v1.trainer_mode=colocate_async",
    ),
    Rule(
        "success",
        ("success/train",),
        when.fallen,
        "the policy forgets what it could",
        f"{RATE}, and look at the alarms before this one",
        "reward/trained/mean",
        unless="filter/*/left_out",  # won games leave, so harder ones remain
        by_rate=True,
    ),
)
# steps that an alarm looks at, at most, after which RL goes back (``health=rollback``)
LOOK_BACK = max(rule.condition.steps for rule in RULES if rule.by_rate)
STAGE = "curriculum/stage"  # of a curriculum; with each, tasks change
OF_GROUPS = "credit/groups_"  # metrics that say nothing about an algorithm that compares no groups
