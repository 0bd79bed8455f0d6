"""Build the turn table of a step from the rows that the update trains on."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from turngrid.algorithms.group import group_ids
from turngrid.algorithms.turns import FLAG, OF_EPISODE, Turns, sums

FLAGS, OF_EPISODES = ([item.name for item in fields(Turns) if item.metadata == kind] for kind in (FLAG, OF_EPISODE))
NAMED = "named_"  # prefix of the columns of rewards by name
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
        turns: columns, each named after its attribute of ``Turns``, with a tensor for each row:
            one number per turn, or per row of ``OF_EPISODES``. Those of ``named`` are
            ``named_NAME``, of ``spans`` ``span_PART_first`` and ``_last``.
        members: the indices of an episode's rows in their order, by the episode's name.
        groups: (B,) the prompt of each row.

    Raises:
        ValueError: a row's mask and its record differ in the number of turns.
    """
    layout = _layout(turn_ids(rows["loss_mask"]), members)
    place, inside = layout.place, layout.place >= 0
    (tokens,) = sums(place, inside, layout.mask.shape, inside)
    (reward,) = sums(place, inside & (rows["reward"] != 0), layout.mask.shape, rows["reward"])
    table = Turns(
        group=group_ids([groups[own[0]] for own in layout.live.values()]),
        mask=layout.mask,
        tokens=tokens.long(),
        reward=reward,
        place=place,
        episodes=tuple(layout.live),
        **_attributes(turns, layout),
    )
    entropy = table.mean(rows["entropy"]) if "entropy" in rows else None
    value = table.at(table.starts(), rows["values"]) if "values" in rows else None
    return replace(table, entropy=entropy, value=value)


def on_action_tokens(columns: Sequence[tuple[int, int, Tensor]], loss_mask: Tensor, scores: str) -> Tensor:
    """Put the log-probs of contexts on the action tokens of rows.

    Args:
        columns: the row, the turn's index in it, and the log-probs (nats) of each context.
        loss_mask: (B, T), 1 on action tokens.
        scores: as in ``turngrid.algorithms.contexts.Asks``.

    Returns:
        (B, T) float32; NaN on tokens without a context.

    Raises:
        ValueError: a context scored more tokens than are left in its row.
    """
    result = torch.full(loss_mask.shape, torch.nan)
    ids = turn_ids(loss_mask)
    for row, turn, numbers in columns:
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


class _Layout(NamedTuple):
    """Positions of rows in the table."""

    live: dict[str, list[int]]  # by an episode's name, those of its rows that have an action token
    counts: list[int]  # the number of turns of every row
    mask: Tensor
    place: Tensor


def _layout(ids: Tensor, members: Mapping[str, Sequence[int]]) -> _Layout:
    """Lay out the rows with these ``turn_ids``, whose memory ``place`` reuses."""
    counts = ids.amax(dim=1).tolist() if ids.numel() else [0] * len(ids)
    live = {name: rows for name, own in members.items() if (rows := [row for row in own if counts[row]])}
    lengths = [sum(counts[row] for row in own) for own in live.values()]
    mask = torch.arange(max(lengths, default=0)) < torch.tensor(lengths, dtype=torch.int64).unsqueeze(1)
    place = ids.sub_(1)
    for episode, own in enumerate(live.values()):
        turn = episode * mask.shape[1]
        for row in own:
            place[row] += turn * (place[row] >= 0)
            turn += counts[row]
    return _Layout(live, counts, mask, place)


def _attributes(turns: Mapping[str, Sequence[Tensor]], layout: _Layout) -> dict[str, Any]:
    """Return the attributes of ``Turns`` that columns become."""
    columns = {name: _table(name, column, layout) for name, column in turns.items() if name not in OF_EPISODES}
    columns |= {name: _of_episode(turns[name], layout) for name in OF_EPISODES if name in turns}
    columns |= {name: columns[name].bool() for name in FLAGS if name in columns}
    named = {name.removeprefix(NAMED): columns.pop(name).double() for name in turns if name.startswith(NAMED)}
    parts = dict.fromkeys(name.removeprefix(SPAN).rpartition("_")[0] for name in turns if name.startswith(SPAN))
    spans = {part: torch.stack([columns.pop(span_field(part, end)) for end in ENDS]) for part in parts}
    return {**columns, "named": named, "spans": spans}


def _of_episode(column: Sequence[Tensor], layout: _Layout) -> Tensor:
    """Return (E,) from one entry per row, which all rows of an episode share."""
    return torch.tensor([int(column[own[-1]][-1]) for own in layout.live.values()], dtype=torch.int64)


def _table(name: str, column: Sequence[Tensor], layout: _Layout) -> Tensor:
    """Return (E, K) from one tensor per row."""
    order = [row for own in layout.live.values() for row in own]
    for row in order:
        if len(column[row]) != (count := layout.counts[row]):
            raise ValueError(f"{name}: a row's record has {len(column[row])} turns and its mask {count}")
    numbers = torch.cat([column[row] for row in order]) if order else torch.zeros(0, dtype=torch.int64)
    return numbers.new_zeros(layout.mask.shape).masked_scatter(layout.mask, numbers)
