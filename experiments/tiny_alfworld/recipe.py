"""All that the weights of ``model=tiny_alfworld`` depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """Something else is done with ``chance`` at each turn; ``weight`` says how often such a transcript is drawn."""

    chance: float
    weight: float


@dataclass(frozen=True)
class Stage:
    """``steps`` updates of ``batches`` batches of at most ``batch_tokens`` tokens with their padding, in houses of at
    most ``max_places`` places. ``first_type`` is the share of tasks that are of the first type in any case; over the
    last ``decay`` of the steps the learning rate falls to a 33rd."""

    name: str
    steps: int
    max_places: int
    max_turns: int
    noises: tuple[Noise, ...] = (Noise(0.0, 0.7), Noise(0.2, 0.3))
    first_type: float = 0.85
    batches: int = 3
    batch_tokens: int = 1024
    learning_rate: float = 4e-3
    decay: float = 0.0
    observation_weight: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """From the weights of ``model=tiny``, which can follow a goal and copy what they read, but not in these words."""

    start: str = "asset://tiny"
    stages: tuple[Stage, ...] = (
        Stage("small houses", 620, 12, 8),
        Stage("all houses", 400, 99, 12, decay=0.3),
    )
    vocabulary: int = 800
    tokenizer_transcripts: int = 1500
    max_length: int = 2048
    seed: int = 0
