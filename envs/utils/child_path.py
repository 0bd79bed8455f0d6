"""The module search path of child processes."""

import os
import sys
import sysconfig


def child_path() -> str:
    """Return this process's search path as a value of ``PYTHONPATH``.

    A child with ``-P`` imports what this process would import, also from another folder.
    """
    # PYTHONPATH may have changed since the start
    typed = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folders = map(os.path.abspath, [*sys.path[:1], *typed, *sys.path])
    own = {*sysconfig.get_paths().values()}  # the child adds these itself
    return os.pathsep.join(dict.fromkeys(folder for folder in folders if folder not in own and os.path.exists(folder)))
