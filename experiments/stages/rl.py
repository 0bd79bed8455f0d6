"""The RL stage: verl's trainer in a separate process, and a progress bar that reads its files.

``health=rollback``: after an alarm, RL goes back to the checkpoint before it, with half the rate.
The trainer ends with an alarm whose action is ``rollback N``.
"""

import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict
from tqdm import tqdm

from turngrid.config import lora
from turngrid.envs.games.catalogue import cache_root
from turngrid.envs.utils import stacks
from turngrid.envs.utils.files import remove_folder
from turngrid.experiments.evaluation.stage import set_evaluation_aside
from turngrid.records.files import checkpoints
from turngrid.records.files.json_lines import append_line, read_lines, write_lines
from turngrid.records.health.alarms import ROLLBACK, STOP, Alarm, read_alarms
from turngrid.records.models.locate import resolve_model
from turngrid.records.process.child import StageFailed
from turngrid.records.process.exit_codes import say
from turngrid.records.resume import RlFolder, discard_beyond_checkpoint, turns_played
from turngrid.tasks.budget import Allocation
from turngrid.tasks.run import Run
from turngrid.tasks.splits import task_file, validates
from turngrid.tasks.stage_process import run_stage, tracked

PROCESS = "turngrid.verl_plugin.rl"
STARTING = "starting Ray, models and games"
FACTOR = 0.5  # of the learning rate, at each rollback
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 20.0  # between two states of the bar: each is a line of a log


def train(run: Run, allocation: Allocation, model: str) -> Path:
    """Train from ``model`` or from the last checkpoint; return the last checkpoint's model.

    Raises:
        StageFailed: the trainer's process failed, or ended too early.
    """
    rl, steps, rate = run.rl, allocation.steps, float(run.config.actor_rollout_ref.actor.optim.lr)
    going_on = True
    while going_on:
        if line := go_back(rl, rate):
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
    with closing(Progress(rl, allocation.steps, done, prompts, samples)) as bar:
        try:
            run_stage(run, "rl", PROCESS, [str(rl.config)], bar.update)
        except StageFailed:
            if asking(rl) is None:
                raise
            return True
        finally:
            stacks.tidy(run.folder / "logs" / "stacks")
    return False


def rl_config(run: Run, allocation: Allocation, model: str) -> DictConfig:
    """Return the config for verl's trainer, with this run's paths, seeds and length."""
    config, rl = run.config, run.rl
    paths = {name: str(getattr(rl, name)) for name in ("episodes", "metrics", "groups", "validation", "shared")}
    result = run.for_process(**paths, tracking=asdict(tracked(run, "rl")))
    with open_dict(result):
        result.actor_rollout_ref.model.path = model
        result.critic.model.path = model
        if teacher := OmegaConf.select(config, "algo.teacher"):
            result.actor_rollout_ref.teacher = resolve_model(str(teacher), cache_root())
        result.actor_rollout_ref.model.lora.merge = bool(config.model.lora_rank) and lora.merges(config)
        validation = "validation" if validates(run) else "train"  # verl wants a file
        result.data.train_files = str(task_file(run.folder, "train"))
        result.data.val_files = str(task_file(run.folder, validation))
        optim = result.actor_rollout_ref.actor.optim
        optim.lr = rate_after(rl, float(optim.lr))
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


# ---- going back after an alarm


@dataclass(frozen=True)
class Rollback:
    """One line of ``rl/rollbacks.jsonl``.

    Attributes:
        step, name: of the alarm.
        to: step of the checkpoint from which RL goes on; 0: the start of RL.
        rate: learning rate of the policy from then on.
    """

    step: int
    name: str
    to: int
    rate: float

    def __str__(self) -> str:
        back = f"the checkpoint of step {self.to}" if self.to else "the start of RL"
        return (
            f"health=rollback: {self.name} in step {self.step}: back to {back} with "
            f"actor_rollout_ref.actor.optim.lr={self.rate:g} (rl/rollbacks.jsonl)"
        )


