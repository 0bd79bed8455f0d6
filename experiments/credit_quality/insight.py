"""What is asked of the policy itself, where it is a model: entropies, values, gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.credit_quality.methods import Batch, Groups, Method
from experiments.credit_quality.study import Measured
from experiments.credit_quality.truth import Truth

if TYPE_CHECKING:
    from experiments.credit_quality.critic import RunCritic
    from experiments.credit_quality.policy_model import PolicyModel

MOST = 10**9  # numbers of all gradients together, 4 GB


@dataclass(frozen=True)
class Insight:
    """``model`` is None for a policy that is none; ``critic``: the run's, None where it has none; ``wanted``: gradients are."""

    model: PolicyModel | None = None
    critic: RunCritic | None = None
    wanted: bool = True

    def batch(
        self, methods: Sequence[Method], games: Measured, groups: Groups, reward: str, k: int
    ) -> tuple[Batch, dict[str, Any]]:
        """With what the methods need of the policy, and what is to be said about it."""
        needs = frozenset(need for method in methods for need in method.needs)
        known: dict[str, Sequence[Sequence[np.ndarray]]] = {}
        told: dict[str, Any] = {}
        if "entropy" in needs and self.model:
            known["entropy"] = [[self.model.entropy(episode) for episode in group] for group in groups]
        if "values" in needs and self.model:
            from experiments.credit_quality.critic import trained_values, values_of

            if self.critic:
                found = values_of(self.critic, games.taken, groups, reward, k)
            else:
                found = trained_values(self.model, games, groups, reward, k)
            known["values"] = found.values
            told = {"critic": "the run's" if self.critic else "trained here", "critic_explains": found.explained}
        return Batch(groups, known), told

    def gradients(
        self, groups: Groups, credits: Mapping[str, np.ndarray], truth: Truth
    ) -> tuple[dict[str, np.ndarray], np.ndarray] | None:
        """As ``policy_model.of_games``; None without a model, or where it is too large, or nobody wants them."""
        from experiments.credit_quality.gradients import PARTS

        if self.model is None or not self.wanted or len(groups) * (len(credits) + PARTS) * self.model.size > MOST:
            return None
        from experiments.credit_quality.policy_model import of_games

        return of_games(self.model, groups, credits, truth)
