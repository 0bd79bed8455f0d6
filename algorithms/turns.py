"""The turn table of a step: all the data that a method may use (docs/methods.md).

E episodes, K turns of the longest one, B rows (one per episode, or one per window of it), T
response tokens. Episodes without an action token ("dead" ones) are not in it.
``turngrid.algorithms.turn_table`` builds it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from turngrid.algorithms.pools import pools

OUTCOMES = ("won", "lost", "out_of_turns", "out_of_context", "drawn")  # the third and fourth: cut off
# Metadata of an attribute that is read off the rows, if it is not an integer for each turn.
FLAG, OF_EPISODE = {"column": "yes or no"}, {"column": "one entry per episode"}


@dataclass(frozen=True)
class Turns:
    """One entry per episode and turn. Arrays are (E, K), 0 outside ``mask``, unless noted.

    Attributes:
        group: (E,) int64, the prompt whose samples are compared; of a match, prompt and seat.
        mask: bool, the turn exists.
        tokens: int64, action tokens of the turn, at least 1.
        reward: float64, the trained reward of the turn, after all reward transforms.
        state: int64 hash of the observation that the turn answered. Equal across groups if the
            texts are equal. With ``algo.state=history``, a hash of all that came before.
        after: int64 hash of the next observation, likewise: ``state`` of the next turn; after the
            last turn the final one.
        action: int64 hash of the action's text.
        valid: bool, the environment understood the action.
        parsed: bool, an action could be read from the answer.
        outcome: (E,) int64, an index into ``OUTCOMES``.
        place: (B, T) int32, an action token's index into the flattened (E, K) arrays; else -1.
        episodes: (E,) names ``<prompt>_<sample>``.
        tasks: (E,) each episode's game.
        entropy: float64, nats: mean over the turn's tokens of the entropy of the policy that
            sampled them; None: not computed.
        value: float64, the critic's value at the turn's first token; None: no critic.
        garbled: bool, the answer has undecodable characters or repeats itself; None: not computed.
        named: float64, other rewards of the turn by name: those that a chosen method ``reads``.
        tree: (E,) int64, the tree whose leaf an episode is; None: the rollout form has no branches.
        node: int64, equal if episodes of a group share a turn; None: no branches.
        role: int64, who answered: the number of the seat or of the run's role; None: there is one.
        attempt: int64, the attempt that the turn belongs to, from 0; None: an episode is one.
        label: int64, the answer's number in the prompt form's ``labels`` from 1, 0 for none; None:
            the form has no labels.
        spans: (2, E, K) int64 by part of an answer (the prompt form's ``parts``): its first token
            in the turn and the one after its last; equal if the answer lacks it.
        aside: bool, the answer did not reach the environment, as a summary; None: all did.
        log_prob: (B, T) nats, the old log-probs of the sampled tokens; None: no method needs them.
        contexts: (B, T) nats by ``slot/name``: what the contexts of each method scored
            (``turngrid.algorithms.contexts``); NaN on tokens without a context.
        scored: of these, those of the method that reads the table; None: it has no contexts.
    """

    group: Tensor
    mask: Tensor
    tokens: Tensor
    reward: Tensor
    state: Tensor
    after: Tensor
    action: Tensor
    valid: Tensor = field(metadata=FLAG)
    parsed: Tensor = field(metadata=FLAG)
    outcome: Tensor = field(metadata=OF_EPISODE)
    place: Tensor
    episodes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    entropy: Tensor | None = None
    value: Tensor | None = None
    garbled: Tensor | None = field(default=None, metadata=FLAG)
    named: Mapping[str, Tensor] = field(default_factory=dict)
    tree: Tensor | None = field(default=None, metadata=OF_EPISODE)
    node: Tensor | None = None
    label: Tensor | None = None
    attempt: Tensor | None = None
    role: Tensor | None = None
    spans: Mapping[str, Tensor] = field(default_factory=dict)
    aside: Tensor | None = field(default=None, metadata=FLAG)
    log_prob: Tensor | None = None
    contexts: Mapping[str, Tensor] = field(default_factory=dict)
    scored: Tensor | None = None

    def seen_by(self, slot: str, name: str) -> "Turns":
        """Return the table as one method sees it: with the results of its own contexts."""
        return replace(self, scored=self.contexts[key]) if (key := f"{slot}/{name}") in self.contexts else self

    @property
    def score(self) -> Tensor:
        """(E,) float64: the sum of an episode's rewards."""
        return (self.reward * self.mask).sum(dim=1)

    @property
    def score_size(self) -> Tensor:
        """(E,) float64: the sum of absolute rewards; the rounding of ``score`` grows with it."""
        return (self.reward * self.mask).abs().sum(dim=1)

    @property
    def acts(self) -> Tensor:
        """bool: turns that act. Summaries do not act: they have no state or discount."""
        return self.mask if self.aside is None else self.mask & ~self.aside

    @property
    def acted_before(self) -> Tensor:
        """int64: number of the episode's earlier turns that acted on the environment."""
        return self.acts.cumsum(dim=1) - self.acts.long()

    @property
    def won(self) -> Tensor:
        """(E,) bool."""
        return self.outcome == OUTCOMES.index("won")

    @property
    def cut_off(self) -> Tensor:
        """(E,) bool: it ran out of turns or of context."""
        first = OUTCOMES.index("out_of_turns")
        return (self.outcome == first) | (self.outcome == first + 1)

    @property
    def last(self) -> Tensor:
        """(E,) int64: the index of an episode's last turn."""
        return self.mask.sum(dim=1) - 1

    def flat(self) -> tuple[Tensor, Tensor]:
        """Return the episode and the index of every turn, (turns,) each."""
        episode, turn = self.mask.nonzero(as_tuple=True)
        return episode, turn

    def acting(self) -> tuple[Tensor, Tensor]:
        """As ``flat``, for the turns that act on the environment."""
        episode, turn = self.acts.nonzero(as_tuple=True)
        return episode, turn

    def steps(self, factor: float | Tensor) -> Tensor:
        """Return factors for ``discounted``: ``factor`` at acting turns, 1 at others."""
        return torch.as_tensor(factor, dtype=torch.float64).where(self.acts, 1.0)

    def following(self, matrix: Tensor) -> Tensor:
        """Return the value of ``matrix`` at the next turn that acts, (E, K); 0 after the last."""
        result, ahead = torch.zeros_like(matrix), matrix.new_zeros(len(matrix))
        for turn in reversed(range(matrix.shape[1])):
            result[:, turn] = ahead
            ahead = matrix[:, turn].where(self.acts[:, turn], ahead)  # 0 * ahead would pass on a NaN
        return result

    def spread(self, matrix: Tensor) -> Tensor:
        """Copy each turn's value to its action tokens, 0 elsewhere; (E, K) -> (B, T)."""
        numbers = torch.cat([matrix.flatten(), matrix.new_zeros(1)])  # index -1: no action token
        return numbers[self.place]

    def mean(self, tokens: Tensor, among: Tensor | None = None) -> Tensor:
        """Average over a turn's tokens (in ``among``), 0 without any; (B, T) -> (E, K) float64."""
        kept = self.place >= 0
        if among is not None:
            kept &= among.bool()
        total, count = sums(self.place, kept, self.mask.shape, tokens, kept)
        return total / count.clamp(min=1)

    def starts(self) -> Tensor:
        """Mark the first token of every turn; (B, T) bool."""
        starts = self.place >= 0
        starts[:, 1:] &= self.place[:, 1:] != self.place[:, :-1]
        return starts

    def ends(self) -> Tensor:
        """Mark the last token of every turn; (B, T) bool."""
        ends = self.place >= 0
        ends[:, :-1] &= self.place[:, :-1] != self.place[:, 1:]
        return ends

    def only(self, index: Tensor) -> Tensor:
        """Mark in each turn the token of this index; (E, K) int64 -> (B, T) bool."""
        return (self.place >= 0) & (self._offset() == self.spread(index))

    def inside(self, span: Tensor) -> Tensor:
        """Mark the tokens of a part of the answer, one of ``spans``; (B, T) bool."""
        first, last = map(self.spread, span)
        return (self.place >= 0) & (self._offset() >= first) & (self._offset() < last)

    def at(self, places: Tensor, tokens: Tensor) -> Tensor:
        """Return the number at the token of each turn that ``places``, (B, T) bool, marks.

        (B, T) -> (E, K), float64; 0 for a turn without a marked token.
        """
        numbers = torch.zeros(self.mask.numel(), dtype=torch.float64)
        numbers[self.place[places]] = tokens[places].double()
        return numbers.reshape(self.mask.shape)

    def _offset(self) -> Tensor:
        """Return an action token's index in its turn; (B, T) int64."""
        column = torch.arange(self.place.shape[1]).expand(self.place.shape)
        return column - column.where(self.starts(), 0).cummax(dim=1).values


def sums(place: Tensor, kept: Tensor, shape: torch.Size, *tokens: Tensor) -> list[Tensor]:
    """Sum each tensor over a turn's ``kept`` tokens, (B, T) bool; (B, T) -> (E, K), float64."""
    zeros = torch.zeros(shape.numel(), dtype=torch.float64)
    return [zeros.index_add(0, place[kept], numbers[kept].double()).reshape(shape) for numbers in tokens]


def discounted(numbers: Tensor, factor: float | Tensor) -> Tensor:
    """Sum each turn's value and all later ones, discounted; (E, K).

    Args:
        factor: the discount from a turn to the next; for all turns, or (E, K).
    """
    sums, running = torch.zeros_like(numbers), numbers.new_zeros(len(numbers))
    factors = torch.as_tensor(factor, dtype=numbers.dtype).expand(numbers.shape)
    for turn in reversed(range(numbers.shape[1])):
        running = numbers[:, turn] + factors[:, turn] * running
        sums[:, turn] = running
    return sums


def credited(
    credits: Mapping[str, Any], turns: Turns, tokens: Tensor, mask: Tensor, algo: str, grain: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """Apply credit methods in order.

    If ``grain`` is "token", credit scales the advantages of tokens, and ``algo`` has no layer.

    Args:
        credits: the methods by name.
        tokens: (B, T), the advantages of ``algo``.
        mask: (B, T), the action tokens that count.

    Returns:
        Token advantages, (B, T), and each layer's turn advantages, (E, K) by name.
    """
    scaled = grain == "token"
    matrix = torch.ones(turns.mask.shape).double() if scaled else turns.mean(tokens, mask)
    layers = {} if scaled else {algo: matrix}
    for name, credit in credits.items():
        layers[name] = matrix = credit(turns.seen_by("credit", name), matrix)
    if not credits:
        return tokens, layers
    spread = turns.spread(matrix.to(tokens.dtype))
    return tokens * spread if scaled else spread, layers


def repeated_states(turns: Turns) -> float:
    """Return the share of turns, in [0, 1], whose state another turn of their group has too."""
    episode, turn = turns.acting()
    if not len(episode):
        return 0.0
    same = pools(turns.group[episode], turns.state[episode, turn])
    return (torch.bincount(same)[same] > 1).double().mean().item()