def read_rollbacks(rl: RlFolder) -> list[Rollback]:
    return [Rollback(**line) for line in read_lines(rl.rollbacks)]


def rate_after(rl: RlFolder, rate: float) -> float:
    """Return the learning rate after the rollbacks so far."""
    return rate * FACTOR ** len(read_rollbacks(rl))


def asking(rl: RlFolder) -> Alarm | None:
    """Return the alarm that asks for a rollback that was not made yet."""
    return next((alarm for alarm in read_alarms(rl) if alarm.action.startswith(ROLLBACK)), None)


def go_back(rl: RlFolder, rate: float) -> str:
    """Roll back if an alarm asked for it; return a line for the user, or "".

    The checkpoint of an earlier rollback stays good. Alarms of dropped steps move with them. A kill
    amid this repeats it: these alarms are dropped last. ``rate`` is the config's.
    """
    alarm = asking(rl)
    if alarm is None:
        return ""
    number, made = int(alarm.action.split()[1]), read_rollbacks(rl)
    if len(made) < number:
        good = made[-1].to if made else 0
        to = checkpoints.newest(rl.checkpoints, before=max(alarm.since, good + 1))
        append_line(rl.rollbacks, Rollback(alarm.step, alarm.name, to, rate * FACTOR**number))
    last = read_rollbacks(rl)[-1]
    for step in (step for step in checkpoints.steps(rl.checkpoints) if step > last.to):
        remove_folder(checkpoints.folder_of(rl.checkpoints, step))
    discard_beyond_checkpoint(rl)
    raised = read_alarms(rl)
    write_lines(rl.last_attempt() / rl.alarms.name, [one for one in raised if one.step > last.to])
    write_lines(rl.alarms, [one for one in raised if one.step <= last.to])
    return str(last)


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
    """A progress bar of RL steps that shows what the trainer is doing, and each alarm above it."""

    def __init__(self, rl: RlFolder, steps: int, done: int, prompts: int, samples: int) -> None:
        self._rl, self._prompts, self._samples, self._done = rl, prompts, samples, done
        self._alarms = len(read_alarms(rl))  # those that an earlier attempt has shown
        self._size, self._won, self._shown_at = -1, "", 0.0
        self._pause = TERMINAL_SECONDS if sys.stderr.isatty() else LOG_SECONDS
        self._bar = tqdm(total=steps, initial=done, desc="RL", unit="step")

    def update(self) -> None:
        """Read the files again; called a few times a second."""
        self._count_steps()
        self._show_alarms()
        if time.monotonic() - self._shown_at < self._pause:
            return
        ended, whole = int(self._bar.n), self._bar.total
        first = ended == self._done
        phase = doing(self._rl, ended + 1, first, self._prompts, self._samples) if ended < whole else ""
        self._shown_at = time.monotonic()
        self._bar.set_postfix_str(", ".join(filter(None, [phase, self._won])))

    def _show_alarms(self) -> None:
        raised = read_alarms(self._rl)
        for alarm in raised[self._alarms :]:
            if alarm.action != STOP:  # else the run's failure has it
                with tqdm.external_write_mode(file=sys.stderr):
                    say(f"alarm: {alarm}")
        self._alarms = len(raised)

    def _count_steps(self) -> None:
        metrics = self._rl.metrics
        size = metrics.stat().st_size if metrics.exists() else 0
        if size == self._size:
            return
        self._size = size
        for line in read_lines(metrics):
            if name := next((name for name in sorted(line) if name.startswith("success/train")), ""):
                self._won = f"won {line[name]:.0%} in step {line['step']}"
            self._bar.update(max(0, line["step"] - self._bar.n))  # a resumed run reads its first steps too

    def close(self) -> None:
        self._bar.set_postfix_str(self._won)
        self._bar.close()
