"""verl's synchronous trainer, made repeatable and resumable.

What differs from the stock one, and why:
- prompt ids derive from (step, index) and rows are sorted by (id, sample): verl's are random, in order of arrival;
- metrics go to our own append-only log before the checkpoint of their step is written, so that a killed run can go on
  from any checkpoint with each step logged once;
- a step's episodes are gathered into one file;
- a world that fails again and again ends the run instead of refilling for ever.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from tensordict import NonTensorData, NonTensorStack
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from experiments.metrics import MetricsLog
from rollouts.episode import Episode, Outcome
from rollouts.store import read_episodes, write_episodes
from verl_plugin import start_deadline
from verl_plugin.credit_log import CreditLog

MAX_FAILED_GROUPS = 3  # times the batch, in one step


class WorldKeepsFailing(RuntimeError):
    """So many groups failed in one step that refilling them is hopeless."""


class TurngridTrainer(CreditLog, PPOTrainerSync):
    """Takes the place of verl's trainer for ``trainer.v1.trainer_mode=sync``."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._prompts_of_step = 0
        self._save_due = False
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

    def on_step_begin(self) -> None:
        self._prompts_of_step = 0
        super().on_step_begin()

    def _guard_against_endless_refills(self) -> None:
        batch = self.config.data.train_batch_size
        if self._prompts_of_step <= (1 + MAX_FAILED_GROUPS) * batch:
            return
        causes = sorted(self._step_folder().glob("*.failed"))
        last = causes[-1].read_text(encoding="utf-8").strip() if causes else "no cause recorded"
        raise WorldKeepsFailing(
            f"step {self.global_steps}: {self._prompts_of_step - batch} groups failed and were refilled; last: {last}"
        )

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        """Rows in order of (prompt, sample) first; what verl does after that depends on nothing else."""
        batch.reorder(sorted(range(len(batch.keys)), key=lambda row: row_order(batch.keys[row])))
        return super()._balance_batch(batch, metrics, **kwargs)

    # ---- log, then save

    def on_train_begin(self) -> None:
        start_deadline.met()
        super().on_train_begin()
        self.logger = _LogThenSave(self, self.logger)

    def _save_checkpoint(self) -> None:
        """Only noted here: verl saves before it logs, and a kill between the two would lose the step's metrics."""
        self._save_due = True

    def after_log(self) -> None:
        if not self._save_due:
            return
        self._save_due = False
        super()._save_checkpoint()

    # ---- episodes

    def _step_folder(self) -> Path:
        return Path(self.config.run.episodes) / f"{self.global_steps:06d}"

    def gather_episodes(self) -> dict[str, float]:
        """Merge the groups' files into one a step; returns what they tell as metrics."""
        folder = self._step_folder()
        episodes = [episode for file in sorted(folder.glob("*.jsonl")) for episode in read_episodes(file)]
        failed = len(list(folder.glob("*.failed")))
        self.write_credit(folder)
        write_episodes(folder.with_suffix(".jsonl"), episodes)
        shutil.rmtree(folder)
        return {**episode_metrics(episodes), "rollout/failed_groups": float(failed)}


class _LogThenSave:
    """Stands where verl keeps its ``Tracking``: our log first, then verl's backends, then the checkpoint."""

    def __init__(self, trainer: TurngridTrainer, tracking: Any) -> None:
        self._trainer = trainer
        self._tracking = tracking
        self._log = MetricsLog(Path(trainer.config.run.metrics))

    def log(self, data: dict[str, Any], step: int, **kwargs: Any) -> None:
        if "training/global_step" in data:
            data = {**data, **self._trainer.gather_episodes(), "timing_s/since_start": self._elapsed()}
        self._log.append(step, data)
        self._tracking.log(data=data, step=step, **kwargs)
        self._trainer.after_log()

    def _elapsed(self) -> float:
        return time.perf_counter() - self._trainer._started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracking, name)


def prompt_id(step: int, index: int) -> str:
    """No underscore, since verl's keys are ``<prompt>_<sample>_<output>``."""
    return f"{step:06d}-{index:04d}"


def row_order(key: str) -> tuple[str, int, int]:
    prompt, sample, output = key.rsplit("_", 2)
    return prompt, int(sample), int(output)


def episode_metrics(episodes: list[Episode]) -> dict[str, float]:
    """Shares in [0, 1], turns, tokens a turn, and entropy (nats a token; the mean surprisal of what was sampled, which
    estimates it without another pass), over one step's episodes."""
    turns = [turn for episode in episodes for turn in episode.turns]
    metrics = {f"rollout/{outcome.value}": _mean(e.outcome is outcome for e in episodes) for outcome in Outcome}
    return metrics | {
        "success/train": _mean(episode.won for episode in episodes),
        "rollout/episodes": float(len(episodes)),
        "rollout/turns": _mean(len(episode.turns) for episode in episodes),
        "rollout/invalid_actions": _mean(not turn.valid for turn in turns),
        "rollout/tokens_per_turn": _mean(len(turn.action_ids) for turn in turns),
        "rollout/entropy": -_mean(logprob for turn in turns for logprob in turn.logprobs),
        "rollout/retries": float(sum(episode.retries for episode in episodes)),
        "rollout/sampled_tokens": float(sum(len(turn.action_ids) for turn in turns)),
    }


def _mean(values: Any) -> float:
    numbers = [float(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else 0.0


def install() -> None:
    """Take the place of verl's ``sync`` trainer (another mode name would change its replay buffer)."""
    TRAINER_REGISTRY["sync"] = TurngridTrainer
