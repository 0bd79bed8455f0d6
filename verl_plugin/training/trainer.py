"""verl's trainer, made resumable, and repeatable where it is synchronous (``async_trainer`` has the other modes).

What differs from the stock one, and why:
- prompt ids derive from (step, index) and rows are sorted by (id, sample): verl's are random, in order of arrival;
- metrics go to our own append-only log, under our names, before the checkpoint of their step is written, so that a killed
  run can go on from any checkpoint with each step logged once; trackers follow that log;
- a step's episodes are gathered into one file;
- an environment that fails again and again ends the run instead of refilling for ever.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig
from tensordict import NonTensorData, NonTensorStack
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from records.files import checkpoints
from records.metric_names import in_families
from records.metrics import MetricsLog
from records.process.exit_codes import Failure
from records.step_metrics import step_metrics, validation_metrics
from rollouts.episode import Episode
from rollouts.store import read_episodes, write_episodes
from verl_plugin.rollout.llm_client import KeptRoutes
from verl_plugin.training import start_watchdog, tracking, zero_advantages
from verl_plugin.training.credit_log import CreditLog
from verl_plugin.training.running_total import RunningTotal
from verl_plugin.training.step_methods import Methods

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Base
else:
    Base = object

MAX_FAILED_GROUPS = 3  # times the batch, in one step


class EnvironmentKeepsFailing(Failure):
    """So many groups failed in one step that refilling them is hopeless."""


class StepRecords(CreditLog, Methods, Base):
    """Mixed into verl's trainer, whatever its mode: what a step leaves behind."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._prompts_of_step = 0
        self._save_due = False
        self._save_seconds: float | None = None
        self._started = time.perf_counter()

    # ---- reproducible batches

    def _init_dataloader(self) -> None:
        """verl divides by the steps of an epoch: 0 where a step has more prompts than there are games."""
        super()._init_dataloader()
        self.steps_per_epoch = max(1, self.steps_per_epoch)

    def _next_train_batch(self, num_prompts: int | None = None) -> Any:
        batch = super()._next_train_batch(num_prompts)
        self._guard_against_endless_refills()
        return batch

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        count = len(batch["uid"])
        first = self._prompts_of_step
        self._prompts_of_step += count
        uids = [prompt_id(self.global_steps, first + offset) for offset in range(count)]
        batch["uid"] = NonTensorStack.from_list([NonTensorData(uid) for uid in uids])
        return batch

    def _handed_out(self) -> int:
        """Prompts that have this step's number before it begins."""
        return 0

    def on_step_begin(self) -> None:
        self._prompts_of_step = self._handed_out()
        self._step_folder().mkdir(parents=True, exist_ok=True)  # whoever watches the folder sees that the step began
        super().on_step_begin()

    def _guard_against_endless_refills(self) -> None:
        batch = self.config.data.train_batch_size
        refilled = self._prompts_of_step - batch - getattr(self.replay_buffer, "replaced", 0)  # by dynamic sampling
        if refilled <= MAX_FAILED_GROUPS * batch:
            return
        causes = self._failures()
        last = causes[-1].read_text(encoding="utf-8").strip() if causes else "no cause recorded"
        raise EnvironmentKeepsFailing(
            f"step {self.global_steps}: {refilled} groups failed and were refilled; the last one:\n{last}"
        )

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        """Rows in order of (prompt, sample) first; what verl does after that depends on nothing else."""
        batch.reorder(sorted(range(len(batch.keys)), key=lambda row: row_order(batch.keys[row])))
        return super()._balance_batch(batch, metrics, **kwargs)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch.extra_info[zero_advantages.KEY] = zero_advantages.may_be_left_out(self.config)
        return super()._update_actor(batch, metrics)

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """With LoRA the actor without its adapter is the reference; the critic, which is asked next, has no adapter."""
        batch = super()._compute_ref_log_prob(batch, metrics)
        batch.extra_info.pop("no_lora_adapter", None)
        return batch

    # ---- log, then save

    def on_train_begin(self) -> None:
        start_watchdog.step_began()
        super().on_train_begin()
        self.logger = _LogThenSave(self, self.logger)

    def _save_checkpoint(self) -> None:
        """Only noted here: verl saves before it logs, and a kill between the two would lose the step's metrics."""
        self._save_due = True

    def after_log(self) -> None:
        if not self._save_due:
            return
        self._save_due, start = False, time.perf_counter()
        super()._save_checkpoint()
        checkpoints.seal_newest(Path(self.config.trainer.default_local_dir), self.global_steps)
        self._save_seconds = time.perf_counter() - start
        self.checkpoint_is_whole()

    def checkpoint_is_whole(self) -> None:
        self.logger.keep(self.global_steps)

    def clocks(self) -> dict[str, float]:
        """Seconds since the process began; and of the checkpoint that was written since the step before was logged, for which
        verl timed only ``_save_checkpoint`` above."""
        saved, self._save_seconds = self._save_seconds, None
        clocks = {"timing/since_start": time.perf_counter() - self._started}
        return clocks if saved is None else {**clocks, "timing/save_checkpoint": saved}

    # ---- episodes

    def _validate(self) -> dict[str, float]:
        """verl's figures, and ours read off the episodes."""
        found = super()._validate()
        folder = Path(self.config.run.validation) / f"{self.global_steps:06d}"
        episodes = [episode for file in sorted(folder.glob("*.jsonl")) for episode in read_episodes(file)]
        write_episodes(folder.with_suffix(".jsonl"), episodes)
        shutil.rmtree(folder, ignore_errors=True)
        return {**found, **validation_metrics(episodes, int(self.config.actor_rollout_ref.rollout.val_kwargs.n))}

    def _step_folder(self) -> Path:
        return Path(self.config.run.episodes) / f"{self.global_steps:06d}"

    def gather_episodes(self) -> dict[str, float]:
        """Merge the groups' files into one a step; returns what they tell as metrics."""
        folder = self._step_folder()
        files = self._groups_of_step()
        groups = [list(read_episodes(file)) for file in files]
        failed = len(self._failures())
        self.write_credit(folder, files)
        write_episodes(folder.with_suffix(".jsonl"), [episode for group in groups for episode in group])
        shutil.rmtree(folder)
        replayed = {name.rpartition("_")[0] for name in self._replaced}
        mended = [number for number, file in enumerate(files) if file.stem in replayed]
        metrics = step_metrics(groups, self.config.turn_reward.name, mended)
        return {**metrics, "rollout/failed_groups": float(failed), **self._more_metrics(groups)}

    def _groups_of_step(self) -> list[Path]:
        """Files of the groups that the step trained on."""
        return sorted(self._step_folder().glob("*.jsonl"))

    def _failures(self) -> list[Path]:
        """What groups of this step left that could not be played to their end."""
        return sorted(self._step_folder().glob("*.failed"))

    def _more_metrics(self, groups: Sequence[Sequence[Episode]]) -> dict[str, float]:
        """Of a mode of its own."""
        return {}


