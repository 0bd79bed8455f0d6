"""What an episode is to be, before it is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envs.environment import PromptStyle
from envs.types import TaskRef
from rewards.reward import Reward
from rollouts.episode import Turn
from rollouts.prompt_forms.form import PromptForm
from rollouts.prompt_forms.plain import PLAIN_FORM
from rollouts.sampling import request_id
from rollouts.summaries import Summaries
from rollouts.window import Window


@dataclass(frozen=True)
class Branch:
    """An episode begins with these ``turns`` of the sample ``parent``, as they were sampled; ``seen`` is what followed them."""

    parent: int
    turns: tuple[Turn, ...]
    seen: str


@dataclass(frozen=True)
class EpisodeSpec:
    """Which game is played, for how long, and which of several samples this is.

    ``prompt`` names the group of samples: the game's key where it is played by one group only.
    ``grade_unfinished``: the environment grades an episode that was cut off (``Environment.grades_unfinished``).
    ``window``: how much of the episode the policy sees, or when it sums up what came before; None for all.
    ``prefix``: actions that are replayed before the policy's first turn; ``max_turns`` counts its own turns alone. ``said``: the whole
    answers in which these actions were given; () tells them as a demonstration that ends with them, so that no later action shows.
    ``guidance``: a line that the first message has before the goal.
    ``branch``: turns of another sample with which it begins; ``max_turns`` counts them.
    ``named``: further rewards to record, by name.
    ``void``: a turn of this kind ends it, lost: ``unparsed``, without an action, or ``invalid``, not understood either.
    ``form``: what the policy is told, and how its answers are read.
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
    said: tuple[str, ...] = ()
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
        """Under which rollout servers know the episode."""
        return request_id(self.step, self.group, self.sample)
