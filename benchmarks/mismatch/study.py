"""Measure a cell of the study: a difference between sampler and trainer, and a number of turns.

All corrections see the same random numbers, so a correction's figures do not depend on which others
are measured with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.mismatch.corrected import Correction, Rows
from benchmarks.mismatch.game import Episodes, Game, Weights, beginners, flat, log_probs
from benchmarks.mismatch.samplers import HEALTHY, SAMPLERS, Make
from turngrid.experiments.credit_quality.measures import without_noise

GROUPS, SAMPLES = 8, 8  # of a step: 64 episodes
WARM = 8  # updates without a difference before gradients are measured, as many as the stalest sampler is old
RATE, DECAY = 0.003, (0.9, 0.999)  # Adam's

Column = list[float]  # a number for each seed


@dataclass(frozen=True)
class Size:
    """Size of a study."""

    seeds: int  # policies; intervals are over them
    batches: int  # steps of each policy whose gradients are sampled
    steps: int  # updates of a training


@dataclass(frozen=True)
class Cell:
    """Figures of one correction, a number for each seed.

    Attributes:
        bias2: |mean gradient - truth|^2 / |truth|^2 without the noise of the mean, so it may be
            below 0.
        along: the mean gradient's component along the truth, in units of the truth.
        size2: |mean gradient|^2 / |truth|^2, without the noise of the mean.
        variance: trace of the covariance of a step's gradient / |truth|^2.
        kept: share of tokens that are trained on and have a weight above 0.
        success: exact probability of winning after the training.
    """

    bias2: Column
    along: Column
    size2: Column
    variance: Column
    kept: Column
    success: Column


def measured(
    name: str, turns: int, size: Size, corrections: Mapping[str, Correction], plain: Correction
) -> tuple[float, dict[str, Cell]]:
    """Return the difference in log-probs, in nats a token, and each correction's figures.

    Args:
        name: of a sampler.
        plain: ``correction=none``; the policies whose gradients are measured are trained with it.
    """
    game, make, start = Game(turns), SAMPLERS[name].make, beginners(size.seeds)
    history = training(game, SAMPLERS[HEALTHY].make, start, WARM, [plain])
    truth = game.gradient(history[-1]).numpy() / game.tokens  # a step's loss is a mean over tokens
    draw = torch.Generator().manual_seed(turns)
    weights, episodes, reported = sampled(game, make, history, size.batches, draw)
    nats = (episodes.chosen(log_probs(weights)) - reported).abs().mean().item()
    ends = training(game, make, start, size.steps, list(corrections.values()))[-1]
    success = game.success(log_probs(ends)).view(len(corrections), -1).tolist()
    cells = {}
    for number, (label, correction) in enumerate(corrections.items()):
        gradients, kept = step_gradients(weights, episodes, reported, correction)
        figures = rated(gradients.view(size.seeds, size.batches, -1).numpy(), truth)
        shares = kept.view(size.seeds, -1).mean(dim=1).tolist()
        cells[label] = Cell(**figures, kept=shares, success=success[number])
    return nats, cells


# ---- gradients


def sampled(
    game: Game, make: Make, history: Sequence[Weights], batches: int, draw: torch.Generator
) -> tuple[Weights, Episodes, Tensor]:
    """Sample ``batches`` steps of each policy.

    Returns:
        The newest weights, the episodes and the reported log-probs, each of seeds x batches
        policies.
    """
    sampler = make(history)
    weights, tables = history[-1], (sampler.probabilities, sampler.reported)
    weights, tables = (tuple(one.repeat_interleave(batches, dim=0) for one in pair) for pair in (weights, tables))
    draws = torch.rand(len(tables[0]), GROUPS * SAMPLES, game.tokens, generator=draw)
    episodes = game.episodes(tables[0], draws)
    return weights, episodes, with_noise(episodes.chosen(tables[1]), sampler.noise, draw)


def with_noise(reported: Tensor, nats: float, draw: torch.Generator) -> Tensor:
    return reported + nats * torch.randn(reported.shape, generator=draw) if nats else reported


def step_gradients(
    weights: Weights, episodes: Episodes, reported: Tensor, correction: Correction
) -> tuple[Tensor, Tensor]:
    """Return each step's gradient, (R, P) in float64, and the tokens that count, (R, N, tokens)."""
    parameters = (weights[0].clone().requires_grad_(), weights[1].clone().requires_grad_())
    loss, kept = loss_of(episodes.chosen(log_probs(parameters)), reported, episodes.won, correction)
    return flat(torch.autograd.grad(-loss, parameters)).double(), kept.view(reported.shape)


