"""The user's clone of tau2-bench: what is needed of it, and its tasks."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from turngrid.envs.functions import Function

CLONE = "git clone https://github.com/sierra-research/tau2-bench"
PACKAGES = {
    "loguru": "loguru",
    "deepdiff": "deepdiff",
    "addict": "addict",
    "toml": "toml",
    "dotenv": "python-dotenv",
    "docstring_parser": "docstring-parser",
}
DATA = "data/tau2/domains/telecom"
TASKS, SPLITS = f"{DATA}/tasks.json", f"{DATA}/split_tasks.json"
NEEDED = (TASKS, SPLITS, f"{DATA}/db.toml", f"{DATA}/user_db.toml", "src/tau2/domains/telecom/environment.py")
DONE = Function("done", "when you are done with the ticket; it ends the episode")


@functools.cache
def source(clone: Path) -> str:
    """Return a hash of all that determines a game beside its seed: tau2's tasks, databases, rules
    and tools.
    """
    code = [path for part in ("domains/telecom", "environment") for path in (clone / "src/tau2" / part).glob("*.py")]
    data = [path for path in (clone / DATA).iterdir() if path.suffix in (".toml", ".md")]
    digest = hashlib.sha256()
    for path in sorted([clone / TASKS, *code, *data]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def tasks(clone: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((clone / TASKS).read_text())
    return found
