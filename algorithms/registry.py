"""The methods that a user can name: one line each, besides a module and a YAML (docs/methods.md).

An ``algo=`` word is a YAML in ``conf/algo``, ours or another package's. Its ``defaults:`` lead to
an entry of ``ALGORITHMS`` or ``ESTIMATORS``; a word that only chooses methods has no line here.

``ppo`` and ``reinforce_plus_plus`` are verl's, with another whitening (``verl_plugin.changes``).
docs/algo.md says why ``grpo`` and ``rloo`` are not; verl has no ``lite_ppo``.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from turngrid.envs.extensions import CONF, installed, options
from turngrid.rewards.declared import GROUPS, WHOLE_STEP, Conflict, Names, without

ALGO = "algo"


@dataclass(frozen=True)
class Algorithm:
    """Properties of the algorithm that ``algo=`` names, for the trainer.

    Attributes:
        name: the entry of ``ALGORITHMS`` that the word is built on, or an estimator over turns.
        estimator: the value of verl's ``algorithm.adv_estimator``.
        grain: the unit that has its own advantage: a ``token``, a ``turn`` or an ``episode``;
            credit methods declare which they accept.
        needs, requires: as in ``turngrid.rewards.declared.Method``.
        divides: whether it divides by a standard deviation, which credit may then do too.
        function: ``module:name`` of our estimator, which
            ``turngrid.verl_plugin.training.estimators`` registers with verl. It is called with
            ``token_level_rewards``, ``response_mask`` and those of its other parameters that are
            named ``index`` (the group of each row) or like a key of verl's ``algorithm`` node.
            None: verl's own.
    """

    name: str
    estimator: str
    grain: str = "token"
    needs: Names = frozenset()
    requires: Names = frozenset()
    divides: bool = True
    function: str | None = None

    @property
    def needs_critic(self) -> bool:
        return "values" in self.needs

    @property
    def needs_group(self) -> bool:
        return GROUPS in self.requires


_OF_GROUPS, _OF_STEP, _GROUP = frozenset({GROUPS}), frozenset({GROUPS, WHOLE_STEP}), "turngrid.algorithms.group:"
ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("ppo", "gae", needs=frozenset({"values"})),
        Algorithm("grpo", "turngrid_grpo", "episode", requires=_OF_GROUPS, function=_GROUP + "grpo"),
        Algorithm("rloo", "turngrid_rloo", "episode", requires=_OF_GROUPS, divides=False, function=_GROUP + "rloo"),
        Algorithm("lite_ppo", "turngrid_lite_ppo", "episode", requires=_OF_STEP, function=_GROUP + "lite_ppo"),
        Algorithm("reinforce_plus_plus", "reinforce_plus_plus"),
    )
}


def _in(package: str, names: str) -> dict[str, str]:
    """Return ``module:Class`` of a package's methods by name; a class is a name in camel case."""
    return {name: f"turngrid.{package}.{name}:{name.title().replace('_', '')}" for name in names.split()}


def _files(group: str) -> list[str]:
    """Return the names of a group's YAML files."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


# Estimators over turns; their settings are keys of ``algo``. verl gets ``ON_TURNS``, a no-op.
ESTIMATORS = _in("algorithms.estimators", "turn_ppo bi_level_gae vapo hiper distill semi_online seeupo rae role_mean")
ON_TURNS = "turngrid_turns"

# The methods of each slot of a step (``turngrid.algorithms.slots``).
FORM, LINEAR = "rollout_form", "linear"
ROLES, _ROLE = "roles", "turngrid.rollouts.roles:Role"
SLOTS: dict[str, dict[str, str]] = {
    FORM: _in(
        "rollouts.forms", f"{LINEAR} prefix tcod retry tree semi_online attempts arpo aepo summary mem1 self_play"
    ),
    ROLES: dict.fromkeys(_files(ROLES), _ROLE),
    "library": _in("algorithms.library", "experience"),
    "shaping": _in(
        "rewards.shaping",
        "g_ra turn_bonus invalid_action format overlong subgoals f1 try_again improvement cosine_length",
    ),
    "filter": _in(
        "algorithms.filters",
        "void_turns over_turns std_top std_top_p std_min_p zero_std dynamic_sampling difficulty solved dr_bot "
        "entropy_turns",
    ),
    "credit": _in(
        "algorithms.credit",
        "gigpo salt aem aepo hgpo mt_grpo empg graft tree rlvmr tree_q pair attempts group_scale infopo igpo role_norm",
    ),
    "loss": _in("algorithms.losses", "turn_clip step_clip aepo_clip"),
    "terms": _in("algorithms.terms", "epo self_distill"),
    "buffer": _in("algorithms.buffers", "self_imitation task_replay"),
}

ONE = (FORM, "library", "loss", "buffer")  # slots with at most one method

# Options of ``loss=`` that only set keys of verl, with their conflicts; their YAML describes them
VERLS_LOSSES: dict[str, tuple[Conflict, ...]] = {name: () for name in _files("loss") if name not in SLOTS["loss"]}
VERLS_LOSSES["gspo"] = (without("several rows", "it has one ratio a row", "loss=turn_clip or {fact}"),)

IN_ROLLOUT = (FORM, ROLES, "shaping")  # slots that act while episodes run
ON_BATCH = tuple(slot for slot in SLOTS if slot not in IN_ROLLOUT)  # act in the trainer; ``library`` in rollouts too

LOSS_MODE = "turngrid"  # verl's actor.policy_loss.loss_mode if ``loss=`` chooses one of our losses

# What equal states of a group share (``algo.state``): the observation; observation and goal;
# observation and turn number; the full history; or the library's cluster of the observation.
CLUSTER = "cluster"
STATES = ("observation", "observation+goal", "observation+turn", "history", CLUSTER)


def words() -> list[str]:
    """Return our ``algo=`` words."""
    return _files(ALGO)


@cache
def base_of(word: str) -> str:
    """Return the algorithm that an ``algo=`` word is built on, by the ``defaults:`` of its YAML.

    An entry of ``ALGORITHMS`` or ``ESTIMATORS``, an entry point ``algo.NAME``, ``module:Name`` and
    an unknown word are their own base.
    """
    known = {*ALGORITHMS, *ESTIMATORS}
    file: Path | None = CONF / ALGO / f"{word}.yaml"
    if word in known or ":" in word:
        return word
    if file and not file.exists():
        file = None if word in installed(ALGO, known) else options().get(ALGO, {}).get(word)
    if file is None:
        return word
    import yaml  # here: most runs name an algorithm that needs no file

    entries = yaml.safe_load(file.read_text(encoding="utf-8")).get("defaults", ())
    bases = [entry for entry in entries if isinstance(entry, str) and entry != "_self_"]
    return base_of(bases[0]) if bases else word


def on_turns(word: str) -> bool:
    """Return whether an ``algo=`` word is built on an estimator over turns."""
    return base_of(word) not in ALGORITHMS
