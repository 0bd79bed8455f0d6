"""Progress bars whose clock also runs while no unit is completed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

TERMINAL_SECONDS, LOG_SECONDS, MOST = 1.0, 5.0, 60.0


@contextmanager
def ticking_bar(**settings: Any) -> Iterator[tqdm]:
    """Yield tqdm's bar with these settings.

    It is redrawn each second on a terminal; in a log after 5 s, then ever more rarely.
    """
    from tqdm import tqdm  # not imported by commands without a bar

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
    pause, slower = (TERMINAL_SECONDS, 1) if sys.stderr.isatty() else (LOG_SECONDS, 2)
    while not ended.wait(pause):
        bar.refresh()
        pause = min(slower * pause, MOST)
