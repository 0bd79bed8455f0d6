"""Ports that are really free, and a function that Ray can run without importing verl."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from verl_plugin.free_port import address_and_port


def test_a_port_that_can_be_bound() -> None:
    _, port = address_and_port()
    with socket.socket() as probe:
        probe.bind(("", int(port)))


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        first = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match="no free port"):
            address_and_port([first, first + 1])
        assert int(address_and_port([first, first + 50])[1]) > first


def test_it_comes_without_verl() -> None:
    script = "import sys, verl_plugin.free_port; print('verl' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
