"""A profile in round numbers, for predictions that can be worked out by hand."""

from __future__ import annotations

from turngrid.experiments.cost_estimate.throughput import Profile

PROFILE = Profile(
    source="some run",
    seconds={"demonstrations": 0.05, "sft": 0.2, "rl": 7.5, "evaluation": 0.1},
)