class TurngridTrainer(StepRecords, PPOTrainerSync):
    """Takes the place of verl's trainer for ``trainer.v1.trainer_mode=sync``."""

    def get_llm_client(self) -> KeptRoutes:
        return self.llm_server_manager.get_client(client_cls=KeptRoutes)


class _LogThenSave:
    """Stands where verl keeps its ``Tracking``: our log first, then the trackers, then the checkpoint."""

    def __init__(self, trainer: StepRecords, trackers: Any) -> None:
        self._trainer = trainer
        self._trackers = trackers
        self._log = MetricsLog(Path(trainer.config.run.metrics))
        self._spent = RunningTotal(trainer.config, Path(trainer.config.run.folder))

    def log(self, data: dict[str, Any], step: int, **kwargs: Any) -> None:
        if "training/global_step" in data:
            data.pop("timing_s/save_checkpoint", None)
            data = {**data, **self._of_episodes(), **self._trainer.clocks()}
        named = in_families(data)
        self._log.append(step, named)
        self._trackers.log(data=named, step=step, **kwargs)
        self._trainer.after_log()

    def _of_episodes(self) -> dict[str, float]:
        metrics = self._trainer.gather_episodes()
        self._spent.add(self._trainer._step_folder().with_suffix(".jsonl"))
        return {**metrics, **self._spent.metrics()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trackers, name)


def prompt_id(step: int, index: int) -> str:
    """No underscore, since verl's keys are ``<prompt>_<sample>_<output>``."""
    return f"{step:06d}-{index:04d}"


def row_order(key: str) -> tuple[str, int, int]:
    prompt, sample, output = key.rsplit("_", 2)
    return prompt, int(sample), int(output)


def install() -> None:
    """Take the place of verl's ``sync`` trainer (another mode name would change its replay buffer)."""
    TRAINER_REGISTRY["sync"] = TurngridTrainer
    tracking.install(trainer_base)
