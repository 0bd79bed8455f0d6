"""A game of many turns whose policy gradient is known exactly, and small policies for it.

An answer is ``LENGTH`` tokens. Each room has one answer, its command, that leaves it. A game is won
if two thirds of its turns left a room. The probability of that is a recursion over turns and rooms,
so its gradient is exact for any number of turns.

Functions compute R policies together: the first dimension of tensors is R.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

ROOMS, LENGTH, VOCABULARY, HIDDEN = 4, 3, 12, 24
ANSWERED = 1 + (LENGTH - 1) * VOCABULARY  # what may precede a token in its answer: nothing, or a place and a token
CONTEXTS = ROOMS * ANSWERED
COMMANDS = torch.arange(ROOMS * LENGTH).reshape(ROOMS, LENGTH) * 5 % VOCABULARY  # the token ids of each room's command
SURE = 0.8  # what the first training aims at for a command's tokens; it gets to .75

Weights = tuple[Tensor, Tensor]  # (R, HIDDEN, ROOMS + ANSWERED) and (R, VOCABULARY, HIDDEN)


def context(room: Tensor, place: int, before: Tensor) -> Tensor:
    """Return a context's number, from room, place in the answer and the token before."""
    return room * ANSWERED + (1 + (place - 1) * VOCABULARY + before if place else 0)


_NUMBERS = torch.arange(CONTEXTS)
INPUTS = torch.cat(  # (CONTEXTS, ROOMS + ANSWERED): a 1 for the room and a 1 for what precedes
    [one_hot(_NUMBERS // ANSWERED, ROOMS), one_hot(_NUMBERS % ANSWERED, ANSWERED)], dim=1
).float()


def log_probs(weights: Weights, rounded: Callable[[Tensor], Tensor] = lambda numbers: numbers) -> Tensor:
    """Return the log-probs of every token in every context, (R, CONTEXTS, VOCABULARY).

    Args:
        rounded: is applied to weights, hidden states and logits.
    """
    first, last = (rounded(matrix) for matrix in weights)
    hidden = rounded(torch.tanh(INPUTS.to(first.dtype) @ first.transpose(1, 2)))
    return torch.log_softmax(rounded(hidden @ last.transpose(1, 2)), dim=-1)


def beginners(seeds: int) -> Weights:
    """Return policies that give about .75 to a command's tokens, as after SFT; one a seed.

    The other tokens of a context have unequal shares, which differ between seeds.
    """
    draws = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    shapes = ((HIDDEN, ROOMS + ANSWERED), (VOCABULARY, HIDDEN))
    weights = [torch.stack([torch.randn(shape, generator=draw) for draw in draws]) for shape in shapes]
    targets = torch.stack([torch.rand(CONTEXTS, VOCABULARY, generator=draw) ** 4 for draw in draws])
    for place in range(LENGTH):
        at, word = commanded(place)
        targets[:, at, word] = 0
        targets[:, at] *= (1 - SURE) / targets[:, at].sum(dim=-1, keepdim=True)
        targets[:, at, word] = SURE
    targets = targets / targets.sum(dim=-1, keepdim=True)
    parameters = [matrix.requires_grad_() for matrix in weights]
    adam = torch.optim.Adam(parameters, lr=0.05)
    for _ in range(100):
        adam.zero_grad()
        (-(targets * log_probs((parameters[0], parameters[1]))).sum() / CONTEXTS).backward()
        adam.step()
    return parameters[0].detach(), parameters[1].detach()


def commanded(place: int) -> tuple[Tensor, Tensor]:
    """Return each room's context before the ``place``-th token of its command, and that token."""
    return context(torch.arange(ROOMS), place, COMMANDS[:, place - 1]), COMMANDS[:, place]


@dataclass(frozen=True)
class Episodes:
    """N episodes of each of R policies, (R, N, tokens), and whether each was won, (R, N)."""

    contexts: Tensor
    tokens: Tensor
    won: Tensor

    def chosen(self, tables: Tensor) -> Tensor:
        """Return what tables (R, CONTEXTS, VOCABULARY) have for the tokens, (R, N, tokens)."""
        numbers = (self.contexts * VOCABULARY + self.tokens).flatten(1)
        return tables.flatten(1).gather(1, numbers).view(self.tokens.shape)


@dataclass(frozen=True)
class Game:
    """The game with this number of turns."""

    turns: int

    @property
    def tokens(self) -> int:
        return self.turns * LENGTH

    @property
    def goal(self) -> int:
        """Return the number of rooms that must be left."""
        return -(-2 * self.turns // 3)

    def success(self, tables: Tensor) -> Tensor:
        """Return the probability of winning, (R,), from log-probs (R, CONTEXTS, VOCABULARY)."""
        leaves = torch.stack([tables[:, *commanded(place)] for place in range(LENGTH)]).sum(dim=0).exp()
        rooms = torch.arange(self.turns + 1)
        value = (rooms >= self.goal).to(tables.dtype).expand(len(tables), -1)
        for turn in reversed(range(self.turns)):
            chance = leaves[:, rooms[: turn + 1] % ROOMS]
            value = chance * value[:, 1 : turn + 2] + (1 - chance) * value[:, : turn + 1]
        return value[:, 0]

    def gradient(self, weights: Weights) -> Tensor:
        """Return the gradient of each policy's probability of winning, (R, P) in float64."""
        exact = tuple(matrix.double().requires_grad_() for matrix in weights)
        return flat(torch.autograd.grad(self.success(log_probs((exact[0], exact[1]))).sum(), exact))

    def episodes(self, probabilities: Tensor, draws: Tensor) -> Episodes:
        """Sample from probabilities (R, CONTEXTS, VOCABULARY).

        Args:
            draws: numbers in [0, 1), (R, N, tokens).
        """
        shares = probabilities.cumsum(dim=-1)
        shares = shares / shares[..., -1:]
        contexts, tokens = torch.zeros(2, *draws.shape, dtype=torch.int64)
        left = torch.zeros(draws.shape[:2], dtype=torch.int64)
        for turn in range(self.turns):
            room, right, before = left % ROOMS, torch.ones_like(left, dtype=torch.bool), left
            for place in range(LENGTH):
                column, at = turn * LENGTH + place, context(room, place, before)
                rows = shares.gather(1, at.unsqueeze(-1).expand(-1, -1, VOCABULARY))
                before = (rows <= draws[:, :, column, None]).sum(dim=-1)
                contexts[:, :, column], tokens[:, :, column] = at, before
                right &= before == COMMANDS[room, place]
            left = left + right
        return Episodes(contexts, tokens, left >= self.goal)


def flat(parts: tuple[Tensor, ...]) -> Tensor:
    """Join each policy's numbers, (R, P)."""
    return torch.cat([part.flatten(1) for part in parts], dim=1)
