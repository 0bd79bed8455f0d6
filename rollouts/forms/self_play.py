"""Matches of two seats: against the policy itself, or scripted opponents (SPIRAL, MARSHAL)."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from turngrid.rewards.declared import Card, Conflict, word
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.policy import SCRIPTED, SELF
from turngrid.rollouts.spec import EpisodeSpec

BOTH, ONE, ALTERNATE = "both", "one", "alternate"


@dataclass(kw_only=True)
class SelfPlay(Linear):
    """Each sample is a match; the samples of a prompt begin in the same position.

    ``opponent`` takes the other seat: ``self``, a scripted policy, or one that is drawn for each
    match from weights by name, ``{self: 0.5, random: 0.5}``. Against itself the policy learns from
    both seats (``train: both``), which are two episodes, or from one. ``seat`` is the learner's;
    with ``alternate``, it is drawn for each prompt.

    Raises:
        ValueError: an opponent is unknown, or a weight is not above 0.
    """

    opponent: Any
    train: str = word(BOTH, ONE)
    seat: str = word(ALTERNATE, "0", "1")

    conflicts = (
        Conflict(("seats",), lambda _, two: not two, "its games have one seat", "rollout_form=linear"),
        Conflict(
            ("opponents",),
            lambda form, known: bool({*form.weights} - {SELF, *known}),
            "it has no such opponent as {method.opponent}",
            "rollout_form.self_play.opponent=self or {fact}",
        ),
        Conflict(
            ("curriculum.name",),
            lambda form, name: name == "threshold" and SELF in form.weights,
            "a policy wins half of the matches against itself, whatever it has learned",
            "curriculum=phases",
        ),
        Conflict(
            ("buffer",),
            lambda _, names: bool(names),
            "a stored episode was played against another opponent than the newest one",
            "buffer=[]",
        ),
        Conflict(
            ("filter",),
            lambda form, names: bool({"difficulty", "dynamic_sampling"} & {*names}) and SELF in form.weights,
            "it reads the results of a prompt, of which one seat wins what the other loses",
            "filter=[]",
        ),
    )
    card = Card(
        "plays matches of two seats: against the policy itself, which then learns from both seats, or against a "
        "scripted opponent. An episode is one seat's view; episodes are compared within prompt and seat",
        paper="2506.24119",
        source="code",
        needs="an environment with two seats (`env=two_player`)",
        ours="no opponents from earlier checkpoints or endpoints",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := {*self.weights} - {SELF, *SCRIPTED}:
            raise ValueError(f"opponent={min(unknown)} must be one of: {', '.join((SELF, *SCRIPTED))}")
        if not all(weight > 0 for weight in self.weights.values()):
            raise ValueError(f"opponent={self.opponent}: each weight must be above 0")

    @property
    def weights(self) -> dict[str, float]:
        named = isinstance(self.opponent, str)
        return {self.opponent: 1.0} if named else {str(name): float(weight) for name, weight in self.opponent.items()}

    @property
    def sides(self) -> int:  # type: ignore[override]
        return 2 if SELF in self.weights and self.train == BOTH else 1

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        opponents = rng.choices([*self.weights], [*self.weights.values()], k=n)
        seat = str(rng.randrange(2)) if self.seat == ALTERNATE else self.seat
        shared = replace(base, seat=seat, both=self.train == BOTH)
        return [replace(shared, sample=sample, opponent=opponent) for sample, opponent in enumerate(opponents)]

    def episodes(self, n: int) -> int:
        return n * self.sides
