"""Values for methods that need a critic: from the run's critic, or from one trained here.

The run's critic is loaded from the policy's checkpoint. The one trained here is a small value head
on the policy's hidden states, cross-fitted: each game's values come from a head that never saw it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForTokenClassification

from turngrid.experiments.credit_quality.game import MeasuredGame, keys
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
            if the values are constant.
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


def values_of(critic: RunCritic, games: Sequence[MeasuredGame], groups: Groups, reward: str, k: int) -> Values:
    """Return the values of the run's critic."""
    return _explained([[critic.values(episode) for episode in group] for group in groups], games, groups, reward, k)


def trained_values(model: PolicyModel, games: Measured, groups: Groups, reward: str, k: int) -> Values:
    """Train value heads by regression on returns of all screening episodes and of the
    continuations.

    The target at a turn's first token is the value before the turn. At the turn's other tokens it
    is the value after the turn.
    """
    taken = games.taken
    hidden = [[model.hidden(episode) for episode in group] for group in groups]
    goals = _goals(taken, groups, reward, k)
    known = [
        (game.key, *one) for game, *own in zip(taken, hidden, goals, strict=True) for one in zip(*own, strict=True)
    ]
    known += [(game.key, *one) for game in games.seen for one in _screened(model, game, reward)]
    values: list[list[np.ndarray]] = [[] for _ in groups]
    folds = min(FOLDS, len(taken))
    for fold in range(folds):
        part = {game.key: number for number, game in enumerate(taken) if number % folds == fold}
        states, returns = _joined([one[1:] for one in known if one[0] not in part])
        head = _trained(states, returns, fold)
        for number in part.values():
            values[number] = [head(one) for one in hidden[number]]
    return _explained(values, taken, groups, reward, k)


def _explained(
    values: Sequence[Sequence[np.ndarray]], games: Sequence[MeasuredGame], groups: Groups, reward: str, k: int
) -> Values:
    goals = _goals(games, groups, reward, k)
    given, true = _joined([one for own in zip(values, goals, strict=True) for one in zip(*own, strict=True)])
    return Values(values, float(1 - np.mean((given - true) ** 2) / max(true.var(), 1e-12)))


def _joined(pairs: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate(own) for own in zip(*pairs, strict=True)]


def _screened(model: PolicyModel, game: MeasuredGame, reward: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for episode in game.screened:
        if episode.turns:
            hidden = model.hidden(episode)
            yield hidden, np.full(len(hidden), sum(turn.trained(reward) for turn in episode.turns))


def _goals(games: Sequence[MeasuredGame], groups: Groups, reward: str, k: int) -> list[list[np.ndarray]]:
    """Return each episode's regression targets, (tokens,)."""
    return [[_goal(game, one, reward, k) for one in group] for game, group in zip(games, groups, strict=True)]


def _goal(game: MeasuredGame, episode: Episode, reward: str, k: int) -> np.ndarray:
    score = sum(turn.trained(reward) for turn in episode.turns)
    means = [*(float(np.mean(game.values[key][:k])) for key in keys(episode)), score]
    lengths = [len(turn.action_ids) - episode.muted(turn) for turn in episode.turns]
    goals = [np.r_[means[index], np.full(length - 1, means[index + 1])] for index, length in enumerate(lengths)]
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
