"""The report of 200 runs of real size: at most 20 s and 10 MB."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.report import LIMIT_MB, LIMIT_SECONDS, make, measure


@pytest.mark.slow
def test_two_hundred_runs_in_twenty_seconds_and_ten_megabytes(tmp_path: Path) -> None:
    wall, _, megabytes = measure(make(tmp_path, seeds=10))
    assert wall <= LIMIT_SECONDS
    assert megabytes <= LIMIT_MB
