"""Build the turn table of a step from the rows that the update trains on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from turngrid.algorithms.group import group_ids
from turngrid.algorithms.turns import Turns, sums

OF_ROW = ("outcome", "tree")  # one entry per row; other columns have one per turn
NAMED = "named_"  # prefix of the columns of rewards by name
NUMBERS = ("state", "after", "action", "node", "attempt", "role", "label")
FLAGS = ("valid", "parsed", "garbled", "aside")
SPAN, ENDS = "span_", ("first", "last")  # prefix and suffixes of the columns of a part of an answer


def turn_ids(loss_mask: Tensor) -> Tensor:
    """Number each row's turns, which are runs of ones: context tokens separate two turns.

    ``loss_mask``, not ``response_mask``: a correction may have removed tokens from that.

    Args:
        loss_mask: (B, T), 1 on sampled tokens.

    Returns:
        (B, T) int32: 1 on the first turn's tokens, 2 on the second's ...; 0 outside the mask.
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
        rows: (B, T) each: ``loss_mask`` and ``reward``; if known ``entropy`` (nats) and ``values``.
        turns: columns; for each row a tensor with one entry per turn: ``state``, ``after``,
            ``action``, ``valid``, ``parsed``; if known ``garbled``, ``node``, ``attempt``,
            ``role``, ``label``, ``aside``, ``named_NAME``, ``span_PART_first``, ``_last``; with
            one entry per row ``outcome``, and if there are trees, ``tree``.
        members: the indices of an episode's rows in their order, by the episode's name.
        groups: (B,) the prompt of each row.

    Raises:
        ValueError: a row's mask and its record differ in the number of turns.
    """
    ids = turn_ids(rows["loss_mask"])
    counts = ids.amax(dim=1).tolist() if ids.numel() else [0] * len(ids)
    live = {name: [row for row in own if counts[row]] for name, own in members.items() if any(counts[r] for r in own)}
    mask = _mask([sum(counts[row] for row in own) for own in live.values()])
    place = _place(ids, live, counts, mask.shape[1])
    known = {name: _table(name, column, live, counts, mask) for name, column in turns.items() if name not in OF_ROW}
    inside = place >= 0
    (tokens,) = sums(place, inside, mask.shape, inside)
    (reward,) = sums(place, inside & (rows["reward"] != 0), mask.shape, rows["reward"])
    columns: dict[str, Any] = {name: known[name] for name in NUMBERS if name in known}
    columns |= {name: known[name].bool() for name in FLAGS if name in known}
    table = Turns(
        group=group_ids([groups[own[0]] for own in live.values()]),
        mask=mask,
        tokens=tokens.long(),
        reward=reward,
        outcome=_of_episode(turns["outcome"], live),
        place=place,
        episodes=tuple(live),
        named={name.removeprefix(NAMED): table.double() for name, table in known.items() if name.startswith(NAMED)},
        tree=_of_episode(turns["tree"], live) if "tree" in turns else None,
        spans=_spans(known),
        **columns,
    )
    entropy = table.mean(rows["entropy"]) if "entropy" in rows else None
    value = table.at(table.starts(), rows["values"]) if "values" in rows else None
    return replace(table, entropy=entropy, value=value)


def laid(found: Sequence[tuple[int, int, Tensor]], loss_mask: Tensor, scores: str) -> Tensor:
    """Put the log-probs of contexts on the action tokens of rows.

    Args:
        found: the row, the turn's index in it, and the log-probs (nats) of each context.
        loss_mask: (B, T), 1 on action tokens.
        scores: as in ``turngrid.algorithms.contexts.Asks``.

    Returns:
        (B, T) float32; NaN on tokens without a context.

    Raises:
        ValueError: a context scored more tokens than are left in its row.
    """
    result = torch.full(loss_mask.shape, torch.nan)
    ids = turn_ids(loss_mask)
    for row, turn, numbers in found:
        if scores == "turns":
            result[row, ids[row] == turn + 1] = numbers.mean()
            continue
        places = (ids[row] > turn).nonzero().squeeze(1)[: len(numbers)]
        if len(places) < len(numbers):
            raise ValueError(f"a context scored {len(numbers)} tokens, and its row has {len(places)} from its turn on")
        result[row, places] = numbers
    return result


def span_field(part: str, end: str) -> str:
    return f"{SPAN}{part}_{end}"


def _spans(known: Mapping[str, Tensor]) -> dict[str, Tensor]:
    first = f"_{ENDS[0]}"
    parts = [name[len(SPAN) : -len(first)] for name in known if name.startswith(SPAN) and name.endswith(first)]
    return {part: torch.stack([known[span_field(part, end)] for end in ENDS]) for part in parts}


def _of_episode(column: Sequence[Tensor], live: Mapping[str, Sequence[int]]) -> Tensor:
    """Return (E,) from one entry per row, which all rows of an episode share."""
    return torch.tensor([int(column[own[-1]][-1]) for own in live.values()], dtype=torch.int64)


def _mask(lengths: Sequence[int]) -> Tensor:
    """Return (E, K) bool for episodes with so many turns."""
    longest = torch.arange(max(lengths, default=0))
    return longest.unsqueeze(0) < torch.tensor(lengths, dtype=torch.int64).unsqueeze(1)


def _place(ids: Tensor, live: Mapping[str, Sequence[int]], counts: Sequence[int], width: int) -> Tensor:
    """Return ``Turns.place``, in the memory of ``ids``."""
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
    """Return (E, K) from one tensor per row."""
    parts = [column[row] for own in live.values() for row in own]
    wanted = [counts[row] for own in live.values() for row in own]
    if any(len(part) != count for part, count in zip(parts, wanted, strict=True)):
        recorded, masked = next((len(p), c) for p, c in zip(parts, wanted, strict=True) if len(p) != c)
        raise ValueError(f"{name}: a row's record has {recorded} turns and its mask {masked}")
    table = torch.zeros(mask.shape, dtype=parts[0].dtype if parts else torch.int64)
    if parts:
        table[mask] = torch.cat(list(parts))
    return table
