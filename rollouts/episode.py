"""The centre of the house: what happened in one episode, turn by turn.

Expert demonstrations and policy rollouts are the same type, so that SFT rows and RL rows come out of one tokenisation.
Invariant (tested on real episodes): ``prompt_ids`` followed by each turn's ``action_ids`` and ``context_ids`` is exactly
the token sequence that the server saw and produced; nothing is decoded and encoded again. Where the model sees a window
of the episode only, a turn with ``prompt_ids`` of its own begins another such sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any

from envs.types import TASK_TYPE
from rewards.shaping.view import TRAINED

# Left out of a record where they are as usual, as they are in most.
_QUIET = {
    *("parsed", "versions", "shared", "summary", "entropies"),
    *("answer", "thought", "thought_tokens", "admissible", "label", "spans"),
    *("group", "score", "shaping", "prefix", "guidance", "parent", "trained", "trains_thoughts"),
}
_UNRECORDED = {"full_entropies"}  # the update alone asks for them, before the record is written


class Outcome(StrEnum):
    """How an episode ended. Only ``WON`` is success: a game that is over may have been lost."""

    WON = "won"
    LOST = "lost"
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_CONTEXT = "out_of_context"
    ERROR = "error"


@dataclass
class Turn:
    """One observation and the action that answered it.

    ``action_ids`` and ``logprobs`` (nats, at the sampling temperature) are as sampled, one entry a token.
    ``context_ids`` are the tokens between this action and the next: end of turn, next observation, generation prompt.
    ``prompt_ids`` are all that the model saw before this turn where a window begins with it, else empty.
    ``sampled`` is False for text policies, whose ids were filled in and carry no behaviour log-probs.
    ``parsed`` is False where no action could be read from the answer, ``valid`` where the environment did not understand it.
    ``info`` is what the environment reports besides its score, such as which tests pass.
    ``rewards`` holds each named reward of this turn; the trained one is placed on the turn's last action token. It is ``trained``
    where reward transforms made it of the chosen one, which then stays beside it.
    ``versions`` are the training steps whose weights sampled the first and the last of the ids. Only a record of an episode
    that was sampled by several has them; elsewhere the episode's ``policy_version`` stands for all turns.
    ``entropies`` are those of the tokens where a rollout form asked for them, ``full_entropies`` where a method of the update did
    (``rollouts.sampling.Sample``).
    ``action`` is what the environment was given; ``answer`` is all that was said, where that is more (``rollouts.prompt_forms``):
    ``thought`` and the first ``thought_tokens`` of the ids come before the action. ``label`` is what kind of answer
    it is; ``spans`` are the first of the ids of each of its parts and the one after the last. ``admissible``: the actions that the
    prompt listed.
    ``shared``: the turn was sampled in another episode of the group, from which this one branched off later.
    ``summary``: no turn of the environment's: the policy summed up what came before (``rollouts.summaries``), and ``action`` is what
    it said. It has no reward; a turn with ``prompt_ids`` of its own follows.
    """

    observation: str
    action: str
    action_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    context_ids: list[int] = field(default_factory=list)
    sampled: bool = True
    valid: bool = True
    parsed: bool = True
    score_delta: float = 0.0
    rewards: dict[str, float] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    act_seconds: float = 0.0
    env_seconds: float = 0.0
    prompt_ids: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    shared: bool = False
    summary: bool = False
    entropies: list[float] = field(default_factory=list)
    full_entropies: list[float] = field(default_factory=list)
    answer: str = ""
    thought: str = ""
    thought_tokens: int = 0
    admissible: list[str] = field(default_factory=list)
    label: str = ""
    spans: dict[str, list[int]] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """The policy's words."""
        return self.answer or self.action

    def trained(self, reward: str) -> float:
        """The trained reward of a run whose chosen reward has that name."""
        return self.rewards.get(TRAINED, self.rewards.get(reward, 0.0))


