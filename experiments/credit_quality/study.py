"""The games of a study: choose them, and measure what is missing with a policy of any kind."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from omegaconf import OmegaConf

from turngrid.config import precision
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import EnvError, TaskRef
from turngrid.envs.utils.bar import ticking_bar
from turngrid.envs.utils.names import file_name
from turngrid.experiments.credit_quality.game import GameTree, MeasuredGame, Measurement, Rollouts
from turngrid.experiments.evaluation.policies import PolicyRef
from turngrid.records.process.exit_codes import Refusal, say
from turngrid.records.run_folder import OUTPUT_KEYS
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.lockstep import LockstepBatch, Slot
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import Policy, RandomPolicy, Reply, TurnContext, one_of
from turngrid.rollouts.prompt_forms.registry import non_default
from turngrid.rollouts.sampling import Sample, SampleRequest, SamplingParams
from turngrid.tasks.evaluation_sets import evaluation_settings, prepare_evaluation_sets
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks

if TYPE_CHECKING:
    from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules

Work = Callable[[Measurement, MeasuredGame], Coroutine[Any, Any, None]]
LOW, HIGH = 0.1, 0.9  # share of a suitable game's screening episodes that is won


@dataclass(frozen=True)
class Size:
    """Size of a study.

    Attributes:
        screen: number of separate screening episodes. A game is taken if the share of them that is
            won is from ``LOW`` to ``HIGH``. 0 takes any game.
    """

    tasks: int  # number of games
    samples: int  # episodes of each game
    k: int  # continuations of every prefix
    screen: int

    def takes(self, game: MeasuredGame) -> bool:
        won = [episode.won for episode in game.screened[: self.screen]]
        return not self.screen or (len(won) == self.screen and LOW <= sum(won) / len(won) <= HIGH)


@dataclass(frozen=True)
class Study:
    """A policy on the test games of a config, whose measurements are kept in ``run.folder``."""

    run: Run
    policy: PolicyRef
    noise: float  # probability of a random action of the expert

    @cached_property
    def rollouts(self) -> Rollouts:
        policy, seed = self.policy, self.run.seed
        if policy.kind == "expert":
            return partial(in_text, NoisyExpert(self.noise, seed))
        if policy.kind == "random":
            return partial(in_text, RandomPolicy(seed))
        import torch  # this and the next import take seconds

        from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules

        torch.set_num_threads(1)  # more threads do not speed up small models and slow a busy machine down
        config, rollout = self.run.config, self.run.config.actor_rollout_ref.rollout
        dtype = precision.dtype(config, policy.path)
        model = LoadedModel(policy.path, config.trainer.device, policy.chat, self.run.prompt.marks, dtype)
        params = SamplingParams(rollout.temperature, config.env.max_action_tokens, rollout.top_p, rollout.top_k)
        return ModelRollouts(model, Rules(params, self.run.limit(model.context), seed))

    @cached_property
    def games(self) -> Sequence[TaskRef]:
        """Return the test games, in their order."""
        prepare_evaluation_sets(self.run, also_own=True)
        return read_tasks(Path(evaluation_settings(self.run)[0].evaluation_set.file))

    def file(self, task: TaskRef) -> Path:
        return self.run.folder / "games" / f"{task.seed}-{task.sha256[:8]}.json"

    def read(self, task: TaskRef) -> MeasuredGame:
        return MeasuredGame.read(self.file(task), task.key)

    def measured(self, size: Size) -> list[MeasuredGame]:
        """Run the missing measurements and return the games.

        Raises:
            Refusal: too few games are suitable, or the environment is not deterministic.
        """
        tasks = self._screened(size)
        unmeasured = [task for task in tasks if not self.read(task).known(size.samples, size.k)]
        if unmeasured:
            say(f"{len(unmeasured)} games x {size.samples} samples, {size.k} continuations of each prefix")
        self._each("measure", unmeasured, lambda one, game: one.measure(game, size.samples, size.k))
        return [self.read(task) for task in tasks]

    def _screened(self, size: Size) -> list[TaskRef]:
        """Return the first suitable games."""
        step, taken = 2 * size.tasks if size.screen else size.tasks, []
        for first in range(0, len(self.games), step):
            part = self.games[first : first + step]
            unscreened = [task for task in part if len(self.read(task).screened) < size.screen]
            self._each("screen", unscreened, lambda one, game: one.screen(game, size.screen))
            taken += [task for task in part if size.takes(self.read(task))]
            if len(taken) >= size.tasks:
                return taken[: size.tasks]
        raise Refusal(
            f"tasks={size.tasks}: of {len(self.games)} games only {len(taken)} were won in {LOW:.0%} to {HIGH:.0%} of "
            f"{size.screen} other episodes; use a smaller tasks=, a larger eval.games=, or screen=0"
        )

    def _each(self, what: str, tasks: Sequence[TaskRef], work: Work) -> None:
        """Do the work on each game with its ``Measurement``, and save the game."""
        with ticking_bar(total=len(tasks), desc=what, unit="game", disable=not tasks) as bar:
            for task in tasks:
                spec = self.run.spec(task, self.run.max_turns)
                measurement = Measurement(self.rollouts, self._make, spec, self.run.reward.name)
                game = self.read(task)
                asyncio.run(work(measurement, game))
                game.write(self.file(task))
                bar.update()

    def _make(self) -> TextEnv:
        legal = self.policy.kind != "checkpoint" or self.run.prompt.admissible
        return self.run.environment.new_env(legal=legal, expert=self.policy.kind == "expert")


def study_of(run: Run, policy: PolicyRef, noise: float) -> Study:
    """Return the study of a policy; equal policies, games and settings share a folder."""
    node: Any = OmegaConf.to_container(run.config, resolve=True)
    outside = {key.removeprefix("env.") for key in OUTPUT_KEYS}
    identity = {
        "version": run.environment.version,
        "env": {key: value for key, value in node["env"].items() if key not in outside},
        "reward": node["turn_reward"],
        "rollout": {key: node["actor_rollout_ref"]["rollout"][key] for key in ("temperature", "top_p", "top_k")},
        "lengths": [node["data"][key] for key in ("max_prompt_length", "max_response_length")],
        "prompt": non_default(node["prompt"]),
        "seed": node["seed"],
        "noise": noise,
    }
    identity |= {"precision": node["precision"]} if node["precision"] != precision.AUTO else {}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    name = file_name(f"{node['env']['name']}-{node['env']['task']}-{policy.name}-{digest}")
    folder = (Path(node["output_dir"]).expanduser() / "credit_quality" / name).absolute()
    return Study(replace(run, folder=folder), policy, noise)


async def in_text(policy: Policy, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
    """Run episodes of a policy that answers in text."""
    episodes = [await run_episode(policy, await tree.open(), spec, None) for spec in specs]
    for episode in episodes:  # one action token a turn, for methods to credit, and one context token
        episode.turns = [replace(turn, action_ids=[0], context_ids=[0]) for turn in episode.turns]
    return episodes


@dataclass(frozen=True)
class NoisyExpert:
    """Follow the observation's expert plan; if it has none, the game's plan at this turn.

    With probability ``noise``, or if there is no plan, draw from the legal commands.
    """

    noise: float
    run_seed: int
    name: str = "expert"

    async def act(self, context: TurnContext) -> Reply:
        plan = context.observation.expert or context.task.expert_plan[context.acted :]
        draw = Random(context.seed(self.run_seed))
        if draw.random() >= self.noise and plan:
            return Reply(text=plan[0], plan=plan)
        return one_of(sorted(context.observation.legal), context, draw)


class ModelRollouts:
    """A model that runs all episodes of a call at once, and remembers its answers to a game.

    A request's seed is derived from its episode and turn, and a batch holds the requests of one
    game. So results do not depend on which games were measured before.
    """

    def __init__(self, model: LoadedModel, rules: Rules) -> None:
        self.model, self.rules = model, rules
        self._tree: GameTree | None = None  # the game of the answers
        self._answers: dict[tuple[bytes, int], Sample] = {}  # by prompt and seed

    async def __call__(self, specs: Sequence[EpisodeSpec], tree: GameTree) -> list[Episode]:
        if tree is not self._tree:
            self._tree, self._answers = tree, {}
        lockstep = LockstepBatch(len(specs), self._answer)
        episodes = await asyncio.gather(*(self._one(spec, lockstep.slot(i), tree) for i, spec in enumerate(specs)))
        if failed := next((episode for episode in episodes if episode.outcome is Outcome.ERROR), None):
            raise EnvError(f"{failed.task}: {failed.error}")
        return list(episodes)

    async def _one(self, spec: EpisodeSpec, slot: Slot, tree: GameTree) -> Episode:
        from turngrid.verl_plugin.rollout.local_rollouts import play_one

        sessions: Any = tree  # opens sessions, as a pool does
        async with slot:
            return await play_one(self.model.codec, spec, slot, self.rules, sessions, lambda: None)

    async def _answer(self, requests: list[SampleRequest]) -> list[Sample]:
        keys = [(np.asarray(request.prompt_ids, dtype=np.int32).tobytes(), request.seed) for request in requests]
        new = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._answers}
        if new:
            self._answers |= zip(new, await self.model([*new.values()]), strict=True)
        return [self._answers[key] for key in keys]
