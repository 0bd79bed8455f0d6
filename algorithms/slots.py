"""The slots of a step: input and output of the methods in each slot (docs/methods.md).

A method is a dataclass whose fields are its settings. A number among them may follow a schedule
(``turngrid.algorithms.schedules``); the method sees the number of the current step. Random draws
are seeded by the run's seed and the step. Methods may declare what
``turngrid.rewards.declared.Method`` has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from torch import Tensor

from turngrid.algorithms.contexts import SeenTurn
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import Names


@dataclass(frozen=True)
class Tokens:
    """Numbers per token, (B, T) each. Values outside ``mask`` are undefined.

    Attributes:
        mask: bool, the action tokens that the update uses. Rejection of old samples may have
            removed some tokens of a turn.
        reward: trained rewards, less the KL to the reference if that is part of the reward.
        value: the critic's value before the token; None without a critic.
        entropy: nats, of the policy that sampled the token; None if not computed.
        heads: values of the critic's further heads.
        kl: the term of the reward for the KL to the reference, or to a teacher; None without one.
    """

    mask: Tensor
    reward: Tensor
    value: Tensor | None = None
    entropy: Tensor | None = None
    heads: tuple[Tensor, ...] = ()
    kl: Tensor | None = None


class Head(NamedTuple):
    """Targets of a further critic head, (E, K), and its trained tokens, (B, T) bool."""

    returns: Tensor
    targets: Tensor


class Estimate(NamedTuple):
    """Advantages and returns: (E, K), or (B, T) if the estimator's grain is a token.

    Attributes:
        advantages: values outside actions are undefined.
        returns: target values of the critic.
        targets: (B, T) bool, the tokens that the critic is trained on; None: all action tokens.
        heads: targets of the critic's further heads.
    """

    advantages: Tensor
    returns: Tensor
    targets: Tensor | None = None
    heads: tuple[Head, ...] = ()


class Estimator(Protocol):
    """Computes advantages from rewards, turns, values or entropy (``algo=``).

    Attributes:
        needs: "values" trains a critic; "teacher": ``algo.teacher`` is the reference policy.
        grain: the unit that gets one advantage.
    """

    needs: ClassVar[Names]
    grain: ClassVar[Literal["token", "turn", "episode"]]

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        """``turns.reward`` includes the KL to the reference if that is part of the reward."""


class Filter(Protocol):
    """Chooses the episodes or turns to train on.

    Attributes:
        when: "before": a dropped episode is not part of its group's baseline. "after": it is, and
            its tokens are muted. A filter over turns is "after".
    """

    when: ClassVar[Literal["before", "after"]]

    def __call__(self, turns: Turns, step: int) -> Tensor:
        """Return (E,) or (E, K) bool: True keeps an episode or a turn; undefined outside turns."""


class Credit(Protocol):
    """Changes the advantages of single turns.

    Attributes:
        grains: grains of advantages that it accepts
            (``turngrid.algorithms.registry.Algorithm.grain``). A method that accepts "token" may
            only multiply: advantages then differ inside a turn.
    """

    grains: ClassVar[frozenset[str]]

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        """Change the advantages of turns, (E, K) to (E, K); values outside turns are undefined."""


class LossForm(Protocol):
    """Computes an action token's loss, replacing PPO's clipped loss.

    Attributes:
        over_turns: optional; the update's loss is the mean over turns of means over their tokens.
        weighed: optional; rows with advantage 0 get no gradient and do not affect other rows. Not
            inherited: subclasses must set it.
        ratio_of: optional; "turn" if the tokens of a turn share one probability ratio.
    """

    def __call__(
        self, old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor, mask: Tensor, turn_ids: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return losses, (b, T), and metrics by name, (b, T) each. Log-probs are in nats."""


@dataclass(frozen=True)
class LossView:
    """One forward pass (micro-batch), as seen by a loss term.

    Attributes:
        log_prob, entropy: (b, T), nats, with gradient; ``entropy`` may be None.
        data: the term's (b, T) numbers from ``prepare``.
        scale: factor that turns a sum over the pass's tokens, weighted by ``data["weight"]``, into
            a share of the mean over the whole update.
    """

    log_prob: Tensor
    entropy: Tensor | None
    data: Mapping[str, Tensor]
    scale: float


