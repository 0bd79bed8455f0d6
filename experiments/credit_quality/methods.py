"""Methods by the names in a run's config, and the credit that each gives to episodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from turngrid.algorithms.chosen import ALGO, Chosen, slots_of
from turngrid.algorithms.registry import ON_BATCH, SLOTS, words
from turngrid.config.checks.methods import bad_methods
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.extensions import installed
from turngrid.envs.utils.names import meant
from turngrid.records.process.exit_codes import Refusal
from turngrid.rollouts.episode import Episode
from turngrid.tasks.run import Run

if TYPE_CHECKING:
    from turngrid.verl_plugin.training.offline import Credited

STANDARD = (
    *("grpo", "rloo", "reinforce_plus_plus", "gigpo", "gigpo:state=history", "hgpo", "salt", "mt_grpo"),
    *("graft", "graft:state=history", "grpo+graft:backup=max", "aem", "ppo", "turn_ppo", "bi_level_gae"),
)
SEPARATOR = re.compile(r"\+(?!(?:goal|turn)(?:[:+]|$))")  # not the plus sign of state=observation+turn
WEIGHTS = "model_world_size_1_rank_0.pt"  # verl's name of the weights' file
OTHERWISE = ("roles", "library", "shaping", "filter", "buffer")  # slots that change the training data, not its credit

Groups = Sequence[Sequence[Episode]]


@dataclass(frozen=True)
class Method:
    """A method to rate; ``label`` is its name as typed."""

    label: str
    run: Run  # without a folder

    @cached_property
    def chosen(self) -> Chosen:
        """The methods that act on a batch."""
        return Chosen(slots_of(self.run.config, (*ON_BATCH, ALGO)))

    @property
    def needs(self) -> frozenset[str]:
        """Return which of ``values`` and ``entropy`` the method reads."""
        needs = self.chosen.needs()
        return needs | {"values"} if self.run.algorithm.needs_critic else needs

    def credit(self, groups: Groups, known: Mapping[str, np.ndarray] = MappingProxyType({})) -> Credited:
        """Return the method's credit of groups of episodes.

        Args:
            known: (n,) values and entropies of all action tokens.

        Raises:
            KeyError: an input that the method reads is missing.
        """
        from turngrid.verl_plugin.training.offline import credited_episodes  # imports verl, which takes seconds

        return credited_episodes(self.run, groups, {name: known[name] for name in self.needs})


def method(word: str, overrides: Sequence[str]) -> Method:
    """Parse ``ALGO``, ``CREDIT`` (on GRPO) or ``ALGO+CREDIT+...``, each with ``:KEY=VALUE``s.

    A key with a dot is a config key, ``state`` is ``algo.state``, others are the method's.

    Raises:
        ConfigError: the method or setting does not exist, or training would refuse it too.
        Refusal: the method needs more than the episodes, or changes more than their credit.
    """
    parts = [part.split(":") for part in SEPARATOR.split(word)]
    algos, known = [*words(), *installed("algo")], [*SLOTS["credit"], *installed("credit")]
    names = [part[0] for part in parts]
    algo, credits = (names[0], names[1:]) if names[0] in algos else ("grpo", names)
    if unknown := next((name for name in credits if name not in known), None):
        raise Refusal(f"no method {unknown}{meant(unknown, [*algos, *known])} in methods=")
    chosen = [f"algo={algo}", *([f"credit=[{','.join(credits)}]"] if credits else [])]
    settings = [_setting(name, item, known, word) for name, *items in parts for item in items]
    try:
        config = compose([*overrides, *chosen, *settings])
    except ConfigError as error:
        raise ConfigError(f"methods: {word}: {error}") from error
    parsed = Method(word, Run(config))
    _refuse(parsed)
    return parsed


def _setting(name: str, item: str, credits: Sequence[str], word: str) -> str:
    key, equals, _ = item.partition("=")
    if not equals:
        raise Refusal(f"methods: {word}: {item} must be KEY=VALUE")
    if "." in key:
        return item
    return f"credit.{name}.{item}" if name in credits and key != "state" else f"algo.{item}"


def _refuse(method: Method) -> None:
    """Refuse, before any game is run, methods that this command cannot rate."""
    word, config, chosen = method.label, method.run.config, method.chosen
    other = next((slot for slot in OTHERWISE if config.get(slot)), None)
    if other or [*(config.get("rollout_form") or {"linear": {}})] != ["linear"]:
        changed = other or "rollout_form"
        raise Refusal(
            f"methods: {word} chooses {changed} too, which changes what is learned from: name algo and credit alone"
        )
    if chosen.heads() > 1:
        raise Refusal(f"methods: {word} needs a critic with {chosen.heads()} heads, and here it has one")
    if "teacher" in chosen.needs():
        raise Refusal(f"methods: {word} learns from a teacher's log-probs, which this command does not compute")
    if chosen.asking():
        raise Refusal(f"methods: {word} has the policy score other contexts, which this command does not do")
    if "tree" in (config.get("credit") or {}):
        raise Refusal(f"methods: {word} compares branches of a rollout form, and these episodes have none")
    for problem in bad_methods(method.run):
        raise Refusal(f"methods: {word}: {problem}")


def critic_file(policy: str) -> Path | None:
    """Return the weights of the critic beside ``policy`` (``global_step_N/actor/huggingface``).

    Return None if the run has no critic, or if its critic is sharded over several devices.
    """
    file = Path(policy).parents[1] / "critic" / WEIGHTS
    return file if file.exists() else None


def methods(words: Sequence[str], overrides: Sequence[str]) -> list[Method]:
    """Parse the methods."""
    if twice := next((word for word in words if list(words).count(word) > 1), None):
        raise Refusal(f"methods: {twice} is named twice")
    return [method(word, overrides) for word in words]
