"""A profile in round numbers, for predictions that can be worked out by hand."""

from __future__ import annotations

from experiments.cost_estimate.profiles import Pace, Profile

PROFILE = Profile(
    source="some run",
    load=1.0,
    paces={
        "demonstrations": Pace(0.0, 0.05),
        "sft": Pace(8.0, 0.2),
        "rl": Pace(20.0, 7.5),
        "evaluation": Pace(0.0, 0.1),
    },
    episode={"bytes": 10_000.0, "tokens": 600.0, "sampled": 40.0},
)