def loss_of(chosen: Tensor, reported: Tensor, won: Tensor, correction: Correction) -> tuple[Tensor, Tensor]:
    """Return the loss of R steps, one a policy, from log-probs (R, N, tokens); and what counts."""
    numbers = torch.arange(won.numel())
    rows = Rows(reported.flatten(0, 1), won.flatten().float(), numbers // SAMPLES, numbers // won.shape[1])
    return correction.loss(chosen.flatten(0, 1), rows)


def rated(gradients: np.ndarray, truth: np.ndarray) -> dict[str, Column]:
    """Compare gradients (seeds, batches, P) with the true ones, (seeds, P)."""
    norm2 = (truth**2).sum(axis=1)
    off = gradients - truth[:, None]
    return {
        "bias2": [float(without_noise(one.T).sum()) / size for one, size in zip(off, norm2, strict=True)],
        "along": ((gradients.mean(axis=1) * truth).sum(axis=1) / norm2).tolist(),
        "size2": [float(without_noise(one.T).sum()) / size for one, size in zip(gradients, norm2, strict=True)],
        "variance": (gradients.var(axis=1, ddof=1).sum(axis=1) / norm2).tolist(),
    }


# ---- learning


def training(game: Game, make: Make, start: Weights, steps: int, corrections: Sequence[Correction]) -> list[Weights]:
    """Train a copy of each policy with each correction.

    If no token of a policy's step counts, its weights stay as they are, as in the trainer.

    Returns:
        The weights of corrections x seeds policies: before training, then after each update.
    """
    copies, seeds = len(corrections), len(start[0])
    history: list[Weights] = [(start[0].repeat(copies, 1, 1), start[1].repeat(copies, 1, 1))]
    adam, draw = Adam(history[0]), torch.Generator().manual_seed(game.turns)
    for _ in range(steps):
        sampler = make(history)
        draws = torch.rand(seeds, GROUPS * SAMPLES, game.tokens, generator=draw)
        episodes = game.episodes(sampler.probabilities, draws.repeat(copies, 1, 1))
        noise = with_noise(torch.zeros_like(draws), sampler.noise, draw).repeat(copies, 1, 1)
        reported = episodes.chosen(sampler.reported) + noise
        parameters = (history[-1][0].clone().requires_grad_(), history[-1][1].clone().requires_grad_())
        parts = zip(
            corrections,
            *(column.chunk(copies) for column in (episodes.chosen(log_probs(parameters)), reported, episodes.won)),
            strict=True,
        )
        losses, kept = zip(*(loss_of(*columns, correction) for correction, *columns in parts), strict=True)
        gradients = torch.autograd.grad(torch.stack(losses).sum(), parameters)
        alive = torch.cat(kept).view(copies * seeds, -1).any(dim=1)
        history.append(adam.updated(history[-1], gradients, alive))
    return history


class Adam:
    """Adam (arXiv 1412.6980) for R policies, each with its own number of updates."""

    def __init__(self, weights: Weights) -> None:
        self.count = torch.zeros(len(weights[0]), 1, 1)
        self.means = [torch.zeros_like(matrix) for matrix in weights]
        self.squares = [torch.zeros_like(matrix) for matrix in weights]

    def updated(self, weights: Weights, gradients: Sequence[Tensor], alive: Tensor) -> Weights:
        """Return the weights after an update of the policies in ``alive``, (R,)."""
        on = alive.view(-1, 1, 1)
        self.count = self.count + on
        new = []
        for number, (matrix, gradient) in enumerate(zip(weights, gradients, strict=True)):
            for moments, value, decay in zip((self.means, self.squares), (gradient, gradient**2), DECAY, strict=True):
                moments[number] = torch.where(on, decay * moments[number] + (1 - decay) * value, moments[number])
            scale = [1 - decay ** self.count.clamp(min=1) for decay in DECAY]
            step = self.means[number] / scale[0] / ((self.squares[number] / scale[1]).sqrt() + 1e-8)
            new.append(torch.where(on, matrix - RATE * step, matrix))
        return new[0], new[1]
