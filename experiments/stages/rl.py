"""The RL stage: verl's trainer in a separate process, and a progress bar that reads its files."""

import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from tqdm import tqdm

from turngrid.config import lora
from turngrid.envs.games.catalogue import cache_root
from turngrid.envs.utils import stacks
from turngrid.experiments.evaluation.stage import set_evaluation_aside
from turngrid.experiments.stages import rollback
from turngrid.records.health.raising import NewAlarms
from turngrid.records.metrics import read_metrics
from turngrid.records.models.locate import resolve_model
from turngrid.records.process.child import StageFailed, run_stage
from turngrid.records.process.exit_codes import say
from turngrid.records.resume import RlFolder, discard_beyond_checkpoint, turns_played
from turngrid.tasks.budget import Allocation
from turngrid.tasks.run import Run
from turngrid.tasks.splits import task_file, validates

PROCESS = "turngrid.verl_plugin.rl"
STARTING = "starting Ray, models and games"
IN_A_ROW = 3  # length of a streak without signal that is reported
SHARE, LOW, HIGH = "credit/groups_without_signal", "reward/trained/min", "reward/trained/max"
ADVICE = (
    "an easier env.task, a larger actor_rollout_ref.rollout.n, more demonstrations for SFT (budget.sft_share), "
    "another reward or filter=[dynamic_sampling]"
)
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 20.0  # between two states of the bar: each is a line of a log


def train(run: Run, allocation: Allocation, model: str) -> Path:
    """Train from ``model`` or from the last checkpoint; return the last checkpoint's model.

    Raises:
        StageFailed: the trainer's process failed, or ended too early.
    """
    rl, steps, rate = run.rl, allocation.steps, float(run.config.actor_rollout_ref.actor.optim.lr)
    going_on = True
    while going_on:
        if line := rollback.go_back(rl, rate):
            say(line)
        going_on = _attempt(run, allocation, model)
    if rl.saved_step() < steps:
        log = run.folder / "logs" / "rl.log"
        raise StageFailed(f"the trainer stopped after step {rl.saved_step()} of {steps}; see {log}")
    return rl.model(steps)


def _attempt(run: Run, allocation: Allocation, model: str) -> bool:
    """Train until the end or an alarm; return whether it was one after which RL goes back."""
    rl, config = run.rl, run.config
    done = discard_beyond_checkpoint(rl)
    rl.root.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(rl_config(run, allocation, model), rl.config)
    if done >= allocation.steps:
        return False
    set_evaluation_aside(run.folder, "rl*")
    prompts, samples = int(config.data.train_batch_size), int(config.actor_rollout_ref.rollout.n)
    with closing(Progress(rl, allocation.steps, done, prompts, samples, run.algorithm.needs_group)) as bar:
        try:
            run_stage(config, run.folder, "rl", PROCESS, [str(rl.config)], bar.update)
        except StageFailed:
            if not rollback.is_asked(rl):
                raise
            return True
        finally:
            stacks.tidy(run.folder / "logs" / "stacks")
    return False


