"""The algorithms that a user can name, and what each asks of verl.

Each estimator is verl's where verl 0.9.1 is right for multi-turn rows, ours where it is not (checked number by number
in ``tests/algorithms/test_algorithms_against_verl.py``):

- **ppo**: verl's ``gae``. It carries the next value and the running advantage over observation tokens, takes returns
  before whitening and whitens over action tokens only; dead rows change nothing. Equal to ``tests/algorithms/token_gae.py``.
- **reinforce_plus_plus**: verl's. It carries the return over observation tokens (older verl, and with it the study's
  released code, reset it there); equal to ours.
  Both whiten with our ``algorithms.masked.whiten``, in float64 (``verl_plugin.changes``).
- **lite_ppo**: ours; verl has none.
- **grpo**, **rloo**: ours. On healthy groups they equal verl's, but verl's hand a group of one its raw score as the
  advantage without a word (0 here), and count an episode without any action into its group's baseline; equal scores give exactly 0
  here.

One line here is all that an algorithm of one's own needs besides its module and its YAML: ``function`` is registered
with verl under ``estimator`` by ``verl_plugin.training.estimators``. An estimator that asks for turns, values or
entropy is a line of ``ESTIMATORS`` (``algorithms.slots.Estimator``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rewards.declared import Conflict


@dataclass(frozen=True)
class Algorithm:
    """What one choice of ``algo=`` means.

    Attributes:
        estimator: the value of verl's ``algorithm.adv_estimator``.
        needs_critic: a value model is trained beside the policy.
        needs_group: more than one sample a prompt (``actor_rollout_ref.rollout.n``) is needed for its baseline.
        over_batch: its baseline or deviation is that of all episodes of the step.
        divides: by a standard deviation, which credit may then do too.
        grain: what has an advantage of its own: a ``token``, a ``turn`` or an ``episode``; a credit method says which it takes.
        function: ``module:name`` of our estimator, or None where ``estimator`` is verl's own. It is called with
            ``token_level_rewards``, ``response_mask`` and those of its other parameters that are called ``index`` (the
            group of each row) or like a key of verl's ``algorithm`` node.
        built_on: where a paper's name is a choice of methods over another algorithm, that one; else nothing.
    """

    estimator: str
    needs_critic: bool = False
    needs_group: bool = False
    over_batch: bool = False
    divides: bool = True
    grain: str = "token"
    function: str | None = None
    built_on: str = ""


_PPO = Algorithm("gae", needs_critic=True)
_GRPO = Algorithm("turngrid_grpo", needs_group=True, grain="episode", function="algorithms.group:grpo")
_RLOO = Algorithm("turngrid_rloo", needs_group=True, divides=False, grain="episode", function="algorithms.group:rloo")

ALGORITHMS: dict[str, Algorithm] = {
    "ppo": _PPO,
    "grpo": _GRPO,
    "gigpo": replace(_GRPO, built_on="grpo"),
    **dict.fromkeys(
        (
            "salt",
            "aem",
            "hgpo",
            "mt_grpo",
            "graft",
            "dapo",
            "dr_grpo",
            "clip_higher",
            "gspo",
            "cispo",
            "simpletir",
            "g_ra",
            "spear",
            "tree_grpo",
            "arpo",
            "aepo",
            "supo",
            "rlvmr",
        ),
        replace(_GRPO, built_on="grpo"),
    ),
    **dict.fromkeys(("epo", "starpo_s", "mem1"), replace(_PPO, built_on="ppo")),
    "rloo": _RLOO,
    "loop": replace(_RLOO, built_on="rloo"),
    "lite_ppo": Algorithm(
        "turngrid_lite_ppo", needs_group=True, over_batch=True, grain="episode", function="algorithms.group:lite_ppo"
    ),
    "reinforce_plus_plus": Algorithm("reinforce_plus_plus"),
}

BASES = tuple(name for name, algorithm in ALGORITHMS.items() if not algorithm.built_on)

# Quirks of the study's released code: not offered as ``algo=``, reached by ``algorithm.adv_estimator=...``.
QUIRKS: dict[str, Algorithm] = {
    "reinforce_plus_plus_reset": Algorithm(
        "turngrid_reinforce_plus_plus_reset", function="algorithms.reinforce:reinforce_plus_plus_reset"
    ),
}

# Estimators over turns, whose settings are keys of the node ``algo``: one line a name, besides module and YAML. verl is told
# ``ON_TURNS`` and estimates nothing.
ESTIMATORS: dict[str, str] = {
    "turn_ppo": "algorithms.estimators.turn_gae:TurnGae",
    "step_ppo": "algorithms.estimators.turn_gae:TurnGae",
    "bi_level_gae": "algorithms.estimators.bi_level_gae:BiLevelGae",
    "hiper": "algorithms.estimators.hiper:Hiper",
    "distill": "algorithms.estimators.distill:Distill",
}
ON_TURNS = "turngrid_turns"

# What each slot of a step offers (``algorithms.slots``): one line a method, besides its module and its YAML.
FORM, LINEAR = "rollout_form", "linear"
SLOTS: dict[str, dict[str, str]] = {
    FORM: {
        "linear": "rollouts.forms.linear:Linear",
        "prefix": "rollouts.forms.prefix:Prefix",
        "tcod": "rollouts.forms.tcod:Tcod",
        "retry": "rollouts.forms.retry:Retry",
        "tree": "rollouts.forms.tree:Tree",
        "arpo": "rollouts.forms.arpo:Arpo",
        "aepo": "rollouts.forms.aepo:Aepo",
        "summary": "rollouts.forms.summary:Summary",
        "mem1": "rollouts.forms.summary:Mem1",
    },
    "shaping": {
        "g_ra": "rewards.shaping.g_ra:GRa",
        "turn_bonus": "rewards.shaping.turn_bonus:TurnBonus",
        "invalid_action": "rewards.shaping.penalties:InvalidAction",
        "format": "rewards.shaping.penalties:Format",
        "overlong": "rewards.shaping.overlong:Overlong",
        "subgoals": "rewards.shaping.subgoals:Subgoals",
    },
    "filter": {
        "void_turns": "algorithms.filters.void_turns:VoidTurns",
        "over_turns": "algorithms.filters.over_turns:OverTurns",
        "std_top": "algorithms.filters.std_top:StdTop",
        "zero_std": "algorithms.filters.zero_std:ZeroStd",
        "dynamic_sampling": "algorithms.filters.zero_std:DynamicSampling",
        "difficulty": "algorithms.filters.difficulty:Difficulty",
        "dr_bot": "algorithms.filters.dr_bot:DrBot",
    },
    "credit": {
        "gigpo": "algorithms.credit.gigpo:Gigpo",
        "salt": "algorithms.credit.salt:Salt",
        "aem": "algorithms.credit.aem:Aem",
        "aepo": "algorithms.credit.aepo:Aepo",
        "hgpo": "algorithms.credit.hgpo:Hgpo",
        "mt_grpo": "algorithms.credit.mt_grpo:MtGrpo",
        "empg": "algorithms.credit.empg:Empg",
        "graft": "algorithms.credit.graft:Graft",
        "tree": "algorithms.credit.tree:Tree",
        "rlvmr": "algorithms.credit.rlvmr:Rlvmr",
    },
    "loss": {
        "turn_clip": "algorithms.losses.turn_clip:TurnClip",
        "step_clip": "algorithms.losses.turn_clip:StepClip",
        "aepo_clip": "algorithms.losses.aepo_clip:AepoClip",
    },
    "terms": {"epo": "algorithms.terms.epo:Epo"},
    "buffer": {
        "self_imitation": "algorithms.buffers.self_imitation:SelfImitation",
        "task_replay": "algorithms.buffers.task_replay:TaskReplay",
    },
}

ONE = (FORM, "loss", "buffer")  # slots that hold one method


@dataclass(frozen=True)
class VerlsLoss:
    """An option of ``loss=`` that sets verl's keys alone. ``mode`` is verl's name of the loss."""

    mode: str
    conflicts: tuple[Conflict, ...] = ()


VERLS_LOSSES = {
    "clip_higher": VerlsLoss("vanilla"),
    "dr_grpo": VerlsLoss("vanilla"),
    "gspo": VerlsLoss(
        "gspo",
        (Conflict(("several rows",), lambda _, are: are, "it has one ratio a row", "loss=turn_clip or {fact}"),),
    ),
    "cispo": VerlsLoss("cispo"),
    "clip_cov": VerlsLoss("clip_cov"),
}

IN_ROLLOUT = (FORM, "shaping")  # slots that act while episodes are played
ON_BATCH = tuple(slot for slot in SLOTS if slot not in IN_ROLLOUT)  # slots that act on a step's turn table

LOSS_MODE = "turngrid"  # of verl's actor.policy_loss.loss_mode, where ``loss=`` chooses a form of ours

# What makes two states of a group equal (``algo.state``): the observation, with the goal, with the turn's number, or all that was seen and done before.
STATES = ("observation", "observation+goal", "observation+turn", "history")


def on_turns(algo: str) -> bool:
    """Whether ``algo.name`` is an estimator over turns, one of ours or of somebody's own."""
    return algo not in ALGORITHMS
