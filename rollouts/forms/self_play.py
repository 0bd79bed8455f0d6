"""Matches of two seats: against the policy itself or another opponent (SPIRAL, MARSHAL)."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from turngrid.rewards.declared import Conflict, fixed, number, without, word
from turngrid.rollouts.chat_policy import Endpoint, EndpointError
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.policy import ENDPOINT, PAST, SCRIPTED, SELF, SERVED
from turngrid.rollouts.spec import EpisodeSpec

BOTH, ONE, ALTERNATE = "both", "one", "alternate"
KEY = "rollout_form.self_play"
KINDS = (SELF, *SCRIPTED, *SERVED)


@dataclass(kw_only=True)
class SelfPlay(Linear):
    """Each sample is a match; the samples of a prompt begin in the same position.

    ``past`` is the policy before RL, or after an earlier step (SPIRAL's fictitious play).

    Raises:
        ValueError: an opponent is unknown, or a weight is not above 0.
    """

    opponent: Any
    train: str = word(BOTH, ONE)
    seat: str = word(ALTERNATE, "0", "1")
    past_every: int = number(1)
    past_pool: int = number(1)
    endpoint: str | None
    endpoint_model: str | None
    key_env: str | None

    conflicts = (
        Conflict(
            ("seats",), lambda _, two: not two, "its games have one seat", "env=two_player or rollout_form=linear"
        ),
        Conflict(
            ("opponents",),
            lambda form, known: bool({*form.weights} - {SELF, *SERVED, *known}),
            "it has no such opponent as {method.opponent}",
            f"{KEY}.opponent=self or {{fact}}",
        ),
        Conflict(
            ("actor_rollout_ref.rollout.name",),
            lambda form, server: PAST in form.weights and server != "transformers",
            "its server has the newest weights alone, and opponent=past samples with earlier ones too",
            f"rollout=transformers, or {KEY}.opponent=endpoint with a server of your own",
        ),
        fixed(f"{KEY}.past_every", "steps are counted from the start of RL"),
        Conflict(
            (f"{KEY}.endpoint",),
            lambda form, _: bool(form.endpoint_problem),
            "{method.endpoint_problem}",
            f"{KEY}.opponent=endpoint {KEY}.endpoint=http://HOST/v1 {KEY}.endpoint_model=NAME",
        ),
        Conflict(
            ("curriculum.name",),
            lambda form, name: name == "threshold" and bool({SELF, PAST} & {*form.weights}),
            "a policy wins about half of the matches against itself, whatever it has learned",
            "curriculum=phases",
        ),
        without("buffer", "a stored episode was played against another opponent than the newest one", "buffer=[]"),
        Conflict(
            ("filter",),
            lambda form, names: bool({"difficulty", "dynamic_sampling"} & {*names}) and SELF in form.weights,
            "it reads the results of a prompt, of which one seat wins what the other loses",
            "filter=[]",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := {*self.weights} - {*KINDS}:
            raise ValueError(f"opponent={min(unknown)} must be one of: {', '.join(KINDS)}")
        if not all(weight > 0 for weight in self.weights.values()):
            raise ValueError(f"opponent={self.opponent}: each weight must be above 0")

    @property
    def weights(self) -> dict[str, float]:
        named = isinstance(self.opponent, str)
        return {self.opponent: 1.0} if named else {str(name): float(weight) for name, weight in self.opponent.items()}

    @property
    def sides(self) -> int:  # type: ignore[override]
        return 2 if SELF in self.weights and self.train == BOTH else 1

    def past(self, step: int) -> list[int]:
        """Return after which steps the past opponents of ``step`` were saved; 0: before RL."""
        return list(range(0, step, self.past_every))[-self.past_pool :]

    def keeps(self, step: int) -> bool:
        return PAST in self.weights and (step - 1) % self.past_every == 0

    def served(self) -> Endpoint:
        """Return the chat endpoint; raise EndpointError if its settings are wrong."""
        return Endpoint(self.endpoint or "", self.endpoint_model or "", self.key_env or "")

    @property
    def endpoint_problem(self) -> str:
        if ENDPOINT not in self.weights:
            return "nothing reads it" if self.endpoint or self.endpoint_model or self.key_env else ""
        try:
            self.served()
        except EndpointError as error:
            return str(error)
        return ""

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        opponents = rng.choices([*self.weights], [*self.weights.values()], k=n)
        seat = str(rng.randrange(2)) if self.seat == ALTERNATE else self.seat
        shared = replace(base, seat=seat, both=self.train == BOTH)
        return [replace(shared, sample=sample, opponent=opponent) for sample, opponent in enumerate(opponents)]

    def episodes(self, n: int) -> int:
        return n * self.sides
