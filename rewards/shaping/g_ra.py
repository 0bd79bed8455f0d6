"""Gated rewards: a lesser reward counts only where the more important ones were earned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from envs.utils.ranges import in_range
from rewards.declared import Conflict
from rewards.shaping.view import TRAINED, RewardView

SLACK = 1e-9  # sums of floats that should be equal to a gate


@dataclass
class Level:
    """A named reward; ``gate`` is what its sum over the episode must reach for the levels below it to count."""

    reward: str = ""
    gate: float | None = None


def _published() -> list[Any]:
    return [Level("outcome", 1.0), Level("dense")]


@dataclass
class GRa:
    """``r_t = sum over p of r_p,t * product over q < p of [R_q >= gate_q]`` (G-RA, arXiv 2508.10548, from its abstract).

    R_q is the ungated sum of reward q over the episode; every turn keeps its own rewards. Comparing by ``>=``, sums over the
    episode and multiplying gates of more than two levels are our reading. What was trained on before it is replaced: to keep
    it, name it among the levels, as ``trained``.

    Attributes:
        levels: the most important first; all but the last have a gate.

    Raises:
        ValueError: fewer than two different rewards, a gate that is missing or that nothing is behind.
    """

    levels: list[Level] = field(default_factory=_published)

    def __post_init__(self) -> None:
        self.levels = [level if isinstance(level, Level) else Level(**level) for level in self.levels]
        names = [level.reward for level in self.levels]
        if len(names) < 2 or len({*names}) < len(names) or "" in names:
            raise ValueError(f"levels=[{', '.join(names)}] must name two rewards or more, each once")
        for level in self.levels[:-1]:
            if level.gate is None:
                raise ValueError(
                    f"level {level.reward} needs a gate: what its sum must reach for the levels below to count"
                )
            in_range(gate=level.gate)
        if self.levels[-1].gate is not None:
            raise ValueError(f"level {names[-1]} is the last and takes no gate: there is nothing behind it")

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("before",),
            lambda gated, names: bool(names) and TRAINED not in gated.reads,
            f"it pays its levels alone, so what acts before it is lost unless {TRAINED} is a level",
        ),
    )

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(level.reward for level in self.levels)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        total = [0.0] * len(view.episode.turns)
        for level, is_open in zip(self.levels, self._open(view), strict=True):
            if is_open:
                total = [value + more for value, more in zip(total, view.rewards[level.reward], strict=True)]
        return {TRAINED: total}

    def told(self, view: RewardView) -> Mapping[str, float]:
        """Whether the gate of each level but the last was passed, those before it included; 0 or 1."""
        passed: Sequence[bool] = list(self._open(view))[1:]
        return {f"passed/{level.reward}": float(is_open) for level, is_open in zip(self.levels, passed, strict=False)}

    def _open(self, view: RewardView) -> Iterator[bool]:
        """Whether each level counts."""
        is_open = True
        for level in self.levels:
            yield is_open
            is_open &= level.gate is not None and sum(view.rewards[level.reward]) >= level.gate - SLACK
