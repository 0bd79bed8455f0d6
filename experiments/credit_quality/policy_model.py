"""The policy as a model: gradients, entropies and hidden states at each action token; and values.

Values come from the run's critic, which is loaded from the policy's checkpoint, or from one trained
here: a small value head on the policy's hidden states. It is cross-fitted: each game's values come
from a head that never saw it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification

from turngrid.envs.utils.bar import ticking_bar
from turngrid.experiments.credit_quality.game import MeasuredGame, keys, score, token_counts
from turngrid.experiments.credit_quality.intervals import PARTS, Products, products
from turngrid.experiments.credit_quality.measures import Truth
from turngrid.experiments.credit_quality.methods import Groups
from turngrid.experiments.credit_quality.study import Measured
from turngrid.records.models.locate import load_whole
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.row import Row, to_rows

FOLDS = 5  # cross-fitting folds of the games
WEIGHTS = "model_world_size_1_rank_0.pt"  # verl's name of the weights' file
WIDTH, STEPS, BATCH, RATE, DECAY = 64, 400, 1024, 3e-3, 0.1


class PolicyModel:
    """A model folder of transformers, sampled at ``temperature``."""

    def __init__(self, path: str, temperature: float, device: str = "cpu") -> None:
        self.model = load_whole(AutoModelForCausalLM, path, dtype=torch.float32).to(device).eval()
        self.temperature, self.device = temperature, device
        self.size = sum(parameter.numel() for parameter in self.model.parameters())  # of a gradient
        self.critic = run_critic(file) if (file := critic_file(path)) else None

    def gradients(self, episodes: Sequence[Episode], credit: np.ndarray) -> np.ndarray:
        """Return (C, P) gradients of sum(credit * log-prob) over tokens, for credit (C, tokens)."""
        total, first = torch.zeros(len(credit), self.size), 0
        columns = torch.as_tensor(credit, dtype=torch.float32).to(self.device)
        for row in rows(episodes):
            logprobs = self.logprobs(row)
            for gradient, column in zip(total, columns[:, first : first + len(logprobs)], strict=True):
                parts = torch.autograd.grad(logprobs, list(self.model.parameters()), column, retain_graph=True)
                gradient += torch.cat([part.flatten() for part in parts]).cpu()
            first += len(logprobs)
            del logprobs  # free its graph before building the next row's
        return total.numpy()

    def logprobs(self, row: Row) -> Tensor:
        """Return the log-probs of a row's action tokens, (tokens,), computed as in training."""
        ids, at = positions(row, self.device)
        return self._distributions(ids, at).gather(1, ids[0, at + 1].unsqueeze(1)).squeeze(1)

    def _distributions(self, ids: Tensor, at: Tensor) -> Tensor:
        """Return (tokens, vocabulary) log-probabilities at the sampling temperature."""
        hidden = self.model.base_model(input_ids=ids).last_hidden_state[0, at]
        return torch.log_softmax(self.model.get_output_embeddings()(hidden) / self.temperature, dim=-1)

    @torch.no_grad()
    def entropy(self, episode: Episode) -> np.ndarray:
        """Return the entropy of the distribution of each action token, (tokens,), in nats."""
        distributions = [self._distributions(*positions(row, self.device)) for row in rows([episode])]
        return torch.cat([-(one.exp() * one).sum(dim=1) for one in distributions]).cpu().numpy()

    @torch.no_grad()
    def hidden(self, episode: Episode) -> np.ndarray:
        """Return (tokens, H): the hidden states of all layers before each action token."""
        rows_hidden = []
        for row in rows([episode]):
            ids, at = positions(row, self.device)
            states = self.model.base_model(input_ids=ids, output_hidden_states=True).hidden_states
            rows_hidden.append(torch.cat([layer[0, at] for layer in states], dim=1).cpu().numpy())
        return np.concatenate(rows_hidden)


def rows(episodes: Sequence[Episode]) -> list[Row]:
    return [row for episode in episodes for row in to_rows(episode, "")]


