"""All that the tiny model's weights depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainSettings:
    """``batch_tokens`` counts padding; ``rename_chance`` is for each thing word of an episode, anew every epoch.

    Small batches are what makes a model of this size learn: with 4,096 tokens it wins nothing after the same minutes.
    """

    epochs: int = 10
    batch_tokens: int = 1024
    learning_rate: float = 4e-3
    warmup_steps: int = 50
    rename_chance: float = 0.3
    observation_weight: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class NoisyExpert:
    """Follows a winning plan at each turn with chance ``expert_share``, else draws a possible command;
    ``weight`` says how often this policy is drawn."""

    expert_share: float
    weight: float


@dataclass(frozen=True)
class Phase:
    """Training on ``samples_per_game`` transcripts of each of the first ``games`` games, each by one of the
    ``experts``."""

    name: str
    games: int
    samples_per_game: int
    experts: tuple[NoisyExpert, ...]
    train: TrainSettings


@dataclass(frozen=True)
class Recipe:
    """What the base knows is learned first, from good and bad policies in equal parts; how often it uses it is
    set last, by a few more transcripts among which good ones are rare. So it is like a model trained on what people
    write: it can win and mostly does not, and demonstrations or RL make it win more often.

    Transcripts have at most ``max_turns`` turns.
    """

    task: str = "w2-o3-q4"
    phases: tuple[Phase, ...] = (
        Phase("know", 2000, 2, (NoisyExpert(1.0, 0.5), NoisyExpert(0.25, 0.5)), TrainSettings(epochs=6)),
        Phase(
            "blend",
            2000,
            1,
            (NoisyExpert(1.0, 0.05), NoisyExpert(0.1, 0.95)),
            TrainSettings(epochs=1, learning_rate=1e-3),
        ),
    )
    max_turns: int = 12
    vocabulary: int = 1600
    max_length: int = 2048
    seed: int = 0

    @property
    def games(self) -> int:
        return max(phase.games for phase in self.phases)
