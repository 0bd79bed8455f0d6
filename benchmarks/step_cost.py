"""Cost of a step with each choice of methods: CPU seconds of all processes of one run, which
takes the choices in turns.

    python -m benchmarks.step_cost [--rounds 5] [--with KEY=VALUE ...] CHOICE CHOICE ...
    python -m benchmarks.step_cost algo=grpo algo=aem "algo=grpo loss=clip_cov"
    python -m benchmarks.step_cost "algo=grpo every_row" algo=mt_grpo

The others are compared with the first choice. With ``every_row`` an update also computes the rows
without an advantage.

Every step samples the same games with the same seeds and leaves the policy as it is, so that steps
differ in nothing but the choice. That may be of whatever a trainer and its agent loops read anew:
methods of a step and estimators over the same critic, not rollout forms that need other games, or
sizes. Idle processes count too, as does the log; changing the choice does not. A figure is the
median over the rounds, each compared with the mean of the two steps that the first choice has in
its round.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any, ClassVar
from unittest.mock import patch

import benchmarks.ray_on_cpu  # noqa: F401 - before all that read it
from turngrid.tasks.run import Run

# isort: split
from omegaconf import DictConfig, OmegaConf
from tensordict import NonTensorData, NonTensorStack
from verl.utils.config import omega_conf_to_dataclass

from benchmarks.against import Watched
from turngrid import verl_plugin  # noqa: F401 - registers ours
from turngrid.config.compose import composer
from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.stages.rl import rl_config
from turngrid.records.models.locate import resolve_model
from turngrid.records.resume import RlFolder
from turngrid.tasks.splits import prepare_tasks
from turngrid.tasks.stage_process import stage_variables
from turngrid.verl_plugin import rl
from turngrid.verl_plugin.rollout.agent_loop import TurngridAgentLoop
from turngrid.verl_plugin.training import task, zero_advantages

NO_LEARNING = 1e-12  # x Adam's step of about 1: nothing in float32
EVERY_ROW = "every_row"  # in a choice
SHORT = ("model=tiny", "budget=rl_only", "eval.games=1", f"actor_rollout_ref.actor.optim.lr={NO_LEARNING}")


def loss(config: Any, **given: Any) -> Any:
    """Return verl's loss, as the trainer's process has it."""
    from verl.workers.utils.losses import ppo_loss

    return ppo_loss(config=config, **given)


def same_seeds() -> None:
    """Sample every step with the seeds of the first."""
    from turngrid.rollouts import policy

    usual = policy.request_seed

    def seed(run: int, step: int, prompt: str, sample: int, turn: int) -> int:
        return usual(run, 1, prompt.partition("-")[2], sample, turn)

    policy.request_seed = seed


class InTurns(task.TurngridTrainer):
    """Measures steps; one begins when the one before has been logged."""

    configs: ClassVar[dict[str, DictConfig]] = {}
    order: ClassVar[list[str]] = []
    spent: ClassVar[list[float]] = []  # CPU seconds of each step but the last
    _watched: Watched | None = None
    _began = 0.0
    _games: Sequence[str] = ()

    def on_step_begin(self) -> None:
        if self._watched:
            self.spent.append(self._watched.sample() - self._began)
            print(f"step {len(self.spent)}: {self.order[len(self.spent) - 1]}: {self.spent[-1]:.2f} CPU s", flush=True)
        choice = self.order[self.global_steps - 1]
        zero_advantages.NEEDS_ALL_ROWS[EVERY_ROW] = lambda _: EVERY_ROW in choice.split()
        self._take(self.configs[choice])
        self._watched = self._watched or Watched(os.getpid())
        self._began = self._watched.sample()
        super().on_step_begin()

    def _take(self, config: DictConfig) -> None:
        config.data = self.config.data  # in which verl has written something
        self.config = config
        self.make_parts()
        self.actor_rollout_wg.set_loss_fn(partial(loss, config=omega_conf_to_dataclass(config.actor_rollout_ref.actor)))
        worker = self.agent_loop_manager.worker  # the only one, in this process
        before = worker.loop
        worker.config, worker.loop = config, TurngridAgentLoop(config, before.codec.tokenizer, None)
        worker.loop.codec, worker.loop.pool = before.codec, before.pool
        if not self._watched:
            same_seeds()

    def _next_train_batch(self, num_prompts: int | None = None) -> Any:
        batch = super()._next_train_batch(num_prompts)
        self._games = self._games or list(batch["task"])
        batch["task"] = NonTensorStack.from_list([NonTensorData(game) for game in self._games])
        return batch


def rounds(choices: Sequence[str], count: int) -> list[list[str]]:
    """Return rounds of the choices, the first one twice, each in a random order."""
    once = [choices[0], *choices]
    return [Random(number).sample(once, len(once)) for number in range(count)]


def composed(choices: Sequence[str], steps: int, more: Sequence[str], folder: Path) -> dict[str, DictConfig]:
    """Return the config of each choice, and the games of all."""
    found = {}
    with composer() as compose:
        for choice in choices:
            config = compose([*SHORT, f"budget.rl_steps={steps}", *more, *choice.replace(EVERY_ROW, "").split()])
            config.budget.units = config.data.train_batch_size
            found[choice] = Run(config, folder)
    first = found[choices[0]]
    (folder / "tasks").mkdir(parents=True)
    prepare_tasks(first)
    os.environ |= stage_variables(first)
    model = resolve_model(first.config.model.path, cache_root())
    return {choice: rl_config(run, first.allocation, model) for choice, run in found.items()}


def measured(choices: Sequence[str], count: int, more: Sequence[str], folder: Path) -> list[dict[str, float]]:
    """Return the CPU seconds of a step in each round, by choice."""
    dealt = rounds(choices, count)
    InTurns.order = [choices[0], *chain.from_iterable(dealt), choices[0]]
    InTurns.configs = composed(choices, len(InTurns.order), more, folder)
    file = RlFolder(folder).config
    file.parent.mkdir(parents=True)
    OmegaConf.save(InTurns.configs[choices[0]], file)
    with patch.dict(task.TRAINERS, sync=InTurns):
        rl.main(file)
    spent = iter(InTurns.spent[1:])
    taken = [[(name, next(spent)) for name in one] for one in dealt]
    return [{name: mean(cpu for other, cpu in one if other == name) for name in choices} for one in taken]


def table(choices: Sequence[str], found: Sequence[dict[str, float]]) -> str:
    lines = [f"{'':44}{'CPU s':>8}{'ratio':>8}   of the rounds"]
    for name in choices:
        ratios = sorted(one[name] / one[choices[0]] for one in found)
        each = " ".join(f"{ratio:.3f}" for ratio in ratios)
        lines.append(f"{name:44}{median(one[name] for one in found):8.2f}{median(ratios):8.3f}   {each}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choices", nargs="+", metavar="CHOICE", help="overrides, several in quotes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--with", dest="more", action="append", default=[], help="an override for all choices")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(options.choices, options.rounds, options.more, Path(folder) / "run")
    print(table(options.choices, found), flush=True)


if __name__ == "__main__":
    main()
