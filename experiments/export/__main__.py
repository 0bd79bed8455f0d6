"""Export a run's model as a folder that transformers and vLLM load, with a model card.

    python -m experiments.export RUN --to FOLDER
    python -m experiments.export runs/NAME --to my-model
    python -m experiments.export runs/NAME/sft/model --to before-rl

RUN         a run folder (its last checkpoint), or one checkpoint in it
            (rl/checkpoints/global_step_N, sft/model)
--to FOLDER where it goes; a folder that is not there yet

docs/export.md says what is in it, how to serve it, and how to put it on a hub."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.export.card import ExportError, card, find
from turngrid.records.files.checkpoints import MANIFEST
from turngrid.records.process.exit_codes import Parser, command

CARD, PROMPT_FORM, TEMPLATE = "README.md", "prompt_form.json", "chat_template.jinja"


@command(__doc__, refused=(OSError,), resumes=False)
def main(given: list[str]) -> int:
    parser = Parser(usage="python -m experiments.export RUN --to FOLDER", add_help=False)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--to", metavar="FOLDER", required=True, type=Path)
    asked = parser.parse_args(given)
    print(export(asked.run, asked.to.expanduser()))
    return 0


def export(asked: str, target: Path) -> str:
    """Write ``target`` whole or not at all; returns a line on what was written.

    Raises:
        ExportError: there is no such model, it is damaged or not merged, or ``target`` is there.
    """
    made = find(asked)
    if target.exists():
        raise ExportError(f"--to {target}: it is there already; name a new folder")
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copytree(made.model, draft, ignore=shutil.ignore_patterns(MANIFEST), copy_function=shutil.copyfile)
    if made.run.chat.template:
        (draft / TEMPLATE).write_text(made.run.chat.template, encoding="utf-8")
    _drop_sampling(draft / "generation_config.json")
    write_whole(draft / PROMPT_FORM, json.dumps(made.prompt_form, indent=2) + "\n")
    write_whole(draft / CARD, card(made, target.name))
    draft.rename(target)
    size = sum(file.stat().st_size for file in target.iterdir())
    return f"{target}: {made.stage or made.model.parents[1].name} of {made.run.folder.name}, {size / 1e6:,.1f} MB"


def _drop_sampling(file: Path) -> None:
    """Keep only the special tokens: servers would otherwise sample with the base model's top_p."""
    if file.exists():
        kept = {key: value for key, value in json.loads(file.read_text()).items() if key.endswith("_token_id")}
        file.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