def positions(row: Row, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Return a row's ids, (1, length), and the positions before its action tokens."""
    ids = torch.tensor([row.prompt_ids + row.response_ids], device=device)
    return ids, torch.tensor(row.mask, device=device).nonzero().squeeze(1) + len(row.prompt_ids) - 1


def of_games(
    model: PolicyModel, groups: Groups, credits: Mapping[str, np.ndarray], truth: Truth
) -> dict[str, Products]:
    """Return the inner products of each method's gradients of all games."""
    counts = [[count for episode in group for count in token_counts(episode)] for group in groups]
    parts = np.array_split(truth.replicas, min(PARTS, truth.k), axis=1)
    true = [np.repeat(part.mean(axis=1), np.concatenate(counts)) for part in parts]
    columns = np.split(np.stack([*credits.values(), *true]), np.cumsum([*map(sum, counts)])[:-1], axis=1)
    by_game = []
    with ticking_bar(total=len(groups), desc="gradients", unit="game") as bar:
        for group, own in zip(groups, columns, strict=True):
            by_game.append(model.gradients(group, own))
            bar.update()
    whole = np.stack(by_game)  # (games, methods and parts, P)
    return {name: products(whole[:, index], whole[:, len(credits) :]) for index, name in enumerate(credits)}


# ---- values


def critic_file(policy: str) -> Path | None:
    """Return the weights of the critic beside ``policy`` (``global_step_N/actor/huggingface``).

    Return None if the run has no critic, or if its critic is sharded over several devices.
    """
    file = Path(policy).parents[1] / "critic" / WEIGHTS
    return file if file.exists() else None


def run_critic(file: Path) -> Callable[[Episode], np.ndarray]:
    """Load a run's critic; return a function of the value before each action token, (tokens,).

    If the critic has several heads, it is the first one.

    Raises:
        RuntimeError: the weights do not match the run's config.
    """
    state = torch.load(file, weights_only=True, map_location="cpu")
    whole = {name: value.to_local() if isinstance(value, DTensor) else value for name, value in state.items()}
    config = AutoConfig.from_pretrained(file.parent / "huggingface", num_labels=len(whole["score.bias"]))
    model = AutoModelForTokenClassification.from_config(config, dtype=torch.float32).eval()
    model.load_state_dict(whole)

    @torch.no_grad()
    def values(episode: Episode) -> np.ndarray:
        placed = [positions(row) for row in rows([episode])]
        return np.concatenate([model(input_ids=ids).logits[0, at, 0].numpy() for ids, at in placed])

    return values


def critic_values(model: PolicyModel, games: Measured, groups: Groups, reward: str, k: int) -> tuple[np.ndarray, float]:
    """Return the value before each action token of the groups, (tokens,), and the explained share
    of the variance of the continuations' returns.

    The share is at most 1, and 0 if the returns are constant.
    """
    goals = [[_goal(game, one, reward, k) for one in group] for game, group in zip(games.taken, groups, strict=True)]
    if critic := model.critic:
        values = [[critic(episode) for episode in group] for group in groups]
    else:
        values = _trained_values(model, games, groups, goals, reward)
    given, true = (np.concatenate([one for group in part for one in group]) for part in (values, goals))
    variance = float(true.var())
    return given, 1 - float(np.mean((given - true) ** 2)) / variance if variance else 0.0


def _trained_values(
    model: PolicyModel, games: Measured, groups: Groups, goals: Sequence[Sequence[np.ndarray]], reward: str
) -> list[list[np.ndarray]]:
    """Train value heads by regression on returns of screening episodes and continuations.

    The target at a turn's first token is the value before the turn. At the turn's other tokens it
    is the value after the turn.
    """
    hidden = [[model.hidden(episode) for episode in group] for group in groups]
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
    return values


def _goal(game: MeasuredGame, episode: Episode, reward: str, k: int) -> np.ndarray:
    """Return an episode's regression targets, (tokens,)."""
    means = [*(float(np.mean(game.values[key][:k])) for key in keys(episode)), score(episode, reward)]
    goals = [np.r_[means[t], np.full(count - 1, means[t + 1])] for t, count in enumerate(token_counts(episode))]
    return np.concatenate(goals)


def _trained(hidden: np.ndarray, goal: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Fit one hidden layer over standardised states; return a function of (tokens, H) states."""
    mean, deviation = hidden.mean(axis=0), hidden.std(axis=0) + 1e-3

    def scaled(states: np.ndarray) -> Tensor:
        return torch.as_tensor((states - mean) / deviation, dtype=torch.float32)

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Linear(hidden.shape[1], WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1))
        optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
        states, goals = scaled(hidden), torch.as_tensor(goal, dtype=torch.float32)
        for step in range(STEPS):
            some = torch.randint(len(goals), (BATCH,))
            loss = (net(states[some]).squeeze(1) - goals[some]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1 - step / STEPS)
            optimiser.step()

    @torch.no_grad()
    def values(states: np.ndarray) -> np.ndarray:
        return net(scaled(states)).squeeze(1).numpy()

    return values
