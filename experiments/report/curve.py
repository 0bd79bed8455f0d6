"""What training told, step by step: success on its episodes, and whatever else the report draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from records.files.json_lines import read_lines

SUCCESS, EPISODES = "success/train", "rollout/episodes"

# Further metrics that are drawn where a run has them -> title, unit. A name that ends in "/" stands for all that begin with it.
SHOWN: Mapping[str, tuple[str, str]] = {
    "success/by_task/": ("success in", "share"),
    "success/by_type/": ("success in", "share"),
    "rollout/entropy": ("entropy", "nats a token"),
    "actor/ppo_kl": ("KL of the update", "nats a token"),
    "actor/kl_loss": ("KL to the first model", "nats a token"),
    "reward/kl_penalty": ("KL to the first model", "nats a token"),
    "rollout/turns": ("turns", "an episode"),
    "rollout/tokens_per_turn": ("action tokens", "a turn"),
    "rollout/thought_tokens": ("thought tokens", "a turn"),
    "rollout/response_tokens/mean": ("row length", "tokens"),
    "rollout/invalid_actions": ("not understood", "share of actions"),
    "rollout/unparsed_actions": ("without an action", "share of answers"),
    "credit/groups_without_signal": ("groups without signal", "share"),
    "credit/repeated_states": ("repeated states", "share of turns"),
    "filter/": ("filter", ""),
    "terms/": ("term", ""),
    "buffer/": ("buffer", ""),
    "replay/loss": ("replay: loss", ""),
}


@dataclass(frozen=True)
class Curve:
    """One value a step: ``shares`` of the step's episodes that were won, in [0, 1]; ``episodes`` played up to it. ``others``:
    metrics of ``SHOWN``, by name and step."""

    steps: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    episodes: tuple[int, ...] = ()
    others: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


def shown(name: str) -> tuple[str, str] | None:
    """Title and unit of a metric; None where it is not drawn."""
    if name in SHOWN:
        return SHOWN[name]
    family = next((prefix for prefix in SHOWN if prefix.endswith("/") and name.startswith(prefix)), None)
    if family is None:
        return None
    title, unit = SHOWN[family]
    return f"{title} {name.removeprefix(family).replace('/', ' ').replace('_', ' ')}", unit


def read_curve(path: Path) -> Curve:
    """Every whole line: the last one may have been cut by a kill. An empty curve where there is no file."""
    return curve_of([_decoder.decode(line) for line in read_lines(path).whole.values()])


def curve_of(lines: Iterable[Mapping[str, Any]]) -> Curve:
    """``lines`` as in ``metrics.jsonl``."""
    known = [line for line in lines if line.get(SUCCESS) is not None]
    others: dict[str, dict[int, float]] = defaultdict(dict)
    for line in known:
        for name in _drawn(frozenset(line)):
            if isinstance(line[name], int | float):
                others[name][line["step"]] = float(line[name])
    return Curve(
        tuple(line["step"] for line in known),
        tuple(float(line[SUCCESS]) for line in known),
        tuple(accumulate(round(line.get(EPISODES) or 0) for line in known)),
        dict(others),
    )


@cache
def _drawn(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if shown(name))


_decoder = msgspec.json.Decoder(dict[str, Any])
