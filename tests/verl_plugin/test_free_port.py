"""Ports that are really free."""

from __future__ import annotations

import socket

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
