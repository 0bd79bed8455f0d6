"""Which model is exported, and what its run knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from experiments.evaluation.result import RunResult
from experiments.evaluation.stage import episodes_file
from records.files.checkpoints import MODEL
from records.files.manifest import flaw_in
from records.models.locate import ModelError, checkpoint, local_folder, run_of
from records.models.shape import tensors_in
from records.process.exit_codes import Refusal
from records.provenance import Attempt, last_attempt
from records.resume import RlFolder
from rollouts.chat_settings import ChatSettings, chat_settings
from rollouts.store import read_episodes

UNMERGED = (".lora_", ".base_layer.")  # PEFT's names, which nobody loads without an adapter's config


class ExportError(Refusal):
    """It cannot be exported; the message is one line."""


@dataclass(frozen=True)
class Exported:
    """A model and what its run knows of it.

    Attributes:
        model: the checkpoint's Hugging Face folder.
        stage: ``sft`` or ``rl``; "" for a checkpoint that the run did not evaluate.
        first_messages: what the model was asked first in its first test game, its answer, what came next; [] where none was played.
    """

    run: Path
    model: Path
    stage: str
    config: DictConfig
    result: RunResult | None
    attempt: Attempt | None
    first_messages: list[dict[str, str]]

    @property
    def chat(self) -> ChatSettings:
        return chat_settings(self.config)

    @property
    def prompt_form(self) -> dict[str, Any]:
        """What somebody who plays with the model must do as its run did."""
        form = OmegaConf.select(self.config, "prompt")
        return {
            "env": self.config.env.name,
            "task": self.config.env.get("task"),
            "prompt": OmegaConf.to_container(form) if OmegaConf.is_config(form) else form,
            "chat_template_kwargs": dict(self.chat.kwargs),
            "temperature": self.config.eval.temperatures[0],
            "max_action_tokens": self.config.env.max_action_tokens,
            "first_messages": self.first_messages,
        }


def find(asked: str) -> Exported:
    """Raises: ExportError: no model of a run lies there, or not a whole one."""
    folder = Path(asked.removeprefix("run://")).expanduser().absolute()
    try:
        model = checkpoint(folder)
    except ModelError as error:
        raise ExportError(str(error).replace("model.path=", "")) from error
    run = run_of(str(model))
    if run is None or local_folder(str(model)) is None:
        raise ExportError(f"{folder} lies in no run folder: it is a model already, and no run tells of it")
    _check(model)
    config = OmegaConf.load(run / "config.yaml")
    assert isinstance(config, DictConfig)
    rl = RlFolder(run)
    stage = {run / "sft" / "model": "sft", rl.model(rl.saved_step()): "rl"}.get(model, "")
    return Exported(run, model, stage, config, RunResult.read(run), last_attempt(run), _first_messages(run, stage))


def _check(model: Path) -> None:
    """Raises: ExportError: a file is not what was written, or the weights are not those of a model alone."""
    sealed = model.parents[1] if model.as_posix().endswith(MODEL) else model
    flaw = flaw_in(sealed, content=True, inside=MODEL if sealed != model else "")
    if flaw and not flaw.unsealed:
        raise ExportError(f"{flaw.path} {flaw.wrong}; name another checkpoint of the run")
    names = [name for name, _ in tensors_in(model)]
    if not names:
        raise ExportError(f"{model} has no weights (*.safetensors)")
    if adapter := next((name for name in names if any(part in name for part in UNMERGED)), None):
        raise ExportError(f"{model}: the weights are not merged (there is {adapter})")


def _first_messages(run: Path, stage: str) -> list[dict[str, str]]:
    file = episodes_file(run, stage)
    return next((episode.messages[:3] for episode in read_episodes(file)), []) if stage and file.exists() else []
