"""The exported folder: the files of one checkpoint, the form of its prompts, a card."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from envs.whole import write_whole
from experiments.export.card import card
from experiments.export.found import ExportError, find
from records.files.manifest import MANIFEST

CARD, PROMPT_FORM, TEMPLATE = "README.md", "prompt_form.json", "chat_template.jinja"
GENERATION = "generation_config.json"


def export(asked: str, target: Path) -> str:
    """Write ``target`` whole or not at all; returns a line on what was written.

    Raises:
        ExportError: there is no such model, it is damaged or not merged, or ``target`` is there.
    """
    found = find(asked)
    if target.exists():
        raise ExportError(f"--to {target}: it is there already; name a new folder")
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copytree(found.model, draft, ignore=shutil.ignore_patterns(MANIFEST), copy_function=shutil.copyfile)
    if found.chat.template:
        (draft / TEMPLATE).write_text(found.chat.template, encoding="utf-8")
    _drop_sampling(draft / GENERATION)
    write_whole(draft / PROMPT_FORM, json.dumps(found.prompt_form, indent=2) + "\n")
    write_whole(draft / CARD, card(found, target.name))
    draft.rename(target)
    size = sum(file.stat().st_size for file in target.iterdir())
    return f"{target}: {found.stage or found.model.parents[1].name} of {found.run.name}, {size / 1e6:,.1f} MB"


def _drop_sampling(file: Path) -> None:
    """Special tokens stay. Servers would take the base model's top_p or repetition_penalty from here, which no run samples with."""
    if file.exists():
        kept = {key: value for key, value in json.loads(file.read_text()).items() if key.endswith("_token_id")}
        file.write_text(json.dumps(kept, indent=2) + "\n")
