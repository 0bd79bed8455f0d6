"""Everything that the weights of ``model=tiny_alfworld`` depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """Replaces the searcher's choice with ``chance`` at each turn.

    ``weight``: relative frequency of such transcripts.
    """

    chance: float
    weight: float


@dataclass(frozen=True)
class Stage:
    """A stage of training.

    Args:
        steps: updates, each the mean of ``batches`` batches.
        max_places: receptacles in a house at most.
        max_turns: actions in a transcript at most.
        first_type: share of tasks that must be of the first type; the others are of any type.
        batch_tokens: tokens in a batch at most, padding included.
        decay: share of the steps, at the end, over which the learning rate falls to a 33rd.
    """

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
    """Everything that the weights depend on.

    Training starts from ``model=tiny``, which can follow a goal but lacks ALFWorld's words.
    """

    start: str = "asset://tiny"
    stages: tuple[Stage, ...] = (
        Stage("small houses", 620, 12, 8),
        Stage("all houses", 400, 99, 12, decay=0.3),
    )
    vocabulary: int = 800
    tokenizer_transcripts: int = 1500
    max_length: int = 2048
    seed: int = 0
