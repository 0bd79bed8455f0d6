"""Beginning of an episode: its specification, and turns that precede the policy's first one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from turngrid.envs.environment import PromptStyle
from turngrid.envs.types import EnvError, Observation, StepResult, TaskRef
from turngrid.rewards.reward import Reward
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.prompt_forms.form import PromptForm, answered, listed, meaning, messages, messages_of
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.retrieval import Library
from turngrid.rollouts.roles import Roles
from turngrid.rollouts.sampling import request_id
from turngrid.rollouts.several import run_actions
from turngrid.rollouts.stream import assistant
from turngrid.rollouts.window import Summaries, View, Window


@dataclass(frozen=True)
class Branch:
    """The turns of sample ``parent`` that an episode begins with; ``observation`` followed."""

    parent: int
    turns: tuple[Turn, ...]
    observation: str


@dataclass(frozen=True)
class Followed:
    """An expert plan, whose actions the game runs whatever the policy answers.

    Attributes:
        patches: answers of an episode that the expert's may replace in what the policy sees next;
            below 0 for any number. The next one that differs ends the episode.
        same_after: an answer whose action leads to the same observation counts as the expert's.
    """

    actions: tuple[str, ...]
    patches: int
    same_after: bool

    def left(self, turns: Sequence[Turn]) -> bool:
        return self.patches < 0 or sum(bool(turn.patch) for turn in turns) < self.patches


@dataclass(frozen=True)
class Attempts:
    """The attempts of an episode: at most ``most``, each of at most ``turns`` turns.

    Attributes:
        feedback: precedes the game's first observation, which follows the end of an attempt.
        until_won: a won attempt is the last one.
    """

    most: int
    turns: int
    feedback: str
    until_won: bool

    def ended(self, episode: Episode, over: bool) -> bool:
        """Return whether the newest play has ended, given whether its game is over."""
        return over or sum(turn.attempt == len(episode.plays) for turn in episode.turns) >= self.turns

    def last(self, episode: Episode) -> bool:
        """Return whether no play follows the newest one, which has ended."""
        return len(episode.plays) + 1 == self.most or (self.until_won and episode.won)


@dataclass(frozen=True)
class EpisodeSpec:
    """A game, the limits of its episode, and which sample of its group this is.

    Args:
        max_turns: turns of the policy at most, those of ``branch`` included, ``prefix`` excluded.
        prompt: name of the group of samples; "" stands for the game's key.
        grade_unfinished: grade an episode that was cut off (``Environment.grades_unfinished``).
        window: how much of the episode the policy sees, or when it writes summaries; None: all.
        prefix: actions that are replayed before the policy's first turn.
        answers: the complete answers with the prefix's actions, which are read in them. If empty,
            they are those of a demonstration that ends with the prefix: no later action leaks.
        guidance: a line of the first message before the goal.
        named: further rewards to record, by name.
        void: ``unparsed`` or ``invalid`` (includes unparsed): such a turn ends the episode as lost.
        max_actions: actions of the policy at most, if an answer may have several.
        seat: the seat that the policy has in a game of several; "" in other games.
        opponent: who has the other seat: ``self`` (the policy), a scripted policy, ``past:STEP``
            (the policy as that training step left it), or ``endpoint``.
        both: if that is the policy itself, its episode is trained on too.
        library, roles: not used by text policies.
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
    max_actions: int | None = None
    followed: Followed | None = None
    attempts: Attempts | None = None
    seat: str = ""
    opponent: str = ""
    both: bool = True
    library: Library | None = None
    roles: Roles | None = None

    def actions_left(self, episode: Episode) -> int | None:
        """Return how many actions the episode may still run; None without such a limit."""
        return None if self.max_actions is None else max(0, self.max_actions - episode.actions_run)

    @property
    def group(self) -> str:
        """The name by which requests are seeded and cached: that of the prompt, and the seat."""
        return (self.prompt or self.task.key) + (f"#{self.seat}" if self.seat else "")

    @property
    def match(self) -> str:
        """The name that the episodes of both seats share; "" in games of one seat."""
        return replace(self, seat="").request_id if self.seat else ""

    @property
    def request_id(self) -> str:
        """The episode's id at the rollout servers."""
        return request_id(self.step, self.group, self.sample)

    def record(self, policy: str, goal: str) -> Episode:
        """Return the episode before its first message."""
        return Episode(
            task=self.task.key,
            seed=self.task.seed,
            split=self.task.split,
            goal=goal,
            messages=[],
            prompt_ids=[],
            turns=[],
            outcome=Outcome.OUT_OF_TURNS,
            sample=self.sample,
            step=self.step,
            policy=policy,
            guidance=self.guidance,
            trains_thoughts=self.form.train_thoughts,
            followed=self.followed is not None,
            seat=self.seat,
            match=self.match,
            opponent=self.opponent,
        )


