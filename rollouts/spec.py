"""The specification of an episode before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envs.environment import PromptStyle
from envs.types import TaskRef
from rewards.reward import Reward
from rollouts.episode import Turn
from rollouts.prompt_forms.form import PLAIN_FORM, PromptForm
from rollouts.sampling import request_id
from rollouts.summaries import Summaries
from rollouts.window import Window


@dataclass(frozen=True)
class Branch:
    """The ``turns`` of sample ``parent`` that an episode begins with; ``observation`` followed them."""

    parent: int
    turns: tuple[Turn, ...]
    observation: str


@dataclass(frozen=True)
class EpisodeSpec:
    """A game, the limits of its episode, and which sample of its group this is.

    Args:
        max_turns: turns of the policy at most, those of ``branch`` included, ``prefix`` excluded.
        reward: the chosen reward.
        prompt: name of the group of samples; "" stands for the game's key.
        grade_unfinished: grade an episode that was cut off (``Environment.grades_unfinished``).
        window: how much of the episode the policy sees, or when it writes summaries; None: all.
        prefix: actions that are replayed before the policy's first turn.
        answers: the complete answers that contained the prefix's actions. If empty, they are
            generated as a demonstration that ends with the prefix, so later actions do not leak.
        guidance: a line of the first message before the goal.
        branch: turns of another sample that the episode begins with.
        named: further rewards to record, by name.
        void: ``unparsed`` or ``invalid`` (includes unparsed): such a turn ends the episode as lost.
        form: builds the messages and reads the answers.
    """

    task: TaskRef
    style: PromptStyle
    max_turns: int
    reward: Reward | None = None
    sample: int = 0
    step: int = 0
    prompt: str = ""
    grade_unfinished: bool = False
    window: Window | Summaries | None = None
    prefix: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    guidance: str = ""
    branch: Branch | None = None
    named: Mapping[str, Reward] = field(default_factory=dict)
    void: str = ""
    form: PromptForm = PLAIN_FORM

    @property
    def group(self) -> str:
        return self.prompt or self.task.key

    @property
    def request_id(self) -> str:
        """The episode's id at the rollout servers."""
        return request_id(self.step, self.group, self.sample)
