"""The turn table of a step: all that a method may know of what happened (docs/methods.md).

Built once from the rows that the update trains on. E episodes, K turns of the longest one, B rows (one an episode, or one a
window of it), T response tokens. Episodes without an action token ("dead" ones) are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from algorithms import lazy_torch as torch
from algorithms.group import group_ids
from algorithms.pools import pools

if TYPE_CHECKING:
    from torch import Tensor

OF_ROW = ("outcome", "tree")  # one entry a row, others one a turn
OUTCOMES = ("won", "lost", "out_of_turns", "out_of_context")
NAMED = "named_"  # what the records of a reward's name begin with
SPAN, ENDS = "span_", ("first", "last")  # and those of a part of an answer


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
        place: (B, T) int64, a token's index into the flattened (E, K) arrays; -1 where it is no action token.
        turn_ids: (B, T) int64, 1 on the tokens of a row's first turn, 2 on those of its second ...; 0 elsewhere.
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
    turn_ids: Tensor
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

    @property
    def score(self) -> Tensor:
        """(E,) float64: an episode's rewards, summed."""
        return (self.reward * self.mask).sum(dim=1)

    @property
    def last(self) -> Tensor:
        """(E,) int64: the number of an episode's last turn, from 0."""
        return self.mask.sum(dim=1) - 1

    def flat(self) -> tuple[Tensor, Tensor]:
        """Episode and turn number of every turn there is, each of shape (turns,)."""
        episode, turn = self.mask.nonzero(as_tuple=True)
        return episode, turn

    def spread(self, matrix: Tensor) -> Tensor:
        """(E, K) -> (B, T): a turn's number on each of its action tokens, 0 elsewhere."""
        if not matrix.numel():
            return torch.zeros_like(self.place, dtype=matrix.dtype)
        inside = self.place >= 0
        return torch.where(inside, matrix.flatten()[self.place.clamp(min=0)], matrix.new_zeros(()))

    def mean(self, tokens: Tensor, among: Tensor | None = None) -> Tensor:
        """(B, T) -> (E, K), float64: the mean over a turn's tokens, or over those of them in ``among``; 0 where there is none."""
        inside = self.place >= 0 if among is None else (self.place >= 0) & among.bool()
        where, size = self.place[inside], self.mask.numel()
        total = torch.zeros(size, dtype=torch.float64).index_add_(0, where, tokens[inside].double())
        count = torch.bincount(where, minlength=size).clamp(min=1)
        return (total / count).reshape(self.mask.shape)

    def starts(self) -> Tensor:
        """(B, T) bool: the first token of every turn."""
        before = torch.nn.functional.pad(self.turn_ids, (1, 0))[:, :-1]
        return (self.turn_ids != before) & (self.place >= 0)

    def ends(self) -> Tensor:
        """(B, T) bool: the last token of every turn."""
        after = torch.nn.functional.pad(self.turn_ids, (0, 1))[:, 1:]
        return (self.turn_ids != after) & (self.place >= 0)

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
        turn: (n,) int64, the index of each one's turn into the flattened (E, K) arrays.
        number: (n,) int64, its number within the turn, from 0.
    """

    def __init__(self, turns: Turns) -> None:
        self.places = turns.place >= 0
        self.turn = turns.place[self.places]
        self._shape = turns.mask.shape
        count = torch.arange(len(self.turn))
        begins = self.turn.diff(prepend=self.turn.new_tensor([-1])) != 0
        self.number = count - (count * begins).cummax(dim=0).values if len(count) else count

    def of(self, matrix: Tensor) -> Tensor:
        """(E, K) -> (n,): what stands at each token's turn."""
        return matrix.flatten()[self.turn]

    def inside(self, span: Tensor) -> Tensor:
        """(n,) bool, of a span as in ``Turns.spans``."""
        first, last = span
        return (self.number >= self.of(first)) & (self.number < self.of(last))

    def at(self, some: Tensor, tokens: Tensor) -> Tensor:
        """(B, T) -> (E, K), float64: what stands at the one token of each turn that is in ``some``, (n,) bool."""
        found = torch.zeros(self._shape.numel(), dtype=torch.float64)
        found[self.turn[some]] = tokens[self.places][some].double()
        return found.reshape(self._shape)

    def any(self, some: Tensor) -> Tensor:
        """(n,) bool -> (E, K) bool: turns with such a token."""
        return torch.bincount(self.turn[some], minlength=self._shape.numel()).reshape(self._shape) > 0

    def back(self, numbers: Tensor) -> Tensor:
        """(n,) -> (B, T), 0 elsewhere; what is not bool is float32."""
        numbers = numbers if numbers.dtype == torch.bool else numbers.float()
        return torch.zeros(self.places.shape, dtype=numbers.dtype).masked_scatter_(self.places, numbers)


def turn_ids(loss_mask: Tensor) -> Tensor:
    """Number each row's turns; a turn is a run of ones, since context tokens follow each turn but the last.

    Not to be had from ``response_mask``: a correction of old samples may have taken tokens out of that.

    Args:
        loss_mask: (B, T), 1 on sampled tokens.

    Returns:
        (B, T) int64: 1 on the first turn's tokens, 2 on the second's ...; 0 off the mask.
    """
    mask = loss_mask.bool()
    starts = mask & ~torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    return starts.cumsum(dim=1) * mask


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
            they are known ``garbled``, ``node``, ``label``, ``named_NAME`` and ``span_PART_first``, ``_last``; with one entry a row ``outcome`` and, where there are trees,
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
    inside, where = place >= 0, place[place >= 0]
    reward = torch.zeros(mask.numel(), dtype=torch.float64).index_add_(0, where, rows["reward"][inside].double())
    table = Turns(
        group=group_ids([groups[own[0]] for own in live.values()]),
        mask=mask,
        tokens=torch.bincount(where, minlength=mask.numel()).reshape(mask.shape),
        reward=reward.reshape(mask.shape),
        state=known["state"],
        after=known["after"],
        action=known["action"],
        valid=known["valid"].bool(),
        parsed=known["parsed"].bool(),
        outcome=_of_episode(turns["outcome"], live),
        place=place,
        turn_ids=ids,
        episodes=tuple(live),
        garbled=known["garbled"].bool() if "garbled" in known else None,
        named={name.removeprefix(NAMED): table.double() for name, table in known.items() if name.startswith(NAMED)},
        tree=_of_episode(turns["tree"], live) if "tree" in turns else None,
        node=known.get("node"),
        label=known.get("label"),
        spans=_spans(known),
    )
    return _with_policy(table, rows)


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
    place = torch.full_like(ids, -1)
    for episode, own in enumerate(live.values()):
        turn = episode * width
        for row in own:
            place[row] = torch.where(ids[row] > 0, turn + ids[row] - 1, -1)
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
    episode, turn = turns.flat()
    if not len(episode):
        return 0.0
    same = pools(turns.group[episode], turns.state[episode, turn])
    return (torch.bincount(same)[same] > 1).double().mean().item()
