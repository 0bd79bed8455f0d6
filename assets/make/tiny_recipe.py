"""Everything that the weights of ``model=tiny`` depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainSettings:
    """Settings of pre-training.

    Args:
        batch_tokens: tokens in a batch, padding included. A model of this size needs small
            batches: with 4,096 tokens it wins nothing after the same minutes.
        rename_chance: chance that a thing of a transcript is renamed, drawn anew every epoch.
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
    """Follows the expert plan at each turn with chance ``expert_share``, else draws a command.

    ``weight``: relative frequency of this policy.
    """

    expert_share: float
    weight: float


@dataclass(frozen=True)
class Phase:
    """Training on ``samples_per_game`` transcripts of each of the first ``games`` games."""

    name: str
    games: int
    samples_per_game: int
    experts: tuple[NoisyExpert, ...]
    train: TrainSettings


@dataclass(frozen=True)
class Recipe:
    """Two phases: the first teaches how to win, the second makes winning rare.

    The result resembles a chat model: it can win and mostly does not, so that demonstrations and
    RL have something to show. ``max_turns``: actions in a transcript at most.
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
