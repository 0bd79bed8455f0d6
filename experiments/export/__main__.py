"""Export a run's model as a folder that transformers and vLLM load, with a model card.

    python -m experiments.export RUN --to FOLDER
    python -m experiments.export runs/NAME --to my-model
    python -m experiments.export runs/NAME/sft/model --to before-rl

RUN         a run folder (its last checkpoint), or one checkpoint in it
            (rl/checkpoints/global_step_N, sft/model)
--to FOLDER where it goes; a folder that is not there yet

docs/export.md says what is in it, how to serve it, and how to put it on a hub."""

import json
import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf

from turngrid.algorithms.registry import FORM, ROLES
from turngrid.envs.utils.files import write_whole
from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.evaluation.stage import episodes_file
from turngrid.records.files.checkpoints import MANIFEST, MODEL, flaw_in, is_sealed
from turngrid.records.models.locate import (
    ASSET,
    LIBRARY,
    PACKAGED,
    ModelError,
    checkpoint,
    library_file,
    local_folder,
    run_of,
)
from turngrid.records.models.shape import tensors_in
from turngrid.records.process.exit_codes import Parser, Refusal, command
from turngrid.records.provenance import last_attempt
from turngrid.records.run_folder import dotted
from turngrid.records.stages import stage_name
from turngrid.rollouts.store import read_episodes
from turngrid.rollouts.window import summed_up
from turngrid.tasks.run import Run

CARD, PROMPT_FORM, TEMPLATE = "README.md", "prompt_form.json", "chat_template.jinja"
# Keys of what the model sees of an episode; prompt_form.json has those that are set
SEEN = ("env.window_turns", "env.window_keep", "data.max_prompt_length", "data.max_response_length", FORM, ROLES)
UNMERGED = (".lora_", ".base_layer.")  # PEFT's names, which loaders reject without an adapter config


def find(asked: str) -> tuple[Run, Path, str]:
    """Find the model of a run; return the run, the model's folder, and the stage that made it.

    The stage is "" for a checkpoint that the run did not evaluate.

    Raises:
        Refusal: the run has no model, or its model is incomplete.
    """
    folder = Path(asked.removeprefix("run://")).expanduser().absolute()
    try:
        model = checkpoint(folder)
    except ModelError as error:
        raise Refusal(str(error).replace("model.path=", "")) from error
    home = run_of(str(model))
    if home is None or local_folder(str(model)) is None:
        raise Refusal(f"{folder} lies in no run folder: it is a plain model already; use it as it is")
    _check(model)
    run = Run.read(home)
    return run, model, {home / "sft" / "model": "sft", run.rl.model(run.rl.saved_step()): "rl"}.get(model, "")


def _check(model: Path) -> None:
    """Check files and weights."""
    sealed = model.parents[1] if model.as_posix().endswith(MODEL) else model
    if is_sealed(sealed) and (flaw := flaw_in(sealed, inside=MODEL if sealed != model else "")):
        raise Refusal(f"{sealed}/{flaw}; name another checkpoint of the run")
    names = [name for name, _ in tensors_in(model)]
    if not names:
        raise Refusal(f"{model}: no weights (*.safetensors); name another checkpoint of the run")
    if adapter := next((name for name in names if any(part in name for part in UNMERGED)), None):
        merge = "merge them with PEFT's merge_and_unload, or name another checkpoint of the run"
        raise Refusal(f"{model}: the weights are not merged (there is {adapter}); {merge}")


@command(__doc__, refused=(OSError,), resumes=False)
def main(given: list[str]) -> int:
    parser = Parser(usage="python -m experiments.export RUN --to FOLDER", add_help=False)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--to", metavar="FOLDER", required=True, type=Path)
    asked = parser.parse_args(given)
    print(export(asked.run, asked.to.expanduser()))
    return 0


