"""Where a method's credit would move the policy: the cosine of its policy gradient with that under the true advantages.

A gradient is a sum over games, and its products with another one over pairs of games. The truth's noise is independent from game
to game, so it is in the product of a game with itself alone, where different parts of the continuations are multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.credit_quality.intervals import DRAWS, Interval, interval, weights
from experiments.credit_quality.measures import MEASURES
from experiments.credit_quality.truth import without_noise

LABELS = {"gradient": "cosine with the true policy gradient", "adam": "the same, with Adam's scaling"}
ALL = {name: measure.label for name, measure in MEASURES.items()} | LABELS
NOISE = {name: measure.noise for name, measure in MEASURES.items()} | dict.fromkeys(LABELS, 0.0)
BEST = {name: measure.best for name, measure in MEASURES.items()} | dict.fromkeys(LABELS, 1.0)
PARTS = 4  # of the continuations
EPSILON = 1e-4  # of the mean scale: coordinates that the truth hardly moves do not decide

Table = dict[str, dict[str, Interval]]


@dataclass(frozen=True)
class Products:
    """Inner products between games, (T, T) each: of a method's gradients with the truth's, with each other, and of the truth's with
    each other, without noise."""

    cross: np.ndarray
    own: np.ndarray
    truth: np.ndarray

    def cosine(self, several: np.ndarray) -> np.ndarray:
        """(draws,) for (draws, T) how often each game is drawn; NaN where the truth's gradient is nothing but noise."""
        cross, own, truth = (_summed(product, several) for product in (self.cross, self.own, self.truth))
        known = (truth > 0) & (own >= 0)
        size = np.sqrt(np.where(known, own * truth, 0))
        return np.where(known, np.where(size > 0, cross / np.where(size > 0, size, 1), 0.0), np.nan)


def _summed(product: np.ndarray, several: np.ndarray) -> np.ndarray:
    """Over all pairs of a draw's games. A copy of a game moves along with it, so a draw is as a smaller batch; that shifts the draws,
    and their spread alone makes the interval."""
    return ((several @ product) * several).sum(axis=1)


def products(method: np.ndarray, truth: np.ndarray) -> Products:
    """From (T, P) gradients, and (T, F, P) of the truth by parts of its continuations."""
    method, mean = method.astype(float), truth.mean(axis=1, dtype=float)
    own = mean @ mean.T
    for task, parts in enumerate(truth):
        own[task, task] = without_noise(parts.T.astype(float)).sum()
    return Products(method @ mean.T, method @ method.T, own)


def adam_scale(truth: np.ndarray) -> np.ndarray:
    """(P,) the factor of each parameter: one over the root mean square over games of its gradient under the true advantages."""
    root = np.sqrt((truth.mean(axis=1, dtype=float) ** 2).mean(axis=0))
    return 1 / (root + EPSILON * root.mean() + 1e-30)


def cosines(methods: Mapping[str, np.ndarray], truth: np.ndarray, against: str) -> tuple[Table, Table]:
    """{measure: {method: interval}}, and the same of paired differences; ``methods``: (T, P) each; ``truth`` as for ``products``."""
    scale = adam_scale(truth).astype(truth.dtype)
    tables: tuple[Table, Table] = {}, {}
    for measure, factor in zip(LABELS, (truth.dtype.type(1), scale), strict=True):
        scaled = truth * factor
        found = {name: products(gradient * factor, scaled) for name, gradient in methods.items()}
        for table, rated in zip(tables, rated_cosines(found, against), strict=True):
            table[measure] = rated
    return tables


def rated_cosines(
    found: Mapping[str, Products], against: str, draws: int = DRAWS
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """Of each method, and of each less ``against`` on the same draws of games."""
    tasks = len(found[against].own)
    points = {name: product.cosine(np.ones((1, tasks)))[0] for name, product in found.items()}
    several = {name: product.cosine(weights(tasks, draws)) for name, product in found.items()}
    own = {name: interval(points[name], several[name], tasks) for name in found}
    less = {name: interval(points[name] - points[against], several[name] - several[against], tasks) for name in found}
    return own, less
