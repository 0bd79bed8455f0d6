"""What a process must not import that only holds a handle."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, turngrid.verl_plugin.servers.transformers_server.server
print([name for name in ('torch', 'transformers', 'verl') if name in sys.modules])
"""


def test_a_server_is_held_without_anything_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
