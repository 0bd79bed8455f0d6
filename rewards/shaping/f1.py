"""ASTRA's reward: how much of the task was solved, and in how few turns."""

from __future__ import annotations

from dataclasses import dataclass

from turngrid.rewards.declared import Card, Conflict, Method
from turngrid.rewards.shaping.view import TRAINED, RewardView


@dataclass(kw_only=True)
class F1(Method):
    """``r_last = 2 p r / (p + r)``, in place of the trained reward; 0 if nothing was solved.

    r is the share of the game's maximum score, or won, if the game has no score. ``p = min(1, r L /
    c)``, c turns, replayed ones included, L actions of the expert plan; r without a plan.
    """

    conflicts = (
        Conflict(
            ("shaping",),
            lambda _, names: "turn_bonus" in names,
            "one pays for turns, the other takes off for them",
            "shaping=[f1]",
        ),
        Conflict(("before",), lambda _, names: bool(names), "it replaces what acts before it"),
    )
    card = Card(
        "pays the harmonic mean of recall (share of the score) and precision (recall x turns of the expert plan / "
        "turns) at the last turn, in place of the trained reward",
        paper="2601.21558",
        needs="a score, else having won; an expert plan, else recall alone; no transform before it",
        ours="recall and precision of text environments (there subtasks solved, and those a tool call)",
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        episode = view.episode
        recall = float(episode.won) if episode.score is None else episode.score
        turns = sum(not turn.summary for turn in [*episode.prefix, *episode.turns])
        precision = min(1.0, recall * view.plan / max(1, turns)) if view.plan else recall
        paid = 2 * precision * recall / (precision + recall) if recall > 0 else 0.0
        return {TRAINED: [0.0] * (len(episode.turns) - 1) + [paid]}