def rl_config(run: Run, allocation: Allocation, model: str) -> DictConfig:
    """Return the config for verl's trainer, with this run's paths, seeds and length."""
    config, rl = run.config, run.rl
    paths = {name: str(getattr(rl, name)) for name in ("episodes", "metrics", "groups", "validation", "shared")}
    result = run.for_process(**paths, tracking=run.tracked("rl").node())
    with open_dict(result):
        result.actor_rollout_ref.model.path = model
        result.critic.model.path = model
        if teacher := OmegaConf.select(config, "algo.teacher"):
            result.actor_rollout_ref.teacher = resolve_model(str(teacher), cache_root())
        result.actor_rollout_ref.model.lora.merge = bool(config.model.lora_rank) and lora.merges(config)
        validation = "validation" if validates(config) else "train"  # verl wants a file
        result.data.train_files = str(task_file(run.folder, "train"))
        result.data.val_files = str(task_file(run.folder, validation))
        optim = result.actor_rollout_ref.actor.optim
        optim.lr = rollback.rate_after(rl, float(optim.lr))
        result.trainer.total_training_steps = allocation.steps
        # More epochs than the steps need, since verl stops at whichever limit comes first. An epoch
        # has only whole batches, in a new order, so a game that one epoch leaves out is in another.
        batches = max(1, allocation.games // int(config.data.train_batch_size))
        result.trainer.total_epochs = -(-allocation.steps // batches) + 1
        result.trainer.default_local_dir = str(rl.checkpoints)
        result.trainer.experiment_name = run.folder.name
        for node in (result.data, result.actor_rollout_ref.rollout):
            node.seed = config.seed
        for node in (result.actor_rollout_ref.actor, result.critic):
            node.data_loader_seed = config.seed
    return result


# ---- steps without signal


def streaks_without_signal(lines: Iterable[Mapping[str, Any]], of_groups: bool) -> list[list[int]]:
    """Return the streaks of steps without signal: all compared episodes had the same reward.

    The last streak is empty if the last step had signal. Lines without these metrics are skipped,
    such as that of a validation before the first step.

    Args:
        of_groups: whether the samples of a prompt are compared, not all episodes of a step.
    """
    streaks: list[list[int]] = [[]]
    for line in lines:
        if not all(name in line for name in ((SHARE,) if of_groups else (LOW, HIGH))):
            continue
        if line[SHARE] == 1 if of_groups else line[LOW] == line[HIGH]:
            streaks[-1].append(line["step"])
        else:
            streaks.append([])
    return streaks


def no_signal(lines: Iterable[Mapping[str, Any]], of_groups: bool) -> str:
    """Report the longest streak without signal and what to try; "" without a long one."""
    longest = max(streaks_without_signal(lines, of_groups), key=len)
    if len(longest) < IN_A_ROW:
        return ""
    compared = "samples of each prompt" if of_groups else "episodes of a step"
    return (
        f"in steps {longest[0]} to {longest[-1]} all {compared} scored alike, so RL had little or nothing to "
        f"learn from; try {ADVICE}"
    )


# ---- progress


def doing(rl: RlFolder, step: int, first: bool, prompts: int, samples: int) -> str:
    """Describe what the trainer is doing. A prompt's samples are written when all have ended."""
    folder = rl.episodes / f"{step:06d}"
    if (validated := rl.validation / folder.name).exists():
        return f"validating: {len(list(validated.glob('*.jsonl')))} games{_turns(validated)} played"
    if not folder.exists():
        return STARTING if first and not rl.step_episodes(step).exists() else "between two steps"
    if rl.groups.exists():
        return f"playing and learning{_turns(rl.groups)}"
    played = samples * len(list(folder.glob("*.jsonl")))
    if played < prompts * samples:
        return f"playing: {played} of {prompts * samples} episodes{_turns(folder)}"
    return f"learning from {played} episodes"


def _turns(folder: Path) -> str:
    """Return the turns so far, including those of episodes that have not ended."""
    turns = turns_played(folder)
    return f", {turns:,} turns" if turns else ""


class Progress:
    """A progress bar of RL steps that shows what the trainer is doing.

    If several steps in a row had no signal, the bar shows it. Each alarm is a line above the bar.
    """

    def __init__(
        self,
        rl: RlFolder,
        steps: int,
        done: int,
        prompts: int,
        samples: int,
        of_groups: bool,
    ) -> None:
        self._rl, self._prompts, self._samples, self._of_groups = rl, prompts, samples, of_groups
        self._new_alarms = NewAlarms(rl.alarms)
        self._done = done
        self._size, self._won, self._shown_at = -1, "", 0.0
        self._flat = ""
        self._pause = TERMINAL_SECONDS if sys.stderr.isatty() else LOG_SECONDS
        self._bar = tqdm(total=steps, initial=done, desc="RL", unit="step")

    def update(self) -> None:
        """Read the files again; called a few times a second."""
        self._count_steps()
        for alarm in self._new_alarms():
            if not alarm.action:  # else the attempt ends with it
                with tqdm.external_write_mode(file=sys.stderr):
                    say(f"alarm: {alarm}")
        if time.monotonic() - self._shown_at < self._pause:
            return
        ended, whole = int(self._bar.n), self._bar.total
        first = ended == self._done
        phase = doing(self._rl, ended + 1, first, self._prompts, self._samples) if ended < whole else ""
        self._shown_at = time.monotonic()
        self._bar.set_postfix_str(", ".join(filter(None, [phase, self._won, self._flat])))

    def _count_steps(self) -> None:
        metrics = self._rl.metrics
        size = metrics.stat().st_size if metrics.exists() else 0
        if size == self._size:
            return
        self._size = size
        lines = list(read_metrics(metrics))
        named = (
            (line, next((name for name in sorted(line) if name.startswith("success/train")), "")) for line in lines
        )
        shares = [(line["step"], line[name]) for line, name in named if name]
        if shares:
            step, share = shares[-1]
            self._won = f"won {share:.0%} in step {step}"
            self._bar.update(step - self._bar.n)
        flat = len(streaks_without_signal(lines, self._of_groups)[-1])
        self._flat = f"no signal for {flat} steps" if flat >= IN_A_ROW else ""

    def close(self) -> None:
        self._bar.set_postfix_str(", ".join(filter(None, [self._won, self._flat])))
        self._bar.close()
