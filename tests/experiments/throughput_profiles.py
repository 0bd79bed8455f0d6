"""Rates in round numbers, for predictions that can be worked out by hand."""

from __future__ import annotations

from experiments.cost_estimate.throughput import ThroughputProfile

PROFILE = ThroughputProfile(
    source="some run",
    measured=0.0,
    load=1.0,
    game_bytes=1000.0,
    evaluation_start=5.0,
    evaluation_sample=0.1,
    game_seconds=0.5,
    demonstrations_seconds=1.0,
    demonstration_seconds=0.05,
    sft_start=8.0,
    sft_step=0.2,
    rl_start=20.0,
    rl_step=7.5,
    rl_save=0.4,
    tokens=600.0,
    sampled=40.0,
    episode_bytes=10_000.0,
    checkpoint_bytes=5e6,
    model_bytes=1e6,
)
