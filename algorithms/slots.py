"""The kinds of method that a step has room for: what each is called with, and in which order (docs/methods.md).

A method is a dataclass: its fields are its settings, with types and defaults, so that a typo in one is answered before a run
starts. Any number among them may be a schedule (``algorithms.schedules``); a method itself only ever sees today's number.
Whatever is drawn at random is seeded by the run's seed and the step.

An estimator, a filter or a credit method that compares episodes of the whole step, beyond their group, has a true attribute
``over_batch``. ``separate_async`` refuses it if an update has only a share of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from torch import Tensor

from algorithms.turns import Turns
from envs.ranges import in_range  # noqa: F401 - methods take it from here

Needs = frozenset[Literal["entropy", "values", "teacher"]]


@dataclass(frozen=True)
class Tokens:
    """What an estimator may know of single tokens, (B, T) each; what stands off ``mask`` is never read.

    Attributes:
        mask: bool, the action tokens that the update uses; a correction of old samples may have taken some of a turn's away.
        reward: trained rewards, with the KL to the reference where that is part of them.
        value: the critic's value before the token; None: there is no critic.
        entropy: nats, of the policy that sampled the token; None: not computed.
        heads: ``value`` of the critic's further heads, where an estimator asks for more than one.
        kl: what the KL to the reference, or a teacher, adds to the reward; None: nothing.
    """

    mask: Tensor
    reward: Tensor
    value: Tensor | None = None
    entropy: Tensor | None = None
    heads: tuple[Tensor, ...] = ()
    kl: Tensor | None = None


class Head(NamedTuple):
    """What a further head of the critic is to say, (E, K), and the tokens that it is trained on, (B, T) bool."""

    returns: Tensor
    targets: Tensor


class Estimate(NamedTuple):
    """What an estimator says: two tensors, (E, K), or (B, T) where its grain is a token.

    Attributes:
        advantages: what stands where there is no action is never read.
        returns: what a critic is to say.
        targets: (B, T) bool, the action tokens that the critic is trained on; None: all, which more than one head does not allow.
        heads: of the critic's further heads.
    """

    advantages: Tensor
    returns: Tensor
    targets: Tensor | None = None
    heads: tuple[Head, ...] = ()


class Estimator(Protocol):
    """From rewards to advantages, where turns, values or entropy have a part in it (``algo=``).

    ``needs``: "values" trains a critic beside the policy, "teacher" puts ``algo.teacher`` in the reference policy's place.
    ``compares``: it needs several samples a prompt. ``grain``: what has an advantage of its own. Where they are given: ``heads``, how
    many the critic has; ``labels``, those of the prompt form that it needs (of credit and reward transforms too).
    """

    needs: ClassVar[Needs]
    compares: ClassVar[bool]
    grain: ClassVar[Literal["token", "turn", "episode"]]

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        """``turns.reward`` holds the KL to the reference too, where that is part of the reward."""


class Filter(Protocol):
    """Which episodes are learned from.

    ``when``: "before" the baseline, which then does not count an episode that is dropped, or "after" it: the episode stays in
    its group's baseline and its tokens are muted. ``compares``, where it is given: it needs several samples a prompt.
    """

    when: ClassVar[Literal["before", "after"]]

    def __call__(self, turns: Turns, step: int) -> Tensor:
        """(E,) bool: True keeps an episode."""


class Credit(Protocol):
    """Moves or scales the credit of single turns.

    ``grains``: what may have an advantage of its own before it acts (``algorithms.registry.Algorithm.grain``); what adds a
    number a turn must not meet advantages that differ from token to token ("token": it only ever multiplies them).
    Where they are given: ``needs``, such as "entropy"; ``compares``, it needs several samples a prompt; ``compares_turns``, it
    compares turns with each other.
    """

    grains: ClassVar[frozenset[str]]

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        """(E, K) to (E, K); what stands where there is no turn is never read."""


class LossForm(Protocol):
    """The loss of an action token, in place of PPO's clipped one.

    Where they are given and true: ``over_turns``, the update's loss is the mean over turns of means over their tokens; ``weighed`` (of the
    class itself: a class that inherits from it says so anew), rows of advantage 0 have no gradient, nor a part in the loss of others.
    """

    def __call__(
        self, old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor, mask: Tensor, turn_ids: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """(b, T) each, log-probs in nats: the losses a token, to be minimised, and metrics over the pass's tokens by name."""


@dataclass(frozen=True)
class LossView:
    """What a term sees of one pass.

    Attributes:
        log_prob, entropy: (b, T), nats, with gradient; ``entropy`` is None unless the term needs it.
        data: the term's own (b, T) numbers from ``prepare``.
        scale: makes a sum over tokens of numbers in proportion to ``weight`` (which ``prepare`` must give) their mean over the
            update's batch on all devices, so that passes add up.
    """

    log_prob: Tensor
    entropy: Tensor | None
    data: Mapping[str, Tensor]
    scale: float


class Term(Protocol):
    """Something added to the loss. Its state lives in the trainer and is part of every checkpoint."""

    needs: ClassVar[Needs]

    def prepare(
        self, turns: Turns, keep: Tensor, entropy: Tensor | None, step: int, steps: int
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """In the trainer, once a step: numbers a token by name, (B, T), ``weight`` among them, and coefficients.

        Args:
            keep: (E,) bool, the episodes that are learned from.
            entropy: (B, T) of the policy that sampled, nats.
            step, steps: this one, counted from 1, and how many there will be.
        """

    def loss(self, view: LossView, coefficients: Mapping[str, float]) -> tuple[Tensor, dict[str, Tensor]]:
        """In the worker, for each pass: what is added to the loss, and metrics that add up over passes."""

    def state(self) -> dict[str, Any]:
        """Of dicts, lists, tuples, strings, numbers and tensors: a checkpoint is read without running code from it."""

    def load(self, state: Mapping[str, Any]) -> None: ...


@dataclass
class StoredEpisode:
    """An episode that a buffer keeps.

    Attributes:
        rows: what each of its rows held before its step's update, by field; only whoever reads and writes rows looks inside.
        score: its rewards, summed.
        group_mean: the mean score of its group.
        step: in which it was played.
        advantage: of all its action tokens when it is replayed.
        task: what it was an episode of.
    """

    rows: Sequence[Mapping[str, Any]]
    score: float
    group_mean: float
    step: int
    advantage: float = 0.0
    task: str = ""


class Buffer(Protocol):
    """Keeps episodes of earlier steps and gives some back to be learned from again, after a step's own update.

    One that has ``replace(turns, step) -> {episode: StoredEpisode}`` puts them in the place of the step's own, before its baseline.
    ``synchronous``: what it counts are steps of a synchronous trainer. ``compares``: it needs several samples a prompt.
    """

    synchronous: ClassVar[bool]
    compares: ClassVar[bool]

    def wanted(self, turns: Turns, advantages: Tensor, step: int) -> Sequence[int]:
        """Episodes that ``offer`` is to be given; their rows are read for it."""

    def offer(self, step: int, episodes: Sequence[StoredEpisode], turns: Turns) -> None: ...

    def take(self, step: int) -> list[StoredEpisode]:
        """What this step's update also learns from, with its ``advantage``."""

    def state(self) -> dict[str, Any]:
        """As of ``Term``."""

    def load(self, state: Mapping[str, Any]) -> None: ...