@dataclass
class Episode:
    """One rollout of one task by one policy.

    ``policy_version`` is the training step whose weights sampled the last turn. ``group`` names the samples of one prompt
    where the trainer is asynchronous (docs/async.md); ``step`` is then the one in which the prompt was handed out.
    ``score`` is the final score as a share of the game's best, in [0, 1]; None where nobody knows the best or the
    environment failed.
    ``shaping`` is what each reward transform added to the trained reward, and what else it tells, by ``NAME`` and ``NAME/WHAT``.
    ``prefix`` holds the turns that were replayed before the policy's first: part of its prompt, with token and context ids, and
    neither sampled nor rewarded. ``guidance`` is what the prompt said besides the task. ``parent`` is the sample of its group that it
    branched off from. ``trained`` is False where it was played and not learned from, ``trains_thoughts`` where its thoughts' tokens
    are not.
    """

    task: str
    seed: int
    split: str
    goal: str
    messages: list[dict[str, str]]
    prompt_ids: list[int]
    turns: list[Turn]
    outcome: Outcome
    final_observation: str = ""
    sample: int = 0
    step: int = 0
    policy: str = ""
    policy_version: int = 0
    error: str = ""
    retries: int = 0
    group: str = ""
    score: float | None = None
    shaping: dict[str, float] = field(default_factory=dict)
    prefix: list[Turn] = field(default_factory=list)
    guidance: str = ""
    parent: int | None = None
    trained: bool = True
    trains_thoughts: bool = True

    @property
    def whole(self) -> bool:
        """The policy alone played it from the game's start, so that its success is the policy's."""
        return not (self.prefix or self.guidance or self.branched)

    @property
    def task_type(self) -> str:
        """As the environment tells it with each step; "" where it has none."""
        return str(next((turn.info[TASK_TYPE] for turn in self.turns if TASK_TYPE in turn.info), ""))

    @property
    def branched(self) -> bool:
        return any(turn.shared for turn in self.turns[:1])

    @property
    def own_turns(self) -> list[Turn]:
        """Those that were sampled for this episode."""
        return [turn for turn in self.turns if not turn.shared]

    @property
    def played_turns(self) -> list[Turn]:
        """Those that the environment answered."""
        return [turn for turn in self.turns if not turn.summary]

    @property
    def prefix_tokens(self) -> int:
        """Those of the prompt that the replayed turns take, with the messages that answered them."""
        return sum(len(turn.action_ids) + len(turn.context_ids) for turn in self.prefix)

    @property
    def won(self) -> bool:
        return self.outcome is Outcome.WON

    def muted(self, turn: Turn) -> int:
        """How many of a turn's ids, from the first, are not learned from."""
        return 0 if self.trains_thoughts else turn.thought_tokens

    def versions(self, first: int = 0, last: int | None = None) -> tuple[int, int]:
        """The oldest and the newest weights that sampled these turns, by default all."""
        found = [version for turn in self.turns[first:last] for version in turn.versions]
        return (min(found), max(found)) if found else (self.policy_version, self.policy_version)

    def to_dict(self) -> dict[str, Any]:
        """Its record. Its lists are the episode's own: ``dataclasses.asdict`` would copy every token."""
        record = _told(self)
        turns = {name: [_told(turn) for turn in record[name]] for name in ("turns", "prefix") if name in record}
        return record | turns

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Episode:
        turns = {name: [Turn(**turn) for turn in data.get(name, ())] for name in ("turns", "prefix")}
        return cls(**{**data, **turns, "outcome": Outcome(data["outcome"])})


@cache
def _usual(kind: type) -> dict[str, Any]:
    quiet = [item for item in fields(kind) if item.name in _QUIET]
    return {item.name: item.default if item.default_factory is MISSING else item.default_factory() for item in quiet}


def _told(item: Any) -> dict[str, Any]:
    usual = _usual(type(item))
    told = ((name, value) for name, value in vars(item).items() if name not in _UNRECORDED)
    return {name: value for name, value in told if name not in usual or value != usual[name]}