class Stateful(Protocol):
    """A method with a state, which is in the trainer and part of every checkpoint."""

    def state(self) -> dict[str, Any]:
        """Return plain containers, numbers and tensors: reading a checkpoint runs no code."""

    def load(self, state: Mapping[str, Any]) -> None: ...


class Term(Stateful, Protocol):
    """A loss term."""

    needs: ClassVar[Names]

    def prepare(
        self, turns: Turns, keep: Tensor, entropy: Tensor | None, step: int, steps: int
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Return numbers per token by name, (B, T), among them ``weight``, and coefficients.

        Runs in the trainer, once a step.

        Args:
            keep: (E, K) bool, the turns that are learned from.
            entropy: (B, T), nats, of the policy that sampled.
            step: counted from 1.
            steps: of the run.
        """

    def loss(self, view: LossView, coefficients: Mapping[str, float]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what a pass adds to the loss, and metrics that add up. Runs in the worker."""


@dataclass
class StoredEpisode:
    """An episode in a buffer.

    Attributes:
        rows: the fields of each row before its step's update, opaque to buffers.
        group_mean: the mean score of its group.
        advantage: of all its action tokens when it is replayed.
    """

    rows: Sequence[Mapping[str, Any]]
    score: float
    group_mean: float
    step: int
    advantage: float = 0.0
    task: str = ""


class Buffer(Stateful, Protocol):
    """Stores episodes of earlier steps and replays some of them after a step's own update.

    A buffer with ``replace(turns, step) -> {episode: StoredEpisode}`` replaces episodes of the step
    by stored ones, before the baseline. It requires ``OWN_ROWS``.
    """

    def wanted(self, turns: Turns, advantages: Tensor, step: int) -> Sequence[int]:
        """Return the indices of the episodes to store; ``offer`` receives them with their rows."""

    def offer(self, step: int, episodes: Sequence[StoredEpisode], turns: Turns) -> None: ...

    def take(self, step: int) -> list[StoredEpisode]:
        """Return the episodes to replay in this step, with their ``advantage``."""


class OfferedEpisode(NamedTuple):
    """A finished episode of a step, as a library and a bank of skills see it.

    Attributes:
        task: key of its game.
        reward: the sum of its trained rewards.
        turns: without summaries.
    """

    task: str
    goal: str
    won: bool
    reward: float
    turns: Sequence[SeenTurn]


class Request(NamedTuple):
    """Text that the policy is asked to write.

    Attributes:
        lines: of a transcript; the first ones are left out if there is no room for all.
        question: follows them.
        length: tokens of the answer at most.
    """

    lines: Sequence[str]
    question: str
    length: int


class Offered(Stateful, Protocol):
    """A method that learns from the texts of a step's episodes, such as a ``Library``.

    Where episodes are sampled, its state is that of the start of the step. ``requests`` and
    ``write`` are optional.

    Attributes:
        in_rollout: True.
        logged: optional; numbers of the newest ``offer`` for the log, by name.
    """

    in_rollout: ClassVar[bool]

    def offer(self, step: int, episodes: Sequence[OfferedEpisode]) -> None:
        """Learn from the episodes, in their order, after the update of ``step``."""

    def requests(self) -> Sequence[Request]:
        """Return what the policy is asked to write, after the update and before the next step."""

    def write(self, step: int, texts: Sequence[str]) -> None:
        """Take the answers to ``requests``, in their order."""


class Library(Offered, Protocol):
    """Gives the policy a text before each turn (``library=``), in training and in evaluation.

    Attributes:
        tokens: of a text at most; what is longer is cut.
    """

    tokens: int

    def look_up(self, task: str, observation: str, step: int) -> str:
        """Return the text for a turn, "" for none. It must change nothing that is saved.

        Args:
            task: key of the game.
            step: the training step; in evaluation that of the checkpoint.
        """

    def states(self) -> Callable[[str], str]:
        """Optional, for ``algo.state=cluster``; called for each group.

        The result maps an observation to what equal states of the group have in common.
        """
