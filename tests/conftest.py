"""What holds for every test: one thread a library, no network look-ups, verl's CPU platform."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VERL_PLATFORM", "cpu")
os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "verl_plugin")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take a minute or more begin first, so that no core waits for one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("whole_run") is None)
