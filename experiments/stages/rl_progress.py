"""What a trainer in another process is doing, from what it leaves in its folder: steps, and where the present one is."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tqdm import tqdm

from experiments.stages.no_signal import NoSignal
from records.metrics import read_metrics
from records.process.exit_codes import say
from records.resume import RlFolder
from records.turns_played import turns_played

STARTING = "starting Ray, models and games"
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 20.0  # between two states of the bar: each is a line of a log


def doing(rl: RlFolder, step: int, first: bool, prompts: int, samples: int) -> str:
    """In words, what step number ``step``, perhaps the first of this process, is at. A prompt's samples reach the disk together, once all have been played."""
    folder = rl.episodes / f"{step:06d}"
    if (validated := rl.validation / folder.name).exists():
        return f"validating: {len(list(validated.glob('*.jsonl')))} games{_turns(validated)} played"
    if not folder.exists():
        return STARTING if first and not rl.step_episodes(step).exists() else "between two steps"
    if rl.groups.exists():
        return f"playing and learning{_turns(rl.groups)}"
    played = samples * len(list(folder.glob("*.jsonl")))
    if played < prompts * samples:
        return f"playing: {played} of {prompts * samples} episodes{_turns(folder)}"
    return f"learning from {played} episodes"


def _turns(folder: Path) -> str:
    """Turns so far, also those of episodes that have not ended."""
    turns = turns_played(folder)
    return f", {turns:,} turns" if turns else ""


class Progress:
    """A bar of steps, with what the present one is at. Steps are counted from 1; ``done`` are behind us.
    When several in a row had no signal, it says so, and once what to try."""

    def __init__(self, rl: RlFolder, steps: int, done: int, prompts: int, samples: int, no_signal: NoSignal) -> None:
        self._rl, self._prompts, self._samples, self._no_signal = rl, prompts, samples, no_signal
        self._done = done
        self._size, self._won, self._shown_at = -1, "", 0.0
        self._flat, self._advised = "", False
        self._pause = TERMINAL_SECONDS if sys.stderr.isatty() else LOG_SECONDS
        self._bar = tqdm(total=steps, initial=done, desc="RL", unit="step")

    def update(self) -> None:
        """Look again; called a few times a second."""
        self._count_steps()
        if time.monotonic() - self._shown_at < self._pause:
            return
        ended, whole = int(self._bar.n), self._bar.total
        first = ended == self._done
        phase = doing(self._rl, ended + 1, first, self._prompts, self._samples) if ended < whole else ""
        self._shown_at = time.monotonic()
        self._bar.set_postfix_str(", ".join(filter(None, [phase, self._won, self._flat])))

    def _count_steps(self) -> None:
        metrics = self._rl.metrics
        size = metrics.stat().st_size if metrics.exists() else 0
        if size == self._size:
            return
        self._size = size
        lines = list(read_metrics(metrics))
        # of a step's episodes that were won: of those from the start, or where there are none of the others
        named = (
            (line, next((name for name in sorted(line) if name.startswith("success/train")), "")) for line in lines
        )
        shares = [(line["step"], line[name]) for line, name in named if name]
        if shares:
            step, share = shares[-1]
            self._won = f"won {share:.0%} in step {step}"
            self._bar.update(step - self._bar.n)
        self._flat = self._no_signal.now(lines)
        if self._flat and not self._advised:
            self._advised = True
            with tqdm.external_write_mode(file=sys.stderr):
                say(f"note: {self._no_signal.note(lines)}")

    def close(self) -> None:
        self._bar.set_postfix_str(", ".join(filter(None, [self._won, self._flat])))
        self._bar.close()
