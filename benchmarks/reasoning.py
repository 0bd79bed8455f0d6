"""Correlate metrics with success: mutual information, entropy and others, over several runs.

    python -m benchmarks.reasoning RUN RUN...
    python -m benchmarks.reasoning later=5 runs/*

RUN      folders of runs with tracking.reasoning, or their metrics.jsonl; at least two
later=3  also correlate with the mean success of so many next steps

Prints Spearman's correlation of each metric with success/train, over all steps of all runs: with
the success of the same step, and with later success. The 95 % intervals are by a bootstrap over
runs (2,000 resamples). The last line compares the sizes of two correlations. docs/reasoning.md
explains the metrics."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turngrid.experiments import tables
from turngrid.records.files.json_lines import read_lines
from turngrid.records.process.exit_codes import Refusal, command, own_words
from turngrid.records.resume import RlFolder

SUCCESS, INFORMATION, ENTROPY = "success/train", "reasoning/mutual_information", "rollout/entropy"
PER_TOKEN = ("mutual_information", "conditional_entropy", "marginal_entropy")
OTHERS = (*(f"{name}_per_token" for name in PER_TOKEN), "mutual_information_z", "retrieval")
METRICS = (INFORMATION, *(f"reasoning/{name}" for name in OTHERS), ENTROPY, "credit/group_std/mean", SUCCESS)
COLUMNS = ("this step", "later")
RESAMPLES = 2000
ENOUGH = 4  # measured steps of a run at least
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class Options:
    later: int = 3


@command(__doc__, refused=(OSError,), resumes=False)
def main(arguments: list[str]) -> int:
    options = Options()
    words, others = own_words(arguments, options)
    if others:
        raise Refusal(f"{others[0]}: this command takes later= and run folders; use later=3")
    runs = [points(Path(word), options.later) for word in words]
    if len(runs) < 2:
        raise Refusal(f"RUN={words[0] if words else ''}: intervals are over runs; use two run folders or more")
    print(table(runs, options.later), end="")
    return 0


def points(run: Path, later: int) -> Array:
    """Return one row a measured step: ``METRICS``, then the mean success of the next steps.

    Raises:
        Refusal: the run has too few such steps.
    """
    file = RlFolder(run).metrics if run.is_dir() else run
    lines = {int(line["step"]): line for line in read_lines(file)}
    rows = []
    for step, line in lines.items():
        following = [lines[number][SUCCESS] for number in range(step + 1, step + 1 + later) if number in lines]
        if len(following) == later and all(name in line for name in METRICS):
            rows.append([*(line[name] for name in METRICS), np.mean(following)])
    if len(rows) < ENOUGH:
        use = f"use a run of {later + ENOUGH} steps with tracking.reasoning=16"
        raise Refusal(f"RUN={run}: {len(rows)} steps have {INFORMATION} and {later} later ones; {use}")
    return np.array(rows)


def correlations(runs: Sequence[Array]) -> Array:
    """Return Spearman's correlations, (``METRICS``, ``COLUMNS``), of the ``points`` of runs.

    They are NaN if a column is constant.
    """
    from scipy.stats import rankdata

    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = np.corrcoef(rankdata(np.concatenate(runs), axis=0), rowvar=False)
    return pooled[:-1, [METRICS.index(SUCCESS), len(METRICS)]]


def table(runs: Sequence[Array], later: int) -> str:
    """Return the correlations as Markdown, and the comparison."""
    draws = np.random.default_rng(0).integers(len(runs), size=(RESAMPLES, len(runs)))
    value = correlations(runs)
    resampled = np.array([correlations([runs[n] for n in draw]) for draw in draws])
    head = f"{len(runs)} runs, {sum(map(len, runs))} steps; later: mean success of the next {later} steps"
    first, second = METRICS.index(INFORMATION), METRICS.index(ENTROPY)
    gain, gains = (np.abs(own[..., first, :]) - np.abs(own[..., second, :]) for own in (value, resampled))
    rows = {f"`{name}`": (value[row], resampled[:, row]) for row, name in enumerate(METRICS)}
    rows[f"size of the first less that of `{ENTROPY}`"] = gain, gains
    columns = range(len(COLUMNS))
    cells = [[name, *(_shown(own[n], drawn[:, n]) for n in columns)] for name, (own, drawn) in rows.items()]
    return f"{head}\n\n{tables.table(['metric', *COLUMNS], cells)}"


def _shown(value: float, resampled: Array) -> str:
    low, high = np.nanpercentile(resampled, [2.5, 97.5])
    return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


if __name__ == "__main__":
    sys.exit(main())