class Session(Protocol):
    """One running game of an environment pool."""

    async def reset(self, task: TaskRef, seed: int) -> Observation: ...

    async def step(self, action: str) -> StepResult: ...

    async def finish(self) -> StepResult: ...

    async def close(self) -> None:
        """Return it to the pool."""


async def begin(session: Session, spec: EpisodeSpec, episode: Episode, view: View, opening: Observation) -> Observation:
    """Replay a prefix or a branch, if ``spec`` has one, and return the policy's first observation.

    If the game does not answer a branch's turns as before, the episode starts at the beginning.

    Raises:
        EnvError: the environment failed, or the game ended before the policy had a turn.
    """
    if spec.prefix:
        return await _after_prefix(session, spec, episode, view, opening)
    if spec.branch is None:
        return opening
    episode.parent = spec.branch.parent
    if (seen := await _retraced(session, spec.form, spec.branch, opening)) is None:
        return await session.reset(spec.task, spec.task.seed)
    _take_over(spec.form, spec.branch, seen, episode, view)
    return seen


async def _after_prefix(
    session: Session, spec: EpisodeSpec, episode: Episode, view: View, seen: Observation
) -> Observation:
    answers = spec.answers or _demonstrated(spec, episode.goal)
    for answer in answers:
        turn = _replayed(spec, answer, seen)
        result, turn.ran = await run_actions(session, spec.form, turn)
        if result.over:
            count = f"{len(episode.prefix) + 1} of the {len(answers)}"
            raise EnvError(f"{episode.task}: the game ended at replayed action {count}: {turn.action}")
        turn.valid, turn.score_delta, turn.info = result.valid, result.score_delta, dict(result.info)
        seen = answered(spec.form, turn.parsed and result.parsed, result)
        shown = messages(spec.form, seen)
        view.replay(turn, shown)
        episode.prefix.append(turn)
        episode.messages += [assistant(turn.response), *shown]
    episode.prompt_ids = view.prompt_ids
    return seen


def _demonstrated(spec: EpisodeSpec, goal: str) -> list[str]:
    """Return the answers of a demonstration of the prefix."""
    plan = spec.form.packed(spec.prefix)
    return [spec.form.demonstrate(goal, plan[number:], spec.style.functions) for number in range(len(plan))]


def _replayed(spec: EpisodeSpec, answer: str, seen: Observation) -> Turn:
    """Return the record of a replayed answer, before the environment's reply."""
    meant = meaning(spec.form, answer, spec.style.functions, apart=spec.style.names_one_action)
    return Turn(seen.text, sampled=False, admissible=listed(spec.form, seen), results=list(seen.results), **meant)


async def _retraced(session: Session, form: PromptForm, branch: Branch, seen: Observation) -> Observation | None:
    """Return the observation after the branch's turns, or None if the game answers differently."""
    for turn in branch.turns:
        if seen.text != turn.observation:
            return None
        result, _ = await run_actions(session, form, turn, turn.ran)
        if result.over:
            return None
        seen = answered(form, turn.parsed, result)
    return seen if seen.text == branch.observation else None


def _take_over(form: PromptForm, branch: Branch, seen: Observation, episode: Episode, view: View) -> None:
    """Append copies of the branch's turns, without their times and rewards.

    The window slides where it slid in the parent.
    """
    shown = [*(messages_of(form, turn) for turn in branch.turns), messages(form, seen)]
    for turn, before, after in zip(branch.turns, shown[:-1], shown[1:], strict=True):
        while turn.prompt_ids and view.prompt_ids != turn.prompt_ids and view.slide(before):
            pass
        taken = replace(turn, shared=True, rewards={}, info=dict(turn.info), act_seconds=0.0, env_seconds=0.0)
        episode.turns.append(taken)
        taken.context_ids = view.take(taken, after)
        episode.messages += [assistant(taken.response), *after]
