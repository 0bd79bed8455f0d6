"""Which files a run folder holds, and how long each is: ``files.json``, taken anew after each stage and each checkpoint.

It is how a file that is missing, or was cut between two lines, can be named.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from envs.utils.files import write_whole
from records.files.damage import is_aside

FILE = "files.json"
KEPT = (
    "*.json",
    "*.jsonl",
    "*.yaml",
    "*.png",
    "tasks/**/*.json*",
    "episodes/*.json*",
    "sft/*.*",
    "sft/model/manifest.json",
    "rl/*.*",
    "rl/**/*.jsonl",
    "evaluation/**/*.jsonl",
    "evaluation/config.yaml",
)
PASSING = (FILE, "failure.json")


def take(folder: Path) -> None:
    """Write down what lies in ``folder`` now."""
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files(folder)}
    write_whole(folder / FILE, json.dumps(sizes, indent=0) + "\n")


def files(folder: Path) -> list[Path]:
    """Those that a later attempt goes on from or that record what the run did; nothing that was set aside, no drafts."""
    found = {path for pattern in KEPT for path in folder.glob(pattern) if path.is_file()}
    kept = (path for path in found if path.name not in PASSING and not path.name.startswith("."))
    return sorted(path for path in kept if not is_aside(path.relative_to(folder)))


def read(folder: Path) -> dict[str, int]:
    """Sizes by path.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it cannot be read.
    """
    return msgspec.json.decode((folder / FILE).read_bytes(), type=dict[str, int])
