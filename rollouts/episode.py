"""The record of one episode, turn by turn.

Expert demonstrations and policy rollouts are the same type, so that SFT rows and RL rows come out
of one tokenisation. Invariant (tested on real episodes): ``prompt_ids`` followed by each turn's
``action_ids`` and ``context_ids`` is exactly the token sequence that the server saw and produced.
Nothing is decoded and encoded again. If the model sees only a window of the episode, each turn with
``prompt_ids`` begins another such sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any

from turngrid.envs.types import TASK_TYPE
from turngrid.rewards.reward import TRAINED

# Metadata of a field: recorded always, or never. Another one is if it differs from its default.
ALWAYS, NEVER = {"recorded": "always"}, {"recorded": "never"}
SUMMARY = "summary"  # role of a turn that sums up earlier ones (``turngrid.rollouts.window``)


class Outcome(StrEnum):
    """End of an episode. Only ``WON`` is success: a game that is over may be lost."""

    WON = "won"
    LOST = "lost"
    DRAWN = "drawn"
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_CONTEXT = "out_of_context"
    ERROR = "error"


@dataclass
class Turn:
    """One observation and the answer to it.

    Attributes:
        action_ids: tokens of the whole answer, as sampled.
        logprobs: nats at the sampling temperature, one a token of ``action_ids``.
        context_ids: tokens between this answer and the next: end of turn, next observation,
            generation prompt.
        sampled: False for text policies, whose ids were filled in and have no log-probs.
        valid: False if the environment did not understand the action.
        parsed: False if no action could be read from the answer.
        rewards: by name; the trained one is placed on the last action token. If reward transforms
            changed the chosen reward, the result is named ``trained``.
        info: what the environment reports besides its score, such as which tests pass.
        prompt_ids: all tokens before this turn if it begins a row (window), else empty.
        versions: training steps whose weights sampled the first and the last token. Only kept if
            several steps sampled the episode; else ``Episode.policy_version`` holds for all turns.
        shared: the turn was sampled in the parent, another episode of the group.
        aside: the answer, ``action``, did not reach the environment. Such a turn has no reward, and
            the next turn begins a row.
        role: who answered, if an episode has several roles, or ``SUMMARY``.
        entropies, full_entropies: of the tokens, if a rollout form or a method of the update asked
            for them (``turngrid.rollouts.sampling.Sample``).
        answer: the whole answer, if it is more than the action.
        thought_tokens: number of ``action_ids``, from the first, that belong to the thought.
        admissible: actions that the prompt listed.
        results: if the turn before made calls, the result of each; ``observation`` has them all.
        spans: by part of the answer, its first token and the one after its last.
        actions: each action, if there are several (``prompt.max_actions``); ``action`` joins them.
        dropped: number of further actions of the answer, which were not read.
        ran: number of actions that the environment received.
        attempt: the play of the episode that the turn belongs to, from 0.
        retrieved: the library's text in this turn's prompt.
        retrieved_tokens: number of its tokens if this turn's prompt shows it anew; 0 if the row
            has it from an earlier turn.
        patch: the expert's answer, if it stands in place of this one in later prompts.
    """

    observation: str
    action: str
    action_ids: list[int] = field(default_factory=list, metadata=ALWAYS)
    logprobs: list[float] = field(default_factory=list, metadata=ALWAYS)
    context_ids: list[int] = field(default_factory=list, metadata=ALWAYS)
    sampled: bool = field(default=True, metadata=ALWAYS)
    valid: bool = field(default=True, metadata=ALWAYS)
    parsed: bool = True
    score_delta: float = field(default=0.0, metadata=ALWAYS)
    rewards: dict[str, float] = field(default_factory=dict, metadata=ALWAYS)
    info: dict[str, Any] = field(default_factory=dict, metadata=ALWAYS)
    act_seconds: float = field(default=0.0, metadata=ALWAYS)
    env_seconds: float = field(default=0.0, metadata=ALWAYS)
    prompt_ids: list[int] = field(default_factory=list, metadata=ALWAYS)
    versions: list[int] = field(default_factory=list)
    shared: bool = False
    aside: bool = False
    role: str = ""
    entropies: list[float] = field(default_factory=list)
    full_entropies: list[float] = field(default_factory=list, metadata=NEVER)
    answer: str = ""
    thought: str = ""
    thought_tokens: int = 0
    admissible: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    label: str = ""
    spans: dict[str, list[int]] = field(default_factory=dict)
    actions: list[str] = field(default_factory=list)
    dropped: int = 0
    ran: int = 1
    patch: str = ""
    attempt: int = 0
    retrieved: str = ""
    retrieved_tokens: int = 0

    @property
    def response(self) -> str:
        return self.answer or self.action

    @property
    def received(self) -> list[str]:
        """The actions that the environment received, in order."""
        return (self.actions or [self.action])[: self.ran]

    def trained(self, reward: str) -> float:
        """Return the trained reward, given the name of the chosen one."""
        return self.rewards.get(TRAINED, self.rewards.get(reward, 0.0))


@dataclass
class Episode:
    """One rollout of one task by one policy.

    Attributes:
        step: training step in which the prompt was handed out.
        policy_version: training step whose weights sampled the last turn.
        group: name of the group of samples, with an asynchronous trainer (docs/async.md).
        score: final score as a share of the game's maximum, in [0, 1]; None if the maximum is
            unknown or the environment failed.
        shaping: what each reward transform added to the trained reward (``NAME``), and what else
            it reports (``NAME/WHAT``).
        prefix: turns replayed before the policy's first one. They are part of the prompt, with
            token and context ids, and are neither sampled nor rewarded.
        guidance: line of the prompt before the goal.
        parent: sample of the group that this one branched off from.
        plays: the outcome of each play, if an episode has several; ``outcome`` and ``score`` are
            those of the last.
        followed: the expert plan judged each turn, and the game ran the plan's actions.
        gold: right answers (``turngrid.envs.types.Observation``).
        seat: in a match of several seats, the one whose view this is.
        match: name that the episodes of a match share.
        sides: the match's other episodes that are trained on.
    """

    task: str
    seed: int
    split: str
    goal: str
    messages: list[dict[str, str]]
    prompt_ids: list[int]
    turns: list[Turn]
    outcome: Outcome
    final_observation: str = field(default="", metadata=ALWAYS)
    sample: int = field(default=0, metadata=ALWAYS)
    step: int = field(default=0, metadata=ALWAYS)
    policy: str = field(default="", metadata=ALWAYS)
    policy_version: int = field(default=0, metadata=ALWAYS)
    error: str = field(default="", metadata=ALWAYS)
    retries: int = field(default=0, metadata=ALWAYS)
    group: str = ""
    score: float | None = None
    shaping: dict[str, float] = field(default_factory=dict)
    prefix: list[Turn] = field(default_factory=list)
    guidance: str = ""
    parent: int | None = None
    trained: bool = True
    trains_thoughts: bool = True
    followed: bool = False
    plays: list[str] = field(default_factory=list)
    gold: list[str] = field(default_factory=list, metadata=NEVER)
    seat: str = ""
    match: str = ""
    opponent: str = ""
    sides: list[Episode] = field(default_factory=list, metadata=NEVER)

    @property
    def whole(self) -> bool:
        """Return whether the policy acted alone from the game's start, so that a win is its own."""
        return not (self.prefix or self.guidance or self.branched or self.followed)

    @property
    def task_type(self) -> str:
        """The task type that the environment reports with each step, or ""."""
        return str(next((turn.info[TASK_TYPE] for turn in self.turns if TASK_TYPE in turn.info), ""))

    @property
    def branched(self) -> bool:
        return any(turn.shared for turn in self.turns[:1])

    @property
    def own_turns(self) -> list[Turn]:
        """Turns that were sampled in this episode, not in its parent."""
        return [turn for turn in self.turns if not turn.shared]

    @property
    def shared_turns(self) -> int:
        """Number of the turns that were sampled in its parent."""
        return len(self.turns) - len(self.own_turns)

    @property
    def played_turns(self) -> list[Turn]:
        """Turns that the environment answered."""
        return [turn for turn in self.turns if not turn.aside]

    @property
    def actions_run(self) -> int:
        """Number of actions that the environment received, without those of ``prefix``."""
        return sum(turn.ran for turn in self.played_turns)

    @property
    def prefix_tokens(self) -> int:
        """Prompt tokens of the replayed turns and of the messages after them."""
        return sum(len(turn.action_ids) + len(turn.context_ids) for turn in self.prefix)

    @property
    def won(self) -> bool:
        return self.outcome is Outcome.WON

    @property
    def won_at_once(self) -> bool:
        """Return whether the first play was won."""
        return (self.plays or [self.outcome.value])[0] == Outcome.WON

    def muted(self, turn: Turn) -> int:
        """Return how many of a turn's first tokens are not trained on."""
        return 0 if self.trains_thoughts else turn.thought_tokens

    def versions(self, first: int = 0, last: int | None = None) -> tuple[int, int]:
        """Return the oldest and newest training step that sampled these turns (default: all)."""
        versions = [version for turn in self.turns[first:last] for version in turn.versions]
        return (min(versions), max(versions)) if versions else (self.policy_version, self.policy_version)

    def to_dict(self) -> dict[str, Any]:
        """Return the record. It shares the lists: ``dataclasses.asdict`` would copy every token."""
        record = _record(self)
        turns = {name: [_record(turn) for turn in record[name]] for name in ("turns", "prefix") if name in record}
        return record | turns

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Episode:
        turns = {name: [Turn(**turn) for turn in data.get(name, ())] for name in ("turns", "prefix")}
        return cls(**{**data, **turns, "outcome": Outcome(data["outcome"])})


@cache
def _recorded(kind: type) -> list[tuple[str, Any]]:
    """Return the names of the fields of a record, each with the value that it omits."""
    kept = [item for item in fields(kind) if item.metadata != NEVER]
    return [(item.name, MISSING if item.metadata == ALWAYS else _default(item)) for item in kept]


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _record(item: Any) -> dict[str, Any]:
    values = ((name, getattr(item, name), omitted) for name, omitted in _recorded(item.__class__))
    return {name: value for name, value, omitted in values if omitted is MISSING or value != omitted}
