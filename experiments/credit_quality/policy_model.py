"""The policy as a model: gradients, entropies and hidden states at each action token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from turngrid.envs.utils.bar import ticking_bar
from turngrid.experiments.credit_quality.intervals import PARTS
from turngrid.experiments.credit_quality.measures import SAME, Truth
from turngrid.experiments.credit_quality.methods import Groups
from turngrid.records.models.loading import load_whole
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.row import Row, to_rows


class PolicyModel:
    """A model folder of transformers, sampled at ``temperature``."""

    def __init__(self, path: str, temperature: float, device: str = "cpu") -> None:
        self.model = load_whole(AutoModelForCausalLM, path, dtype=torch.float32).to(device).eval()
        self.temperature, self.device = temperature, device

    @property
    def size(self) -> int:
        """Return the number of parameters, which is the length of a gradient."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def gradients(self, episodes: Sequence[Episode], credit: np.ndarray) -> np.ndarray:
        """Return (C, P) gradients of sum(credit * log-prob) over tokens, for credit (C, tokens)."""
        total, first = torch.zeros(len(credit), self.size), 0
        for row in rows(episodes):
            logprobs = self.logprobs(row)
            shares, parts = factors(credit[:, first : first + len(logprobs)])
            first += len(logprobs)
            gradients = [self._gradient(logprobs, part) for part in parts]
            total += torch.as_tensor(shares, dtype=torch.float32) @ torch.stack(gradients) if gradients else 0
            del logprobs  # free its graph before building the next row's
        return total.numpy()

    def _gradient(self, logprobs: Tensor, credit: np.ndarray) -> Tensor:
        """Return the gradient for one credit, (P,)."""
        column = torch.as_tensor(credit, dtype=torch.float32).to(self.device)
        gradients = torch.autograd.grad(logprobs, list(self.model.parameters()), column, retain_graph=True)
        return torch.cat([gradient.flatten() for gradient in gradients]).cpu()

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


def factors(credit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factor (C, tokens) credit into (C, n) and (n, tokens) with the smallest n.

    Gradients are linear in credit, and most methods give all tokens of a turn the same credit, so n
    backward passes are enough. A method's factor is exactly 0 where it gives no credit.
    """
    shares, sizes, parts = np.linalg.svd(credit, full_matrices=False)
    known = sizes > SAME * sizes.max(initial=0)
    return np.where(credit.any(axis=1, keepdims=True), shares[:, known] * sizes[known], 0), parts[known]


def rows(episodes: Sequence[Episode]) -> list[Row]:
    return [row for episode in episodes for row in to_rows(episode, "")]


def positions(row: Row, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Return a row's ids, (1, length), and the positions before its action tokens."""
    ids = torch.tensor([row.prompt_ids + row.response_ids], device=device)
    return ids, torch.tensor(row.mask, device=device).nonzero().squeeze(1) + len(row.prompt_ids) - 1


def of_games(
    model: PolicyModel, groups: Groups, credits: Mapping[str, np.ndarray], truth: Truth
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the gradients of every game: (T, P) for each method, and (T, F, P) for the truth.

    F is the number of parts into which the continuations are split.

    Args:
        credits: (tokens,) over all episodes, by method.
    """
    tokens = [[len(t.action_ids) - episode.muted(t) for t in episode.turns] for group in groups for episode in group]
    lengths = np.concatenate(tokens)
    parts = [part.mean(axis=1) for part in np.array_split(truth.replicas, min(PARTS, truth.k), axis=1)]
    columns = np.stack([*credits.values(), *(np.repeat(part, lengths) for part in parts)])
    firsts = pairwise([0, *np.cumsum([len(group) for group in groups]).tolist()])
    ends = np.cumsum([sum(map(sum, tokens[start:end])) for start, end in firsts])
    by_game = []
    with ticking_bar(total=len(groups), desc="gradients", unit="game") as bar:
        for group, own in zip(groups, np.split(columns, ends[:-1], axis=1), strict=True):
            by_game.append(model.gradients(group, own))
            bar.update()
    whole = np.stack(by_game)
    return {name: whole[:, index] for index, name in enumerate(credits)}, whole[:, len(credits) :]
