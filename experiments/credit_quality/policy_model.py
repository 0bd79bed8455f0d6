"""The policy as a model: gradients, and entropies and values at each action token.

Values come from the run's critic, which is loaded from the policy's checkpoint.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification

from turngrid.envs.utils.bar import ticking_bar
from turngrid.experiments.credit_quality.game import token_counts
from turngrid.experiments.credit_quality.intervals import PARTS, Statistic, cosine
from turngrid.experiments.credit_quality.measures import Truth
from turngrid.experiments.credit_quality.methods import Groups
from turngrid.records.models.locate import load_whole
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.row import Row, to_rows


class PolicyModel:
    """A model folder of transformers, sampled at ``temperature``."""

    def __init__(self, path: str, temperature: float, device: str = "cpu") -> None:
        self.model = load_whole(AutoModelForCausalLM, path, dtype=torch.float32).to(device).eval()
        self.path, self.temperature, self.device = path, temperature, device
        self.size = sum(parameter.numel() for parameter in self.model.parameters())  # of a gradient

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


def rows(episodes: Sequence[Episode]) -> list[Row]:
    return [row for episode in episodes for row in to_rows(episode, "")]


def positions(row: Row, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Return a row's ids, (1, length), and the positions before its action tokens."""
    ids = torch.tensor([row.prompt_ids + row.response_ids], device=device)
    return ids, torch.tensor(row.mask, device=device).nonzero().squeeze(1) + len(row.prompt_ids) - 1


def of_games(
    model: PolicyModel, groups: Groups, credits: Mapping[str, np.ndarray], truth: Truth
) -> dict[str, Statistic]:
    """Return the cosine of each method's gradients of all games with the true ones."""
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
    return {name: cosine(whole[:, index], whole[:, len(credits) :]) for index, name in enumerate(credits)}


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
