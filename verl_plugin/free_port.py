"""Where a group of training processes meets, asked for on the node of its first process.

verl's own function does the same, but to run it Ray's worker first imports all of verl, five core-seconds for which the
trainer waits. This module imports nothing of verl's.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

import ray


def address_and_port(master_port_range: list[int] | None = None) -> tuple[str, str]:
    """This node's address and a port that is free now, the lowest of ``[first, last)`` where a range is given.

    Raises:
        RuntimeError: every port of the range is taken.
    """
    ports: Iterable[int] = [0] if master_port_range is None else range(*master_port_range)
    for port in ports:
        found = _free(port)
        if found:
            return ray.util.get_node_ip_address().strip("[]"), str(found)
    raise RuntimeError(f"no free port in {master_port_range}")


def _free(port: int) -> int:
    """The port itself, any one for 0; 0 where it is taken."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return 0
        return int(probe.getsockname()[1])
