"""The slots of a step: what a method in each slot is called with, and what it returns.

A method is a dataclass whose fields are its settings. A number among them may follow a schedule
(``turngrid.algorithms.schedules``); the method sees the number of the current step. Random draws
are seeded by the run's seed and the step. Methods may declare what
``turngrid.rewards.declared.Method`` has. The shapes are those of ``turngrid.algorithms.turns``;
values outside turns or actions are undefined.

``algo=``: ``method(turns, tokens)`` returns an ``Estimate``. ``turns.reward`` includes the KL to
    the reference if that is part of the reward. ``grain`` is the unit that gets one advantage:
    "token", "turn" or "episode". ``needs``: "values" trains a critic; with "teacher",
    ``algo.teacher`` is the reference policy. Optional: ``by_turn``, each turn number has its own
    update, in the order of ``in_order(rows, step)``, with advantages times ``next_factors(...)``.
``filter=``: ``method(turns, step)`` returns (E,) or (E, K) bool, True for an episode or a turn to
    train on. If ``when`` is "before", a dropped episode is not part of its group's baseline. If it
    is "after" (all filters over turns), it stays in the baseline and its tokens are muted.
    Optional: ``batches``, how often at most a step's episodes are sampled; ``leaves_out``, solved
    games are no longer drawn.
``credit=``: ``method(turns, advantages)`` changes the advantages of turns, (E, K) to (E, K).
    ``grains`` are the grains of advantages that it accepts. A method that accepts "token" may only
    multiply, since advantages then differ inside a turn.
``loss=``: ``method(old_log_prob, log_prob, advantages, mask, turn_ids)`` returns losses and metrics
    by name, (b, T) each; log-probs are in nats. Optional attributes: ``over_turns``, the update's
    loss is the mean over turns of means over their tokens; ``weighed``, rows with advantage 0 get
    no gradient and do not affect other rows (not inherited: subclasses must set it); ``ratio_of``,
    "turn" if the tokens of a turn share one probability ratio.
``terms=``: ``prepare(turns, keep, entropy, step, steps)`` runs in the trainer once a step.
    ``keep``, (E, K) bool, marks the turns that are learned from; ``entropy``, (B, T) nats, is that
    of the policy that sampled; ``step`` counts from 1, and ``steps`` are those of the run. It
    returns numbers per token by name, (B, T), among them ``weight``, and coefficients.
    ``loss(view, coefficients)`` runs in the worker, and returns what a ``LossView`` adds to the
    loss, and metrics that add up.
``buffer=``: ``wanted(turns, advantages, step)`` returns the indices of the episodes to store,
    ``offer(step, episodes, turns)`` gets them as ``StoredEpisode``, and ``take(step)`` returns
    those to replay in this step, with their ``advantage``. ``replace(turns, step)`` is optional: it
    returns stored episodes by the index of the one that each replaces before the baseline, and
    requires ``OWN_ROWS``.

``library=``: ``look_up(task, observation, step)`` returns the text for a turn, "" for none, and
    changes nothing that is saved. ``task`` is the game's key; in evaluation, ``step`` is the one
    after the checkpoint's. Texts are cut to ``tokens``. ``states()`` is optional, for
    ``algo.state=cluster``: called for each group, it returns a function from an observation to a
    text that is the same for equal states of the group.

A method of any slot may learn from the texts of a step's episodes. ``offer(step, episodes)`` gets
them as ``OfferedEpisode``, in their order, after the update. ``in_rollout`` is then True: where
episodes are sampled, its state is that of the start of the step. Optional: ``requests()`` returns
what the policy is asked to write before the next step, ``write(step, texts)`` gets the answers in
their order, and ``logged`` has numbers of the newest ``offer`` for the log, by name.

A method with a state has ``state()``, which returns plain containers, numbers and tensors (reading
a checkpoint runs no code), and ``load(state)``. The state is part of every checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from turngrid.algorithms.contexts import SeenTurn


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


@dataclass
class StoredEpisode:
    """An episode in a buffer.

    Attributes:
        rows: the fields of each row before its step's update, opaque to buffers.
        advantage: of all its action tokens when it is replayed.
    """

    rows: Sequence[Mapping[str, Any]]
    score: float
    step: int
    advantage: float = 0.0
    task: str = ""


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
