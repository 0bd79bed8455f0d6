"""The model that is exported, and its model card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf

from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.evaluation.stage import episodes_file
from turngrid.records.files.checkpoints import MODEL, flaw_in, is_sealed
from turngrid.records.models.locate import ASSET, PACKAGED, RUN, ModelError, checkpoint, local_folder, run_of
from turngrid.records.models.shape import tensors_in
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import Attempt, last_attempt
from turngrid.records.stages import stage_name
from turngrid.rollouts.store import read_episodes
from turngrid.tasks.run import Run

UNMERGED = (".lora_", ".base_layer.")  # PEFT's names, which loaders reject without an adapter config


class ExportError(Refusal):
    """The model cannot be exported; the message is one line."""


@dataclass(frozen=True)
class Exported:
    """A model and its run.

    Attributes:
        model: the checkpoint's Hugging Face folder.
        stage: ``sft`` or ``rl``; "" for a checkpoint that the run did not evaluate.
        first_messages: prompt, answer and next observation of the first test game; [] without a
            game.
    """

    run: Run
    model: Path
    stage: str
    result: RunResult | None
    attempt: Attempt | None
    first_messages: list[dict[str, str]]

    @property
    def prompt_form(self) -> dict[str, Any]:
        """Return the settings with which the run prompts and samples the model."""
        config = self.run.config
        form = OmegaConf.select(config, "prompt")
        return {
            "env": config.env.name,
            "task": config.env.get("task"),
            "prompt": OmegaConf.to_container(form) if OmegaConf.is_config(form) else form,
            "chat_template_kwargs": dict(self.run.chat.kwargs),
            "temperature": config.eval.temperatures[0],
            "max_action_tokens": config.env.max_action_tokens,
            "first_messages": self.first_messages,
        }


def find(asked: str) -> Exported:
    """Find the model of a run.

    Raises:
        ExportError: the run has no model, or its model is incomplete.
    """
    folder = Path(asked.removeprefix("run://")).expanduser().absolute()
    try:
        model = checkpoint(folder)
    except ModelError as error:
        raise ExportError(str(error).replace("model.path=", "")) from error
    home = run_of(str(model))
    if home is None or local_folder(str(model)) is None:
        raise ExportError(f"{folder} lies in no run folder: it is a plain model already")
    _check(model)
    run = Run.read(home)
    stage = {home / "sft" / "model": "sft", run.rl.model(run.rl.saved_step()): "rl"}.get(model, "")
    return Exported(run, model, stage, RunResult.read(home), last_attempt(home), _first_messages(home, stage))


def _check(model: Path) -> None:
    """Check files and weights.

    Raises:
        ExportError: a file is damaged, or the weights are not merged.
    """
    sealed = model.parents[1] if model.as_posix().endswith(MODEL) else model
    if is_sealed(sealed) and (flaw := flaw_in(sealed, inside=MODEL if sealed != model else "")):
        raise ExportError(f"{sealed}/{flaw}; name another checkpoint of the run")
    names = [name for name, _ in tensors_in(model)]
    if not names:
        raise ExportError(f"{model} has no weights (*.safetensors)")
    if adapter := next((name for name in names if any(part in name for part in UNMERGED)), None):
        raise ExportError(f"{model}: the weights are not merged (there is {adapter})")


def _first_messages(run: Path, stage: str) -> list[dict[str, str]]:
    file = episodes_file(run, stage)
    return next((episode.messages[:3] for episode in read_episodes(file)), []) if stage and file.exists() else []


# ---- the card


def card(exported: Exported, name: str) -> str:
    """Return Markdown with the front matter that hubs read."""
    config, attempt = exported.run.config, exported.attempt
    base = str(config.model.path)
    matrix = exported.result.matrix if exported.result and exported.stage else ()
    versions = attempt.versions if attempt else {}
    text = (files("turngrid.experiments.export") / "templates" / "card.md.j2").read_text(encoding="utf-8")
    return Template(text, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True).render(
        name=name,
        c=config,
        run=exported.run.folder.name,
        on_hub=local_folder(base) is None and not base.startswith((ASSET, PACKAGED, RUN)),
        stage=exported.stage,
        imitated=exported.stage == "sft" or (exported.run.folder / "sft" / "model").exists(),
        results=[item for item in matrix if item.policy in ("base", exported.stage)],
        stage_name=stage_name,
        first=json.dumps(exported.first_messages, indent=2, ensure_ascii=False) if exported.first_messages else "",
        packages=[f"{name} {versions[name]}" for name in ("turngrid", "verl", "torch") if versions.get(name)],
        commit=((attempt and attempt.commit) or "")[:10],
    )
