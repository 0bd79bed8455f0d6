"""Gated rewards: a lesser reward counts only if the more important ones reached their gates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from turngrid.rewards.declared import Conflict, Method, Names, in_range
from turngrid.rewards.reward import TRAINED, RewardView

SLACK = 1e-9  # for sums of floats that should equal a gate


@dataclass
class Level:
    """A reward by name; its sum over the episode must reach ``gate`` for lower levels to count."""

    reward: str
    gate: float | None = None


@dataclass(kw_only=True)
class GRa(Method):
    """``r_t = sum over p of r_p,t * product over q < p of [R_q >= gate_q]``.

    R_q is the ungated sum of reward q over the episode. Every turn keeps its own rewards. The
    previously trained reward is replaced, unless ``trained`` is a level.

    Raises:
        ValueError: there are fewer than two different rewards, a gate is missing, or the last level
            has a gate.
    """

    levels: list[Level]

    conflicts = (
        Conflict(
            ("before",),
            lambda gated, names: bool(names) and TRAINED not in gated.reads,
            f"it pays its levels alone, so what acts before it is lost unless {TRAINED} is a level",
        ),
    )

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
            in_range("gate", level.gate)
        if self.levels[-1].gate is not None:
            raise ValueError(f"level {names[-1]} is the last and takes no gate: there is nothing behind it")

    @property
    def reads(self) -> Names:  # type: ignore[override]
        return frozenset(level.reward for level in self.levels)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        total = [0.0] * len(view.episode.turns)
        for level, is_open in zip(self.levels, self._open(view), strict=True):
            if is_open:
                total = [value + more for value, more in zip(total, view.rewards[level.reward], strict=True)]
        return {TRAINED: total}

    def logged(self, view: RewardView) -> Mapping[str, float]:
        """Return whether each level's gate and those before it were passed; 0 or 1."""
        passed: Sequence[bool] = list(self._open(view))[1:]
        return {f"passed/{level.reward}": float(is_open) for level, is_open in zip(self.levels, passed, strict=False)}

    def _open(self, view: RewardView) -> Iterator[bool]:
        is_open = True
        for level in self.levels:
            yield is_open
            is_open &= level.gate is not None and sum(view.rewards[level.reward]) >= level.gate - SLACK
