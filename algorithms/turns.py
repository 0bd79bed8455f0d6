"""The turn table of a step: all that a method may know of what happened (docs/methods.md).

Built once from the rows that the update trains on. E episodes, K turns of the longest one, B rows (one an episode, or one a
window of it), T response tokens. Episodes without an action token ("dead" ones) are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from algorithms.group import group_ids
from algorithms.pools import pools

OF_ROW = ("outcome", "tree")  # one entry a row, others one a turn
OUTCOMES = ("won", "lost", "out_of_turns", "out_of_context")  # the third and all after it: cut off
NAMED = "named_"  # what the records of a reward's name begin with
SPAN, ENDS = "span_", ("first", "last")  # and those of a part of an answer
AT_ONCE = 2**18  # tokens that are looked at together: a step may have more than its memory holds in numbers of 8 bytes


@dataclass(frozen=True)
class Turns:
    """One entry an episode and turn. Arrays are (E, K), 0 where ``mask`` is False, unless said otherwise.

    Attributes:
        group: (E,) int64, the prompt whose samples are compared.
        mask: bool, the turn exists.
        tokens: int64, action tokens of the turn, at least 1.
        reward: float64, the trained reward of the turn, after all reward transforms.
        state: int64 hash of the observation that the turn answered.
        after: int64 hash of the observation that followed, after the last turn the final one: ``state`` of the next turn. Both
            are equal across groups where the texts are, and are of all that came before with ``algo.state=history``.
        action: int64 hash of the action's text.
        valid: bool, the environment understood the action.
        parsed: bool, an action could be read from the answer at all.
        outcome: (E,) int64, an index into ``OUTCOMES``.
        place: (B, T) int32, a token's index into the flattened (E, K) arrays; -1 where it is no action token.
        episodes: (E,) names ``<prompt>_<sample>``.
        tasks: (E,) what each is an episode of; equal where the game is.
        entropy: float64, nats: mean over the turn's tokens of the entropy of the policy that sampled them; None: not computed.
        value: float64, the critic's value at the turn's first token; None: there is no critic.
        garbled: bool, the answer has undecodable characters or repeats itself; None: nobody looked.
        named: float64, other rewards of the turn by name: those that a chosen method says that it ``reads``.
        tree: (E,) int64, which of its group's trees an episode is a leaf of; None: the rollout form has no branches.
        node: int64, equal where episodes of a group share a turn; None likewise.
        label: int64, what kind of answer it is: a number in the prompt form's ``labels`` from 1, 0 for none; None: it has none.
        spans: (2, E, K) int64 by part of an answer (the prompt form's ``parts``): the first of the turn's tokens that is in it and
            the one after the last; equal where the answer lacks it.
        summary: bool, the policy summed up its earlier turns instead of acting; None: no episode has summaries.
    """

    group: Tensor
    mask: Tensor
    tokens: Tensor
    reward: Tensor
    state: Tensor
    after: Tensor
    action: Tensor
    valid: Tensor
    parsed: Tensor
    outcome: Tensor
    place: Tensor
    episodes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    entropy: Tensor | None = None
    value: Tensor | None = None
    garbled: Tensor | None = None
    named: Mapping[str, Tensor] = field(default_factory=dict)
    tree: Tensor | None = None
    node: Tensor | None = None
    label: Tensor | None = None
    spans: Mapping[str, Tensor] = field(default_factory=dict)
    summary: Tensor | None = None

    @property
    def score(self) -> Tensor:
        """(E,) float64: an episode's rewards, summed."""
        return (self.reward * self.mask).sum(dim=1)

    @property
    def score_size(self) -> Tensor:
        """(E,) float64: the rewards' absolute values, summed; the rounding of ``score`` is in proportion (``algorithms.pools``)."""
        return (self.reward * self.mask).abs().sum(dim=1)

    @property
    def acts(self) -> Tensor:
        """bool: turns that act on the environment. A summary does not: it is no state and carries no discount."""
        return self.mask if self.summary is None else self.mask & ~self.summary

    @property
    def acted_before(self) -> Tensor:
        """int64: how many of the episode's earlier turns acted on the environment."""
        return self.acts.cumsum(dim=1) - self.acts.long()

    @property
    def won(self) -> Tensor:
        """(E,) bool."""
        return self.outcome == OUTCOMES.index("won")

    @property
    def cut_off(self) -> Tensor:
        """(E,) bool: it ran out of turns or of context."""
        return self.outcome >= OUTCOMES.index("out_of_turns")

    @property
    def last(self) -> Tensor:
        """(E,) int64: the number of an episode's last turn, from 0."""
        return self.mask.sum(dim=1) - 1

    @property
    def turn_ids(self) -> Tensor:
        """(B, T) int32: 1 on the tokens of a row's first turn, 2 on those of its second ...; 0 elsewhere."""
        found = torch.zeros_like(self.place)
        for into, place in pieces(found, self.place):
            first = place.where(place >= 0, self.mask.numel()).amin(dim=1, keepdim=True) if place.numel() else 0
            into.copy_((place - first + 1).where(place >= 0, 0))
        return found

    def flat(self) -> tuple[Tensor, Tensor]:
        """Episode and turn number of every turn there is, each of shape (turns,)."""
        episode, turn = self.mask.nonzero(as_tuple=True)
        return episode, turn

    def acting(self) -> tuple[Tensor, Tensor]:
        """As ``flat``, of the turns that act on the environment."""
        episode, turn = self.acts.nonzero(as_tuple=True)
        return episode, turn

    def steps(self, factor: float) -> Tensor:
        """float64, for ``discounted``: ``factor`` from a turn that acts to the next, 1 from a summary."""
        return torch.ones(self.mask.shape, dtype=torch.float64).masked_fill(self.acts, factor)

    def following(self, matrix: Tensor) -> Tensor:
        """(E, K): what stands at the next turn that acts; 0 after the last."""
        at_or_after = discounted(matrix.where(self.acts, 0), (~self.acts).to(matrix.dtype))
        return torch.nn.functional.pad(at_or_after, (0, 1))[:, 1:]

    def spread(self, matrix: Tensor) -> Tensor:
        """(E, K) -> (B, T): a turn's number on each of its action tokens, 0 elsewhere."""
        numbers = torch.cat([matrix.flatten(), matrix.new_zeros(1)])  # of which -1 is the last
        found = matrix.new_empty(self.place.shape)
        for into, place in pieces(found, self.place):
            into.copy_(numbers[place])
        return found

    def mean(self, tokens: Tensor, among: Tensor | None = None) -> Tensor:
        """(B, T) -> (E, K), float64: the mean over a turn's tokens, or over those of them in ``among``; 0 where there is none."""
        kept = self.place >= 0
        if among is not None:
            kept &= among.bool()
        total, count = sums(self.place, kept, self.mask.shape, tokens, kept)
        return total / count.clamp(min=1)

    def starts(self) -> Tensor:
        """(B, T) bool: the first token of every turn."""
        found = self.place >= 0
        found[:, 1:] &= self.place[:, 1:] != self.place[:, :-1]
        return found

    def ends(self) -> Tensor:
        """(B, T) bool: the last token of every turn."""
        found = self.place >= 0
        found[:, :-1] &= self.place[:, :-1] != self.place[:, 1:]
        return found

    def first(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (E, K), float64: what stands at a turn's first token."""
        return self._at(self.starts(), tokens)

    def at_end(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (E, K), float64: what stands at a turn's last token."""
        return self._at(self.ends(), tokens)

    def _at(self, places: Tensor, tokens: Tensor) -> Tensor:
        found = torch.zeros(self.mask.numel(), dtype=torch.float64)
        found[self.place[places]] = tokens[places].double()
        return found.reshape(self.mask.shape)


class ActionTokens:
    """The n action tokens of a table, row by row: a fraction of (B, T), so that a method may look at them often.

    Attributes:
        places: (B, T) bool, where they stand.
        turn: (n,) int32, the index of each one's turn into the flattened (E, K) arrays.
        begins: (turns,) int64, the first token of each turn.
        lengths: (turns,) int64, how many tokens each has.
    """

    def __init__(self, turns: Turns) -> None:
        self.places = turns.place >= 0
        self.turn = self.read(turns.place)
        self.begins = (self.turn.diff(prepend=self.turn.new_tensor([-1])) != 0).nonzero().flatten()
        self.lengths = self.begins.diff(append=self.begins.new_tensor([len(self.turn)]))
        self._starts = turns.starts().flatten().nonzero().flatten()
        self._shape = turns.mask.shape

    def read(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (n,)."""
        return torch.cat([numbers[inside] for numbers, inside in pieces(tokens, self.places)])

    def of(self, matrix: Tensor) -> Tensor:
        """(E, K) -> (n,): what stands at each token's turn."""
        return matrix.flatten().index_select(0, self.turn)

    def only(self, number: Tensor) -> Tensor:
        """(E, K) -> (n,) bool: of each turn the token of this number."""
        found = torch.zeros(len(self.turn), dtype=torch.bool)
        found[self.begins + number.flatten()[self.turn[self.begins]]] = True
        return found

    def inside(self, span: Tensor) -> Tensor:
        """(n,) bool, of a span as in ``Turns.spans``."""
        turn, edges = self.turn[self.begins], torch.zeros(len(self.turn) + 1, dtype=torch.int8)
        first, last = (edge.flatten()[turn].minimum(self.lengths) for edge in span)
        for edge, step in ((first, 1), (last.maximum(first), -1)):
            edges.index_add_(0, self.begins + edge, torch.full_like(edge, step, dtype=torch.int8))
        return edges.cumsum(dim=0, dtype=torch.int8)[:-1].bool()

    def at(self, number: Tensor, tokens: Tensor) -> Tensor:
        """(B, T) -> (E, K), float64: what stands at the token of this number, (E, K), of each turn."""
        found, turn = torch.zeros(self._shape.numel(), dtype=torch.float64), self.turn[self.begins]
        found[turn] = tokens.flatten()[self._starts + number.flatten()[turn]].double()
        return found.reshape(self._shape)

    def any(self, some: Tensor) -> Tensor:
        """(n,) bool -> (E, K) bool: turns with such a token."""
        return torch.bincount(self.turn[some], minlength=self._shape.numel()).reshape(self._shape) > 0

    def back(self, numbers: Tensor) -> Tensor:
        """(n,) -> (B, T), 0 elsewhere; what is not bool is float32."""
        numbers = numbers if numbers.dtype == torch.bool else numbers.float()
        return torch.zeros(self.places.shape, dtype=numbers.dtype).masked_scatter_(self.places, numbers)


def pieces(*tokens: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same few rows of each, (b, T)."""
    rows = max(1, AT_ONCE // max(1, tokens[0].shape[1]))
    return zip(*(one.split(rows) for one in tokens), strict=True)


def sums(place: Tensor, kept: Tensor, shape: torch.Size, *tokens: Tensor) -> list[Tensor]:
    """(B, T) -> (E, K), float64, each: the sum over those of a turn's tokens that are ``kept``, (B, T) bool."""
    totals = [torch.zeros(shape.numel(), dtype=torch.float64) for _ in tokens]
    for some, where, *numbers in pieces(kept, place, *tokens):
        at = some.flatten().nonzero().flatten()
        turn = where.flatten()[at]
        for total, found in zip(totals, numbers, strict=True):
            total.index_add_(0, turn, found.flatten()[at].double())
    return [total.reshape(shape) for total in totals]


def turn_ids(loss_mask: Tensor) -> Tensor:
    """Number each row's turns; a turn is a run of ones, since context tokens follow each turn but the last.

    Not to be had from ``response_mask``: a correction of old samples may have taken tokens out of that.

    Args:
        loss_mask: (B, T), 1 on sampled tokens.

    Returns:
        (B, T) int32: 1 on the first turn's tokens, 2 on the second's ...; 0 off the mask.
    """
    mask = loss_mask.bool()
    starts = mask.clone()
    starts[:, 1:] &= ~mask[:, :-1]
    return starts.cumsum(dim=1, dtype=torch.int32).masked_fill_(~mask, 0)


def turn_table(
    rows: Mapping[str, Tensor],
    turns: Mapping[str, Sequence[Tensor]],
    members: Mapping[str, Sequence[int]],
    groups: Sequence[str],
) -> Turns:
    """Build the table.

    Args:
        rows: (B, T) each: ``loss_mask`` and ``reward``; where they are known ``entropy`` (nats) and ``values``.
        turns: for each row a tensor with one entry a turn, under ``state``, ``after``, ``action``, ``valid``, ``parsed``, where
            they are known ``garbled``, ``node``, ``label``, ``summary``, ``named_NAME`` and ``span_PART_first``, ``_last``; with one entry a row ``outcome`` and, where there are trees,
            ``tree``.
        members: the numbers of an episode's rows in their order, by the episode's name.
        groups: (B,) the prompt of each row.

    Raises:
        ValueError: a row's mask has another number of turns than its record.
    """
    ids = turn_ids(rows["loss_mask"])
    counts = ids.amax(dim=1).tolist() if ids.numel() else [0] * len(ids)
    live = {name: [row for row in own if counts[row]] for name, own in members.items() if any(counts[r] for r in own)}
    mask = _mask([sum(counts[row] for row in own) for own in live.values()])
    place = _place(ids, live, counts, mask.shape[1])
    known = {name: _table(name, column, live, counts, mask) for name, column in turns.items() if name not in OF_ROW}
    tokens, reward = _summed(place, rows["reward"], mask.shape)
    table = Turns(
        group=group_ids([groups[own[0]] for own in live.values()]),
        mask=mask,
        tokens=tokens.long(),
        reward=reward,
        state=known["state"],
        after=known["after"],
        action=known["action"],
        valid=known["valid"].bool(),
        parsed=known["parsed"].bool(),
        outcome=_of_episode(turns["outcome"], live),
        place=place,
        episodes=tuple(live),
        garbled=known["garbled"].bool() if "garbled" in known else None,
        named={name.removeprefix(NAMED): table.double() for name, table in known.items() if name.startswith(NAMED)},
        tree=_of_episode(turns["tree"], live) if "tree" in turns else None,
        node=known.get("node"),
        label=known.get("label"),
        spans=_spans(known),
        summary=known["summary"].bool() if "summary" in known else None,
    )
    return _with_policy(table, rows)


def _summed(place: Tensor, reward: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """(E, K) each: a turn's tokens counted, and their rewards, of which few are not 0, summed."""
    inside = place >= 0
    (tokens,) = sums(place, inside, shape, inside)
    (rewards,) = sums(place, inside.logical_and_(reward != 0), shape, reward)
    return tokens, rewards


def span_field(part: str, end: str) -> str:
    return f"{SPAN}{part}_{end}"


def _spans(known: Mapping[str, Tensor]) -> dict[str, Tensor]:
    first = f"_{ENDS[0]}"
    parts = [name[len(SPAN) : -len(first)] for name in known if name.startswith(SPAN) and name.endswith(first)]
    return {part: torch.stack([known[span_field(part, end)] for end in ENDS]) for part in parts}


def _with_policy(table: Turns, rows: Mapping[str, Tensor]) -> Turns:
    entropy = table.mean(rows["entropy"]) if "entropy" in rows else None
    value = table.first(rows["values"]) if "values" in rows else None
    return replace(table, entropy=entropy, value=value)


def _of_episode(column: Sequence[Tensor], live: Mapping[str, Sequence[int]]) -> Tensor:
    """(E,) from one entry a row, which an episode's rows have in common."""
    return torch.tensor([int(column[own[-1]][-1]) for own in live.values()], dtype=torch.int64)


def _mask(lengths: Sequence[int]) -> Tensor:
    """(E, K) bool for episodes of these many turns."""
    longest = torch.arange(max(lengths, default=0))
    return longest.unsqueeze(0) < torch.tensor(lengths, dtype=torch.int64).unsqueeze(1)


def _place(ids: Tensor, live: Mapping[str, Sequence[int]], counts: Sequence[int], width: int) -> Tensor:
    """Made out of ``ids``, which are no more."""
    place = ids.sub_(1)
    for episode, own in enumerate(live.values()):
        turn = episode * width
        for row in own:
            place[row] += turn * (place[row] >= 0)
            turn += counts[row]
    return place


def _table(
    name: str, column: Sequence[Tensor], live: Mapping[str, Sequence[int]], counts: Sequence[int], mask: Tensor
) -> Tensor:
    """(E, K) from one tensor a row."""
    parts = [column[row] for own in live.values() for row in own]
    wanted = [counts[row] for own in live.values() for row in own]
    if any(len(part) != count for part, count in zip(parts, wanted, strict=True)):
        found = next((len(p), c) for p, c in zip(parts, wanted, strict=True) if len(p) != c)
        raise ValueError(f"{name}: a row's record has {found[0]} turns and its mask {found[1]}")
    table = torch.zeros(mask.shape, dtype=parts[0].dtype if parts else torch.int64)
    if parts:
        table[mask] = torch.cat(list(parts))
    return table


def discounted(numbers: Tensor, factor: float | Tensor) -> Tensor:
    """(E, K): a turn's number and all later ones, each times ``factor`` for every turn between; of shape (E, K) it is that of the
    step from a turn to the next."""
    sums, running = torch.zeros_like(numbers), numbers.new_zeros(len(numbers))
    factors = torch.as_tensor(factor, dtype=numbers.dtype).expand(numbers.shape)
    for turn in reversed(range(numbers.shape[1])):
        running = numbers[:, turn] + factors[:, turn] * running
        sums[:, turn] = running
    return sums


def repeated_states(turns: Turns) -> float:
    """The share of turns whose state their group has met in another turn too, in [0, 1]."""
    episode, turn = turns.acting()
    if not len(episode):
        return 0.0
    same = pools(turns.group[episode], turns.state[episode, turn])
    return (torch.bincount(same)[same] > 1).double().mean().item()
