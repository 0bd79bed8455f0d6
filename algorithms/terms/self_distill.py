"""Distillation from the policy itself, which reads a hint that the student does not see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from turngrid.algorithms.contexts import Context, RowView
from turngrid.algorithms.library.texts import POLICY, RULE, Skills
from turngrid.algorithms.losses.turn_clip import DROPS_TOKENS
from turngrid.algorithms.slots import LossView, OfferedEpisode, Request
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import CONTEXTS, GAMES_AGAIN, Conflict, Method, fixed, number, only, word

SKILL = "skill"


@dataclass(kw_only=True)
class SelfDistill(Method):
    """``+ weight * mean of rho (exp(-l) - 1 + l)`` over the action tokens of rows with a hint.

    ``l = log p - log p_teacher``; the teacher reads the row with a hint before the goal and is
    constant. ``rho = p / p_old`` with its gradient: so the term's gradient by log p is ``rho l``,
    that of the reverse KL. With ``teacher: ema`` the teacher's weights are a running average of the
    policy's.
    """

    weight: float = number(0)
    teacher: str = word("sync", "ema")
    ema: float = number(0, 1)
    ema_every: int = number(1)
    ema_copied: int = number(0)
    hint: str = word("outcome", "plan", SKILL)
    won: str
    lost: str
    plan: str
    writer: str = word(RULE, POLICY)
    skills: int = number(1)
    length: int = number(1)

    scores = "tokens"
    needs = frozenset({"log_probs"})
    conflicts = (
        Conflict(
            ("model.name",),
            lambda term, name: (term.hint, term.writer) == (SKILL, POLICY) and str(name).startswith("tiny"),
            "so small a model writes nothing of use",
            "terms.self_distill.writer=rule",
        ),
        DROPS_TOKENS,
        fixed("terms.self_distill.skills", "one bank keeps the skills of all steps"),
        fixed("terms.self_distill.length", "one bank asks for the skills of all steps"),
        only(
            "actor_rollout_ref.actor.use_kl_loss",
            False,
            reason="the reference pulls the policy back from its own teacher",
            use="actor_rollout_ref.actor.use_kl_loss=false",
            warns=True,
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._bank = Skills(self.skills, self.length if self.writer == POLICY else None)
        self.logged: dict[str, float] = {}

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({CONTEXTS, GAMES_AGAIN} if self.hint == SKILL else {CONTEXTS})

    @property
    def in_rollout(self) -> bool:
        return self.hint == SKILL

    @property
    def average(self) -> Mapping[str, float] | None:
        """Settings of the average that scores the contexts; None: the policy itself does."""
        settings = {"decay": self.ema, "every": self.ema_every, "copied": self.ema_copied}
        return settings if self.teacher == "ema" else None

    def contexts(self, row: RowView) -> Sequence[Context]:
        hint = self._hint(row)
        prompt = row.with_line(hint) if hint else None
        answers, trained = row.after_prompt()
        return [Context([*prompt, *answers], [False] * len(prompt) + trained, 0)] if prompt and any(trained) else []

    def _hint(self, row: RowView) -> str:
        if self.hint == "outcome":
            return self.won if row.won else self.lost
        if self.hint == SKILL:
            return self._bank.text(row.task)
        return self.plan.format(plan=", then ".join(row.plan)) if row.plan else ""

    def prepare(
        self, turns: Turns, keep: Tensor, entropy: Tensor | None, step: int, steps: int
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        assert turns.scored is not None and turns.log_prob is not None
        hinted = turns.spread(keep & turns.mask) & ~turns.scored.isnan()
        numbers = {"weight": hinted, "teacher": turns.scored.where(hinted, 0), "old": turns.log_prob.where(hinted, 0)}
        return {name: tensor.float() for name, tensor in numbers.items()}, {"weight": self.weight}

    def loss(self, view: LossView, coefficients: Mapping[str, float]) -> tuple[Tensor, dict[str, Tensor]]:
        weight, scale = view.data["weight"], view.scale
        student = view.log_prob.where(weight > 0, 0)
        ratio, less = torch.exp(student - view.data["old"]), student - view.data["teacher"]
        loss = (weight * ratio * (torch.exp(-less) - 1 + less)).sum() * scale
        return coefficients["weight"] * loss, {"kl": (weight * less.detach()).sum() * scale}

    def offer(self, step: int, episodes: Sequence[OfferedEpisode]) -> None:
        self._bank.offer(episodes)
        self.logged = {"skills": float(len(self._bank))}

    def requests(self) -> list[Request]:
        return self._bank.requests()

    def write(self, step: int, texts: Sequence[str]) -> None:
        self._bank.write(texts)

    def state(self) -> dict[str, Any]:
        return self._bank.state()

    def load(self, state: Mapping[str, Any]) -> None:
        self._bank.load(state)
