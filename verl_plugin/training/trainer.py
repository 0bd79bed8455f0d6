"""verl's trainer with our parts of a step: one class, which overrides each of verl's hooks once.

Prompt ids derive from (step, index) and rows are sorted by (id, sample): verl's ids are random, and
its rows are in order of arrival. Metrics go to our append-only log before the checkpoint of their
step is written, so that a killed run can resume with each step logged once.
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from tensordict import NonTensorData, NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.utils.debug import marked_timer

from turngrid.records.files import checkpoints
from turngrid.records.health.alarms import Watch
from turngrid.records.step_metrics import REPEATED
from turngrid.tasks.run import Run
from turngrid.verl_plugin.training import estimators, watchdog, zero_advantages  # noqa: F401
from turngrid.verl_plugin.training.credit_log import CreditLog
from turngrid.verl_plugin.training.losses import IN_WORKERS
from turngrid.verl_plugin.training.step import Metrics, Part, Step, differences, in_order, mismatch, with_adapter_again
from turngrid.verl_plugin.training.step_methods import Methods
from turngrid.verl_plugin.training.step_records import RunningTotal, StepGroups, gathered, gathered_validation
from turngrid.verl_plugin.training.task_loader import Games
from turngrid.verl_plugin.training.turn_rows import padded, read, targets_alone
from turngrid.verl_plugin.training.turn_updates import log_probs, update_by_turn
from turngrid.verl_plugin.training.window_rows import WindowRows

POLL_SECONDS = 0.1  # seconds between polls for finished episodes; verl's 2 s exceed a small model's step


class StepTrainer:
    """A mixin before verl's trainer of any mode. ``parts`` is the order of a step."""

    kind_of_groups: type[StepGroups] = StepGroups

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.replay_buffer.poll_interval = POLL_SECONDS
        self._prompts: Counter[int] = Counter()  # prompts dispatched, by step
        self._save_due = False
        self._saved: dict[str, float] = {}  # duration of the last checkpoint
        self._started = time.perf_counter()
        self.make_parts()

    def make_parts(self) -> None:
        """Make the parts that have a state, or that act at several points of a step."""
        config, self.now = self.config, Step()
        self._run = run = Run(config, Path(config.run.folder))
        self.groups = self.kind_of_groups(run.rl, int(config.data.train_batch_size), self.now)
        self.games = Games(config)
        self.methods = Methods(run, self.now)
        several = run.several_rows or run.sides > 1
        self.windows = WindowRows(config, self.parameter_sync_step, run.sides) if several else None
        self.credit = CreditLog(run.tracking.credit, self.now)

    # ---- the step

    def parts(self) -> list[Part]:
        """Return the parts of ``_step_once`` after sampling, in order: verl's and ours."""
        methods, windows = self.methods, self.windows
        ref, critic = self.use_reference_policy, self.use_critic
        rewards_here = self.reward_loop_manager.reward_loop_worker_handles is None
        warm = self.config.trainer.critic_warmup <= self.global_steps
        bypass = OmegaConf.select(self.config, "algorithm.rollout_correction.bypass_mode")
        first_in_bf16 = self.global_steps == 1 and OmegaConf.select(self.config, "cluster.computes_in") == "bf16"
        return [
            Part(self._compute_reward_colocate, "reward", wanted=rewards_here),
            Part(self.groups.note),
            Part(in_order),
            Part(methods.replay.replace),
            Part(self._balance_batch),
            *([Part(windows.spread_padding)] if windows else []),
            Part(self._compute_old_log_prob, "old_log_prob"),
            Part(mismatch, "old_log_prob", wanted=not bypass),
            Part(self.mismatch_in_a_pass, "old_log_prob", wanted=bypass and first_in_bf16),
            Part(methods.contexts.score, "old_log_prob", wanted=bool(methods.contexts.asking)),
            Part(methods.reasoning.score, "reasoning", wanted=methods.reasoning.answers > 0),
            Part(self._compute_ref_log_prob, "ref", wanted=ref),
            Part(with_adapter_again, "ref", wanted=ref),
            Part(self._compute_values, "values", wanted=critic),
            Part(methods.cut_values, "values", wanted=critic),
            Part(methods.filter_before, "adv"),
            Part(self._compute_advantage, "adv"),
            Part(methods.mute_dead, "adv"),
            Part(methods.apply, "adv"),
            Part(self.credit.note, "adv", wanted=self.credit.on),
            Part(self.learn_values, "update_critic", wanted=critic),
            Part(self.learn, "update_actor", wanted=warm),
            Part(partial(methods.replay.update, trainer=self), "update_actor", wanted=warm),
        ]

    def _step_once(self, metrics: Metrics, timing_raw: dict[str, float], sample_batch_size: int) -> KVBatchMeta:
        """The parts of an update are run from one list, verl's and ours.

        Until verl's step is a list of parts.
        """
        watchdog.current.enter("gen")
        with marked_timer("gen", timing_raw):
            batch = self._sampled(metrics, sample_batch_size)
        for part in self.parts():
            if part.wanted:
                if part.timer:
                    watchdog.current.stay_in(part.timer)
                with marked_timer(part.timer, timing_raw) if part.timer else nullcontext():
                    batch = part.run(batch, metrics)
        watchdog.current.enter(watchdog.BETWEEN)
        return batch

    def _sampled(self, metrics: Metrics, prompts: int) -> KVBatchMeta:
        self.on_sample_begin()
        batch, of_sampling = self.replay_buffer.sample(
            global_steps=self.global_steps, partition_id="train", batch_size=prompts
        )
        metrics.update(of_sampling)
        batch.extra_info["temperature"] = self.config.actor_rollout_ref.rollout.temperature
        self.on_sample_end()
        return batch

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """The contexts of methods are scored in the same pass.

        Until a plugin may add sequences to a pass of verl's.
        """
        workers = self.actor_rollout_wg
        self.actor_rollout_wg = self.methods.contexts.beside_rows(workers)
        try:
            return super()._compute_old_log_prob(batch, metrics)
        finally:
            self.actor_rollout_wg = workers

    def mismatch_in_a_pass(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Measure the difference of log-probs, of which the trainer's serve for nothing else."""
        trainer, mask = log_probs(replace(batch, extra_info={**(batch.extra_info or {})}), self)
        server = padded(read(batch, "rollout_log_probs")["rollout_log_probs"])
        apart = (trainer.exp() - server.exp()).abs()[mask.bool()].mean().item()
        metrics |= {"training/rollout_probs_diff_mean": apart, **differences(mask, trainer, server)}
        return batch

    def learn_values(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Update the critic on the tokens that the estimator selected for it."""
        if self.now.nothing_left:
            return batch
        with self.mini_batches(self.config.critic, batch), targets_alone(batch):
            return self._update_critic(batch, metrics)

    def learn(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Update the policy with the loss form and the terms of the run's methods."""
        if self.now.nothing_left:
            return self.now.without_update(batch, metrics)
        if self.methods.chosen:
            batch.extra_info[IN_WORKERS] = self.methods.in_workers
        if method := self.methods.by_turn():
            update_by_turn(batch, metrics, method, self.now.number, self)
            return batch
        return self.learn_rows(batch, metrics)

    def learn_rows(self, batch: KVBatchMeta, metrics: Metrics, updates: int = 0) -> KVBatchMeta:
        batch.extra_info[zero_advantages.KEY] = zero_advantages.may_be_left_out(self.config)
        with self.mini_batches(self.config.actor_rollout_ref.actor, batch, updates):
            return self.update_policy(batch, metrics)

    def update_policy(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        return self._update_actor(batch, metrics)

    def mini_batches(self, node: DictConfig, batch: KVBatchMeta, updates: int = 0) -> AbstractContextManager[None]:
        return self.windows.mini_batches(node, batch, updates) if self.windows else nullcontext()

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """With windows a step has as many updates as with whole episodes.

        Until verl's mini-batches count episodes.
        """
        self.methods.contexts.devices = dp_size
        return self.windows.multiple(dp_size) if self.windows else super()._get_required_batch_multiple(dp_size)

    # ---- prompts

    def _init_dataloader(self) -> None:
        """A step may have more prompts than there are games; mixtures and curricula choose them.

        Until verl's data loader allows that.
        """
        super()._init_dataloader()
        self.steps_per_epoch = max(1, self.steps_per_epoch)  # verl divides by it
        self.train_dataloader = self.games.loader(self.train_dataset) or self.train_dataloader

    def _fetch_one_gen_batch(self) -> TensorDict:
        """Prompt ids are reproducible, and refills end if groups keep failing.

        Until verl's do.
        """
        self.groups.guard()
        batch = super()._fetch_one_gen_batch()
        first, count = self._prompts[self.global_steps], len(batch["uid"])
        self._prompts[self.global_steps] += count
        # without an underscore, since verl's keys are <prompt>_<sample>_<row>
        uids = [f"{self.global_steps:06d}-{number:04d}" for number in range(first, first + count)]
        batch["uid"] = NonTensorStack.from_list([NonTensorData(uid) for uid in uids])
        return batch

    def on_train_begin(self) -> None:
        """Our log replaces verl's, and the watchdog's limit for the start ends."""
        watchdog.current.enter(watchdog.BETWEEN)
        self._begin()  # an asynchronous trainer dispatches prompts before its first step
        super().on_train_begin()
        self._spent = RunningTotal(self.config, self._run.folder)
        needs_group = self._run.algorithm.needs_group
        self._watch = Watch(self._run.rl, self.config.health, self.logger.trackers.alert, needs_group)
        self.logger.log = partial(self.log_step, self.logger.log)

    def on_step_begin(self) -> None:
        """The parts of a step are reset too."""
        self._begin()
        self.groups.begin()
        super().on_step_begin()

    def _begin(self) -> None:
        self.now.begin(self.global_steps, self.total_training_steps)
        self.methods.write(lambda *asked: self.agent_loop_manager.write(*asked))
        self.methods.share()
        self.games.begin(self.global_steps)

    # ---- records

    def log_step(self, log: Callable[..., None], data: Metrics, step: int, **kwargs: Any) -> None:
        """Record the step, log it, and only then save: a kill between the two loses no metrics."""
        if "training/global_step" in data:
            data.pop("timing_s/save_checkpoint", None)  # verl timed only the request to save
            data = {**data, **self.record_step()}
        log(data=data, step=step, **kwargs)
        self._watch(step, data)
        self.save_if_due()

    def record_step(self) -> dict[str, float]:
        """Record the step; return metrics of its episodes, its cost and its time."""
        metrics = self.gather_episodes() | self._spent.add(self.groups.folder.with_suffix(".jsonl"))
        saved, self._saved = self._saved, {}
        return {**metrics, "timing/since_start": time.perf_counter() - self._started, **saved}

    def gather_episodes(self) -> dict[str, float]:
        episodes, metrics = gathered(self.groups, self.credit, self.now.replaced, self.config)
        if self.methods.chosen:
            del metrics[REPEATED]  # that of the states that they compare is logged
        return {**metrics, **self.games.metrics(self.global_steps, episodes), **self.methods.offer(episodes)}

    def _validate(self) -> dict[str, float]:
        """Compute our metrics of validation episodes, and record these in one file a step.

        Until verl's validation takes metrics of a plugin.
        """
        with watchdog.current.within("validation"):
            metrics = super()._validate()
        folder = Path(self.config.run.validation) / f"{self.global_steps:06d}"
        return {**metrics, **gathered_validation(folder, int(self.config.actor_rollout_ref.rollout.val_kwargs.n))}

    # ---- checkpoints

    def _save_checkpoint(self) -> None:
        """Save after the step is logged, so that a kill between them loses nothing.

        Until verl saves after it has logged.
        """
        self._save_due = True

    def save_if_due(self) -> None:
        """Save methods, then verl's files, the last of which marks the checkpoint as complete."""
        if not self._save_due:
            return
        self._save_due, start = False, time.perf_counter()
        with watchdog.current.within("checkpoint"):
            self.methods.save(self._checkpoint())
            super()._save_checkpoint()
        kept = self.config.trainer.max_actor_ckpt_to_keep
        checkpoints.seal_newest(self._checkpoint().parent, self.global_steps, kept)
        self._saved = {"timing/save_checkpoint": time.perf_counter() - start}
        self.groups.saved()
        self.logger.trackers.keep(self.global_steps)

    def _load_checkpoint(self) -> None:
        """Methods and groups are restored from the checkpoint too.

        Until verl's checkpoints hold the state of a plugin.
        """
        super()._load_checkpoint()
        if self.global_steps:
            self.methods.load(self._checkpoint())
        self.now.number = self.global_steps
        self.methods.share()  # for a validation before the first step
        self.groups.restored()

    def _checkpoint(self) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
