"""A bar's clock goes on while nothing gets done, and stops with the bar."""

from __future__ import annotations

import io
import threading
import time

import pytest

from turngrid.envs.utils import bar
from turngrid.envs.utils.bar import ticking_bar


@pytest.mark.parametrize("disable", [False, True])
def test_a_bar_is_drawn_again_while_nothing_happens(monkeypatch: pytest.MonkeyPatch, disable: bool) -> None:
    monkeypatch.setattr(bar, "LOG_SECONDS", 0.05)
    before, out = threading.active_count(), io.StringIO()
    with ticking_bar(total=3, desc="games", file=out, disable=disable):
        end = time.monotonic() + (0.5 if disable else 60)
        while out.getvalue().count("games:   0%") < 3 and time.monotonic() < end:
            time.sleep(0.01)
    assert (out.getvalue().count("games:   0%") >= 3) is not disable
    assert bool(out.getvalue()) is not disable
    assert threading.active_count() <= before + 1  # tqdm's own stays
