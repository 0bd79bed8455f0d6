"""Progress bars whose clock goes on while nothing gets done, so that nobody takes a wait for a hang."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

TERMINAL_SECONDS, LOG_SECONDS = 1.0, 5.0


@contextmanager
def ticking_bar(**settings: Any) -> Iterator[tqdm]:
    """tqdm's bar with these settings, drawn anew every second on a terminal, every five in a log."""
    with tqdm(**settings) as bar:
        ended = threading.Event()
        ticker = threading.Thread(target=_tick, args=(bar, ended), daemon=True)
        if not bar.disable:
            ticker.start()
        try:
            yield bar
        finally:
            ended.set()
            if not bar.disable:
                ticker.join()


def _tick(bar: tqdm, ended: threading.Event) -> None:
    while not ended.wait(TERMINAL_SECONDS if sys.stderr.isatty() else LOG_SECONDS):
        bar.refresh()
