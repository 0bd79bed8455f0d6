"""Other checkouts of this project, run by this environment's Python."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkout"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", place, commit], check=True)
        try:
            yield place
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", place], check=True)


def is_package(checkout: Path) -> bool:
    """Return whether its folders are imported as ``turngrid.FOLDER``, as since 20947cf."""
    return "from turngrid." in (checkout / "train" / "__main__.py").read_text(encoding="utf-8")


@contextmanager
def import_variables(checkout: Path) -> Iterator[dict[str, str]]:
    """Yield the environment variables with which a process imports this checkout.

    The environment's own install of ``turngrid`` would be imported otherwise, and so would its
    plugin in verl's processes. A commit before 20947cf has its packages at the top level.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "turngrid").symlink_to(checkout.resolve(), target_is_directory=True)
        if is_package(checkout):
            yield {"PYTHONPATH": folder}
        else:
            yield {"PYTHONPATH": os.pathsep.join([folder, str(checkout)]), "VERL_USE_EXTERNAL_PLUGINS": "none"}
