"""The module search path of child processes."""

import os
import sys


def child_path() -> str:
    """Return this process's search path as a value of ``PYTHONPATH``.

    A child with ``-P`` imports what this process would import, also from another folder.
    """
    # PYTHONPATH may have changed since the start. Only the folder of the command comes before it.
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folders = map(os.path.abspath, [*sys.path[:1], *given, *sys.path])
    return os.pathsep.join(dict.fromkeys(folder for folder in folders if os.path.exists(folder)))
