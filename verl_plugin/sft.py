"""The SFT stage's process: verl's SFT trainer on episodes.

    python -P -m turngrid.verl_plugin.sft CONFIG.yaml

``turngrid.experiments.stages.sft`` writes the config. It is one process, or one a GPU under
torchrun, without Ray. On CPU the same seed gives bit-identical weights.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf, open_dict
from torch.utils.data import ConcatDataset
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer import sft_trainer
from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

from turngrid.envs.utils.parent import die_with_parent
from turngrid.rollouts.prompt_forms.registry import prompt_form
from turngrid.tasks.early_experience import WORLD_MODEL
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.sft_rows import EpisodeRows, SftBatches, record_experience, record_ids
from turngrid.verl_plugin.training import watchdog
from turngrid.verl_plugin.training.tracking import RunTracking


class EpisodeSFTTrainer(sft_trainer.SFTTrainer):
    """verl's trainer with our rows and our seed, using every episode in every epoch."""

    def __init__(self, config: DictConfig, run: DictConfig) -> None:
        self.run = run
        super().__init__(config)

    def _build_dataset(self) -> None:
        """Make rows from episodes.

        Until verl's SFT trainer takes a data set of token ids.
        """
        kwargs: Any = OmegaConf.to_container(self.run.template_kwargs)
        form = prompt_form(self.run.prompt)
        codec = TokenCodec(self.model_config.tokenizer, self.model_config.hf_config.model_type, kwargs, form.marks)
        self.train_dataset = EpisodeRows(record_ids(self.run, codec, form), codec, self.run.max_tokens)
        self.predictions = 0
        if "experience" in self.run and (rows := record_experience(self.run, codec, form)):
            self.predictions = len(rows) * (self.run.experience.kind == WORLD_MODEL)
            self.train_dataset = ConcatDataset([self.train_dataset, EpisodeRows(rows, codec, self.run.max_tokens)])
        self.val_dataset = None

    def _build_dataloader(self) -> None:
        """Order rows by the run's seed, and keep those that fill no whole batch or rank.

        Until verl's SFT trainer has keys for both.
        """
        super()._build_dataloader()
        rank, ranks = self.engine.get_data_parallel_rank(), self.engine.get_data_parallel_size()
        demonstrations, batch = len(self.train_dataset) - self.predictions, self.global_batch_size
        self.train_sampler = SftBatches(demonstrations, self.predictions, batch, rank, ranks)
        self.train_sampler.seed = self.run.seed * 1_000_003  # the sampler adds the epoch
        self.train_dataloader = StatefulDataLoader(
            self.train_dataset, collate_fn=self.collate_fn, batch_sampler=self.train_sampler
        )

    def _get_batch_seqlens(self, data: Any) -> Any:
        """Begin a step, on every rank: only the logging one has trackers.

        Until verl's SFT trainer has a hook for it.
        """
        watchdog.current.enter("sft step")
        return super()._get_batch_seqlens(data)


class Tracking(RunTracking):
    """Also log the time since the start.

    Until verl lets a config name the class.
    """

    run: DictConfig  # our part of the config file, which verl does not pass on
    opened: Tracking | None = None  # only the logging rank has trackers; verl's SFT trainer does not finish them
    started = time.perf_counter()

    def __init__(self, *, config: Mapping[str, Any], **given: Any) -> None:
        super().__init__(config={**config, "run": OmegaConf.to_container(self.run, resolve=True)}, **given)
        Tracking.opened = self

    def log(self, data: Mapping[str, Any], step: int, backend: str | None = None) -> None:
        super().log({**data, "timing/since_start": time.perf_counter() - self.started}, step, backend)


def verl_config(overrides: DictConfig) -> DictConfig:
    """Return verl's SFT defaults with ``overrides`` applied."""
    with initialize_config_dir(str(Path(sft_trainer.__file__).parent / "config"), version_base=None):
        config = compose("sft_trainer_engine")
    with open_dict(config):
        config.merge_with(overrides)
    return config


def keep_precision(model: Path) -> None:
    """Set the saved config's dtype to float32, that of the weights; verl leaves bfloat16."""
    path = model / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "dtype": "float32"}, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main(config_file: Path) -> None:
    """Train, and write ``global_step_N/huggingface`` to the checkpoint folder."""
    die_with_parent()  # under torchrun, a rank must not outlive a killed torchrun
    config = OmegaConf.load(config_file)
    torch.manual_seed(config.run.seed)
    Tracking.run = config.run
    watchdog.begin(config.run.hung_factor, config.run.hung_after_s)
    verls: Any = sft_trainer
    verls.Tracking = Tracking
    initialize_global_process_group()
    trainer = EpisodeSFTTrainer(verl_config(config.verl), config.run)
    trainer.fit()
    if Tracking.opened:
        Tracking.opened.finish()
    (model,) = Path(trainer.config.trainer.default_local_dir).glob("global_step_*/huggingface")
    if trainer.rank == 0:
        keep_precision(model)
    destroy_global_process_group()
    watchdog.current.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
