"""Values for methods that need a critic: from the run's critic, or from one trained here.

The run's critic is loaded from the policy's checkpoint. The one trained here is a small value head
on the policy's hidden states, cross-fitted: each game's values come from a head that never saw it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForTokenClassification

from turngrid.experiments.credit_quality.game import MeasuredGame, keys, score, token_counts
from turngrid.experiments.credit_quality.methods import Groups
from turngrid.experiments.credit_quality.policy_model import PolicyModel, positions, rows
from turngrid.experiments.credit_quality.study import Measured
from turngrid.rollouts.episode import Episode

FOLDS = 5  # cross-fitting folds of the games
WEIGHTS = "model_world_size_1_rank_0.pt"  # verl's name of the weights' file
WIDTH, STEPS, BATCH, RATE, DECAY = 64, 400, 1024, 3e-3, 0.1


@dataclass(frozen=True)
class Values:
    """Values of a critic.

    Attributes:
        values: (tokens,) by group and episode.
        explained: explained share of the variance of the continuations' returns; at most 1, and 0
            if the returns are constant.
    """

    values: Sequence[Sequence[np.ndarray]]
    explained: float


def critic_file(policy: str) -> Path | None:
    """Return the weights of the critic beside ``policy`` (``global_step_N/actor/huggingface``).

    Return None if the run has no critic, or if its critic is sharded over several devices.
    """
    file = Path(policy).parents[1] / "critic" / WEIGHTS
    return file if file.exists() else None


class RunCritic:
    """A run's critic; if it has several heads, the first one."""

    def __init__(self, file: Path) -> None:
        """Load the critic.

        Raises:
            RuntimeError: the weights do not match the run's config.
        """
        state = torch.load(file, weights_only=True, map_location="cpu")
        whole = {name: value.to_local() if isinstance(value, DTensor) else value for name, value in state.items()}
        config = AutoConfig.from_pretrained(file.parent / "huggingface", num_labels=len(whole["score.bias"]))
        self.model = AutoModelForTokenClassification.from_config(config, dtype=torch.float32).eval()
        self.model.load_state_dict(whole)

    @torch.no_grad()
    def values(self, episode: Episode) -> np.ndarray:
        """Return the value before each action token, (tokens,)."""
        placed = [positions(row) for row in rows([episode])]
        return np.concatenate([self.model(input_ids=ids).logits[0, at, 0].numpy() for ids, at in placed])


def run_values(critic: RunCritic, games: Measured, groups: Groups, reward: str, k: int) -> Values:
    """Compute the run's critic's value before each action token of the groups."""
    return _explained([[critic.values(episode) for episode in group] for group in groups], games, groups, reward, k)


def trained_values(model: PolicyModel, games: Measured, groups: Groups, reward: str, k: int) -> Values:
    """Train value heads by regression on returns of all screening episodes and of the
    continuations.

    The target at a turn's first token is the value before the turn. At the turn's other tokens it
    is the value after the turn.
    """
    hidden = [[model.hidden(episode) for episode in group] for group in groups]
    goals = _goals(games, groups, reward, k)
    known = [
        (game.key, *pair)
        for game, *own in zip(games.taken, hidden, goals, strict=True)
        for pair in zip(*own, strict=True)
    ]
    for game in games.seen:
        for episode in (episode for episode in game.screened if episode.turns):
            states = model.hidden(episode)
            known.append((game.key, states, np.full(len(states), score(episode, reward))))
    values: list[list[np.ndarray]] = [[] for _ in groups]
    folds = min(FOLDS, len(groups))
    for fold in range(folds):
        own = {game.key for game in games.taken[fold::folds]}
        others = [pair for key, *pair in known if key not in own]
        states, returns = (np.concatenate(part) for part in zip(*others, strict=True))
        head = _trained(states, returns, fold)
        for number in range(fold, len(groups), folds):
            values[number] = [head(one) for one in hidden[number]]
    return _explained(values, games, groups, reward, k)


def _explained(values: Sequence[Sequence[np.ndarray]], games: Measured, groups: Groups, reward: str, k: int) -> Values:
    given, true = (
        np.concatenate([one for group in part for one in group]) for part in (values, _goals(games, groups, reward, k))
    )
    variance = float(true.var())
    return Values(values, 1 - float(np.mean((given - true) ** 2)) / variance if variance else 0.0)


def _goals(games: Measured, groups: Groups, reward: str, k: int) -> list[list[np.ndarray]]:
    """Return each episode's regression targets, (tokens,)."""
    return [[_goal(game, one, reward, k) for one in group] for game, group in zip(games.taken, groups, strict=True)]


def _goal(game: MeasuredGame, episode: Episode, reward: str, k: int) -> np.ndarray:
    means = [*(float(np.mean(game.values[key][:k])) for key in keys(episode)), score(episode, reward)]
    goals = [np.r_[means[t], np.full(count - 1, means[t + 1])] for t, count in enumerate(token_counts(episode))]
    return np.concatenate(goals)


def _trained(hidden: np.ndarray, goal: np.ndarray, seed: int) -> _Head:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = _Head(hidden)
        optimiser = torch.optim.AdamW(head.net.parameters(), lr=RATE, weight_decay=DECAY)
        states, goals = head.scaled(hidden), torch.as_tensor(goal, dtype=torch.float32)
        for step in range(STEPS):
            some = torch.randint(len(goals), (BATCH,))
            loss = (head.net(states[some]).squeeze(1) - goals[some]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1 - step / STEPS)
            optimiser.step()
    return head


class _Head:
    """One hidden layer over standardised states."""

    def __init__(self, hidden: np.ndarray) -> None:
        self.mean, self.deviation = hidden.mean(axis=0), hidden.std(axis=0) + 1e-3
        width = hidden.shape[1]
        self.net = torch.nn.Sequential(torch.nn.Linear(width, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1))

    def scaled(self, hidden: np.ndarray) -> torch.Tensor:
        return torch.as_tensor((hidden - self.mean) / self.deviation, dtype=torch.float32)

    @torch.no_grad()
    def __call__(self, hidden: np.ndarray) -> np.ndarray:
        """Return (tokens,) values of (tokens, H) states."""
        return self.net(self.scaled(hidden)).squeeze(1).numpy()
