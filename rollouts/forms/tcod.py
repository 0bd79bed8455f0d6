"""TCOD's curricula: forwards from the game's first turn (f2b), or backwards from its last (b2f)."""

from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import number, without, word
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.forms.prefix import expert_plan
from turngrid.rollouts.spec import EpisodeSpec


@dataclass(kw_only=True)
class Tcod(Linear):
    """TCOD: one more turn every ``every`` steps, as its YAML says."""

    direction: str = word("f2b", "b2f")
    every: int = number(1)

    conflicts = (
        without("curriculum.horizon", "both say how many turns the episodes of a step have", "curriculum=none"),
    )

    @property
    def windows(self) -> bool:  # type: ignore[override]
        return self.direction == "f2b"

    compares_turns = whole = windows  # f2b replays nothing

    @property
    def needs_plan(self) -> bool:  # type: ignore[override]
        return self.direction == "b2f"

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        risen = (base.step - 1) // self.every
        if self.direction == "f2b":
            return super().specs(replace(base, max_turns=min(1 + risen, base.max_turns)), n, rng)
        plan = expert_plan(base.task)
        return super().specs(replace(base, prefix=plan[: max(0, len(plan) - 1 - risen)]), n, rng)
