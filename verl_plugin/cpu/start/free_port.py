"""Where a group of training processes meets, asked for on the node of its first process.

verl's own function does the same, but to run it Ray's worker, where it is no copy of the template, first imports all of verl,
five core-seconds for which the trainer waits. This module imports nothing of verl's.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from pathlib import Path

import ray

FIRST = 20_000  # Ray's workers have those below
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES = 100


def address_and_port(master_port_range: list[int] | None = None) -> tuple[str, str]:
    """This node's address and a port that is free now, the lowest of ``[first, last)`` where a range is given.

    Raises:
        RuntimeError: every port of the range is taken.
    """
    ports: Iterable[int] = _likely_to_stay_free() if master_port_range is None else range(*master_port_range)
    for port in ports:
        found = _free(port)
        if found:
            return ray.util.get_node_ip_address().strip("[]"), str(found)
    raise RuntimeError(f"no free port in {master_port_range}")


def _likely_to_stay_free() -> list[int]:
    """Seconds go by before the group meets there, and the system may give a port of its own range to anybody's connection
    meanwhile. So ports below that range come first, drawn at random since other runs look for one too."""
    first_outgoing = int(OUTGOING.read_text().split()[0]) if OUTGOING.exists() else 32_768
    below = range(FIRST, max(FIRST, first_outgoing))
    return [*random.SystemRandom().sample(below, min(TRIES, len(below))), 0]


def _free(port: int) -> int:
    """The port itself, any one for 0; 0 where it is taken."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return 0
        return int(probe.getsockname()[1])