def export(asked: str, target: Path) -> str:
    """Write ``target`` whole or not at all; return a line on what was written.

    Raises:
        Refusal: there is no such model, it is damaged or not merged, or ``target`` is there.
    """
    run, model, stage = find(asked)
    if target.exists():
        raise Refusal(f"--to {target}: it is there already; name a new folder")
    file = episodes_file(run.folder, stage)
    first = next((episode.messages[:3] for episode in read_episodes(file)), []) if stage and file.exists() else []
    text = card(run, stage, first, target.name)  # before the copy: a damaged record raises
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copytree(model, draft, ignore=shutil.ignore_patterns(MANIFEST), copy_function=shutil.copyfile)
    if run.chat.template:
        (draft / TEMPLATE).write_text(run.chat.template, encoding="utf-8")
    if library_file(str(model)):
        import torch  # seconds

        from turngrid.verl_plugin.shared_state import saved_library

        torch.save(saved_library(str(model)), draft / LIBRARY)
    if (sampling := draft / "generation_config.json").exists():  # servers would sample with the base model's top_p
        kept = {key: value for key, value in json.loads(sampling.read_text()).items() if key.endswith("_token_id")}
        sampling.write_text(json.dumps(kept, indent=2) + "\n")
    write_whole(draft / PROMPT_FORM, json.dumps(prompt_form(run, first), indent=2) + "\n")
    write_whole(draft / CARD, text)
    draft.rename(target)
    size = sum(file.stat().st_size for file in target.iterdir())
    return f"{target}: {stage or model.parents[1].name} of {run.folder.name}, {size / 1e6:,.1f} MB"


def prompt_form(run: Run, first: list[dict[str, str]]) -> dict[str, Any]:
    """Return the settings with which the run prompts and samples the model."""
    config = run.config
    form = OmegaConf.select(config, "prompt")
    settings = dict(dotted(OmegaConf.to_container(config)))
    settings[FORM] = settings[FORM] if summed_up(settings.get(FORM)) else None
    return {
        "env": config.env.name,
        "task": config.env.get("task"),
        "prompt": OmegaConf.to_container(form) if OmegaConf.is_config(form) else form,
        "chat_template_kwargs": dict(run.chat.kwargs),
        "temperature": config.eval.temperatures[0],
        "max_action_tokens": config.env.max_action_tokens,
        **{key: settings[key] for key in SEEN if settings.get(key) not in (None, {}, [])},
        "first_messages": first,
    }


def card(run: Run, stage: str, first: list[dict[str, str]], name: str) -> str:
    """Return the model card: Markdown with the front matter that hubs read."""
    (prior, base), attempt, result = _origin(run), last_attempt(run.folder), RunResult.read(run.folder)
    folder = local_folder(base)
    on_hub = folder is None and not base.startswith((ASSET, PACKAGED))
    versions = attempt.versions if attempt else {}
    text = (files("turngrid.experiments.export") / "templates" / "card.md.j2").read_text(encoding="utf-8")
    return Template(text, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True).render(
        name=name,
        c=run.config,
        run=run.folder.name,
        base=base if on_hub else "",
        origin=prior or (base if on_hub else folder.name if folder else run.model.name),
        prior=prior,
        stage=stage,
        imitated=stage == "sft" or (run.folder / "sft" / "model").exists(),
        results=[item for item in (result.matrix if result and stage else ()) if item.policy in ("base", stage)],
        stage_name=stage_name,
        library="" if stage == "sft" else ", ".join(run.config.get("library") or ()),
        first=json.dumps(first, indent=2, ensure_ascii=False) if first else "",
        packages=[f"{name} {versions[name]}" for name in ("turngrid", "verl", "torch") if versions.get(name)],
        commit=((attempt and attempt.commit) or "")[:10],
    )


def _origin(run: Run) -> tuple[str, str]:
    """Return the name of the run that made the model with which this one began, or "", and the
    path of the model with which the first of them began."""
    base = str(run.model.path)
    if (prior := run_of(base)) is None:
        return "", base
    return prior.name, _origin(Run.read(prior))[1]


if __name__ == "__main__":
    sys.exit(main())
