"""Cost of the turn table and of every method on a large step: CPU seconds, and memory at its peak.

    python -m benchmarks.credit --episodes 1024 --turns 50 --tokens 16384

A third of a row's tokens are actions. Turns answer few states, so that most are compared with
others. The second of two calls counts. Memory is the peak RSS above the rows; for a method, also
above the table and its result.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from turngrid.algorithms.registry import ESTIMATORS, SLOTS
from turngrid.algorithms.slots import Tokens
from turngrid.algorithms.turn_table import ENDS, NAMED, span_field, turn_table
from turngrid.algorithms.turns import Turns, credited
from turngrid.config.compose import compose
from turngrid.config.method_settings import methods_of
from turngrid.rewards.registry import PLAN_SHARE

GROUP, STATES, ACTIONS, LABELS = 8, 40, 6, 2  # samples a prompt; states of a group; actions; kinds of answer
FIRST, STEPS = 1, 10  # of a run
PARTS = ("switch", "subgoal", "action")  # a third of an answer each


class Step:
    """Made-up rows: ``tokens``, (B, T) by name, and ``columns`` of their turns."""

    def __init__(self, episodes: int, turns: int, tokens: int) -> None:
        draw = torch.Generator().manual_seed(0)
        size = tokens // turns // 3  # of an action
        place = torch.arange(tokens) % (tokens // turns)
        turn = torch.arange(tokens) // (tokens // turns)
        mask = ((place < size) & (turn < turns)).repeat(episodes, 1)
        self.tokens = {"loss_mask": mask.long(), "reward": torch.zeros(mask.shape)}
        self.tokens |= {name: torch.rand(mask.shape, generator=draw) for name in ("entropy", "values")}
        self.tokens["reward"][:, :: tokens // turns] = 1.0
        most = {"state": STATES, "after": STATES, "action": ACTIONS, "valid": 10, "label": LABELS, "node": 10**6}
        most |= {"attempt": 2, "role": 2}
        self.columns = {
            name: list(torch.randint(bound, (episodes, turns), generator=draw)) for name, bound in most.items()
        }
        self.columns["parsed"] = self.columns["valid"]
        self.columns[f"{NAMED}{PLAN_SHARE}"] = list(torch.rand(episodes, turns, generator=draw))
        self.columns["garbled"] = [torch.zeros(turns).bool()] * episodes
        self.columns |= {name: [torch.tensor([row % 4]) for row in range(episodes)] for name in ("outcome", "tree")}
        for number, part in enumerate(PARTS):
            for end, which in enumerate(ENDS):
                edge = size * (number + end) // 3
                self.columns[span_field(part, which)] = [torch.full((turns,), edge)] * episodes
        self.groups = [f"{row // GROUP:06d}" for row in range(episodes)]
        self.members = {f"{group}_{row}": [row] for row, group in enumerate(self.groups)}

    def table(self) -> Turns:
        """Return the turn table; for methods with contexts, any numbers are the log-probs."""
        table = turn_table(self.tokens, self.columns, self.members, self.groups)
        scored = {f"{slot}/{name}": self.tokens["entropy"] for slot in ("credit", "terms") for name in SLOTS[slot]}
        return replace(table, log_prob=self.tokens["values"], contexts=scored)


def usual(slot: str, name: str) -> Any:
    """Return a method with the settings of its YAML."""
    words = [f"algo={name}"] if slot == "algo" else [f"{slot}=[{name}]"]
    return methods_of(compose(words)).of(slot, FIRST)[name]


def calls(step: Step, table: Turns) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the calls to measure by name."""
    mask, values = step.tokens["loss_mask"].bool(), step.tokens["values"]
    seen = Tokens(mask, step.tokens["reward"], values, heads=(values, values), kl=values)
    yield "turn table", step.table
    for name in ESTIMATORS:
        estimator = usual("algo", name)
        yield f"algo={name}", lambda made=estimator: made(table, seen)
    for name in SLOTS["credit"]:
        credit = {name: usual("credit", name)}
        yield f"credit={name}", lambda made=credit: credited(made, table, values, mask, "grpo", "episode")
    for name in SLOTS["filter"]:
        chosen = usual("filter", name)
        yield f"filter={name}", lambda made=chosen: made(table, FIRST)
    for name in SLOTS["terms"]:
        prepare, own = usual("terms", name).prepare, table.seen_by("terms", name)
        yield f"terms={name}", partial(prepare, own, table.mask, values, FIRST, STEPS)


def measured(call: Callable[[], Any]) -> tuple[float, float]:
    """Return CPU seconds, and MiB at the peak above what the process held before."""
    call()  # whatever torch does once
    ctypes.CDLL(None).malloc_trim(0)  # what is free goes back to the system, so that what is taken shows
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, start = _memory("VmRSS"), time.process_time()
    found = call()
    seconds, peak = time.process_time() - start, _memory("VmHWM")
    return seconds, max(0.0, peak - before - _columns(found))


def _columns(found: Any) -> float:
    """Return the size in MiB of a method's result."""
    if isinstance(found, torch.Tensor):
        return found.nbytes / 2**20
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else ()
    return sum(map(_columns, parts))


def _memory(name: str) -> float:
    """Return MiB from Linux's ``/proc/self/status``."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in (("episodes", 1024), ("turns", 50), ("tokens", 16384)):
        parser.add_argument(f"--{name}", type=int, default=size)
    args = parser.parse_args()
    shown = Table(
        "method", "CPU seconds", "MiB", title=f"{args.episodes} episodes x {args.turns} turns, {args.tokens} tokens"
    )
    step = Step(args.episodes, args.turns, args.tokens)
    for name, call in calls(step, step.table()):
        seconds, memory = measured(call)
        shown.add_row(name, f"{seconds:.3f}", f"{memory:.0f}")
    Console().print(shown)


if __name__ == "__main__":
    main()
