"""Print the tables of docs/credit_quality.md from results of ``experiments.credit_quality``.

    python -m benchmarks.credit_tables docs/credit_quality/*.json > docs/credit_quality/tables.md
    python -m benchmarks.credit_tables docs/credit_quality.json --gains GAINS.json
    python -m benchmarks.credit_tables docs/credit_quality.json --runs runs/*-rl_only-* > GAINS.json

The first prints several ratings side by side. The second asks whether a method's rating predicts
what it gains in training. The third collects the gains: of finished runs with ``budget=rl_only``
that differ in ``algo=`` and ``seed=`` alone, on the model and task that were rated.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf
from scipy.stats import norm, sem, spearmanr, t

from turngrid.experiments.credit_quality.intervals import LEVEL
from turngrid.experiments.credit_quality.measures import BEST
from turngrid.experiments.credit_quality.results import Results, markdown, summary
from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.tables import shown, table
from turngrid.records.files.json_lines import read_lines
from turngrid.records.statistics import Interval

METHODS = ("grpo", "gigpo", "hgpo", "mt_grpo", "salt", "ppo", "turn_ppo", "graft", "graft:state=history")
BETTER = METHODS[-2:]  # their difference to GRPO is a column
GAIN, MEAN = "gain", "mean success of the steps"
Gains = Mapping[str, Mapping[str, float]]  # by method and seed, shares


# ---- ratings side by side


def side_by_side(ratings: Mapping[str, Results]) -> str:
    """Return the settings, both correlations, and the full table of each setting."""
    whole = "".join(f"## {name}\n\n{summary(one)}\n\n{markdown(one)}\n" for name, one in ratings.items())
    parts = (settings(ratings), "r", compared(ratings, "r"), "r_inside", compared(ratings, "r_inside"), whole)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def settings(ratings: Mapping[str, Results]) -> str:
    """Return a table of what was measured."""
    head = ["setting", "won", "games", "samples", "k", "turns", "reliability", "ceiling of a constant"]
    rows = []
    for name, one in ratings.items():
        numbers = [str(one.about[key]) for key in ("tasks", "samples", "k", "turns")]
        truth = [shown(one.truth[key]) for key in ("reliability", "ceiling")]
        rows.append([f"`{name}`", f"{one.about['won']:.0%}", *numbers, *truth])
    return table(head, rows)


def compared(ratings: Mapping[str, Results], measure: str) -> str:
    """Return a row for each setting, a column for each method; for ``r`` paired differences too."""
    better = BETTER if measure == "r" else ()  # GRPO's ``r_inside`` is 0
    rows = []
    for setting, one in ratings.items():
        own = [_short(one.methods[measure].get(name)) for name in METHODS]
        rows.append([f"`{setting}`", *own, *(_short(one.differences[measure][name]) for name in better)])
    return table(["setting", *(f"`{name}`" for name in METHODS), *(f"`{name}` less `grpo`" for name in better)], rows)


def _short(interval: Interval | None) -> str:
    """Return the estimate with half of its interval's width."""
    if interval is None:
        return "-"
    return f"{interval.mean:.2f} ± {(interval.high - interval.low) / 2:.2f}".replace("-0.00 ", "0.00 ")


# ---- do ratings predict gains?


def gains_of(runs: Sequence[Path]) -> dict[str, Gains]:
    """Return each method's gain on the test games, and its mean training success."""
    outcomes: dict[str, dict[str, dict[str, float]]] = {outcome: defaultdict(dict) for outcome in (GAIN, MEAN)}
    for run in runs:
        config, result = OmegaConf.load(run / "config.yaml"), RunResult.read(run)
        stages = {stage.name: stage.interval.mean for stage in result.stages} if result else {}
        assert stages.keys() == {"base", "rl"}, f"{run} is no finished run of RL alone"
        state = config.algo.get("state") or "observation"
        method = config.algo.name + (f":state={state}" if state != "observation" else "")
        steps = [step["success/train"] for step in read_lines(run / "rl/metrics.jsonl")]
        outcomes[GAIN][method][str(config.seed)] = round(stages["rl"] - stages["base"], 4)
        outcomes[MEAN][method][str(config.seed)] = round(float(np.mean(steps)), 4)
    return {**outcomes}


def predictions(ratings: Results, outcomes: Mapping[str, Gains]) -> str:
    """Return a table of the methods, ordered by gain, and a table of the measures."""
    against, rows = ratings.against, []
    for name, seeds in sorted(outcomes[GAIN].items(), key=lambda item: -np.mean(list(item[1].values()))):
        cells = [cell for gains in outcomes.values() for cell in _cells(gains, name, against)]
        rows.append([f"`{name}`", str(len(seeds)), *cells, shown(ratings.methods["r"][name])])
    measures = [
        [f"`{measure}`", *(shown(predicted(ratings, measure, gains)) for gains in outcomes.values())]
        for measure in ratings.methods
    ]
    head = [cell for outcome in outcomes for cell in (f"{outcome}, points", f"less that of {against}, same seeds")]
    correlations = table(["measure", *(f"rank correlation with the {outcome}" for outcome in outcomes)], measures)
    return f"{table(['method', 'seeds', *head, 'r'], rows)}\n{correlations}"


def predicted(ratings: Results, measure: str, gains: Gains) -> Interval:
    """Return the rank correlation of closeness to the truth with the mean gain over seeds."""
    near = [-abs(ratings.methods[measure][name].mean - BEST[measure]) for name in gains]
    return rank_correlation(near, [float(np.mean(list(seeds.values()))) for seeds in gains.values()])


def rank_correlation(ratings: Sequence[float], gains: Sequence[float]) -> Interval:
    """Return Spearman's rank correlation with the 95 % interval of Bonett and Wright (2000), doi
    10.1007/BF02294183.

    It is Fisher's z with standard error sqrt((1 + r^2 / 2) / (n - 3)). It treats the methods as a
    sample of such methods.
    """
    r = float(spearmanr(ratings, gains).statistic)
    half = norm.ppf((1 + LEVEL) / 2) * np.sqrt((1 + r**2 / 2) / (len(ratings) - 3))
    z = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    return Interval(r, float(np.tanh(z - half)), float(np.tanh(z + half)))


def _cells(gains: Gains, name: str, against: str) -> tuple[str, str]:
    less = [value - gains[against][seed] for seed, value in gains[name].items() if seed in gains[against]]
    return points(list(gains[name].values())), points(less)


def points(shares: Sequence[float]) -> str:
    """Return the mean in points with Student's 95 % interval: ``12.0 (8.1 to 15.9)``."""
    mean, half = np.mean(shares), sem(shares) * t.ppf((1 + LEVEL) / 2, len(shares) - 1)
    return f"{100 * mean:.1f} ({100 * (mean - half):.1f} to {100 * (mean + half):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ratings", nargs="+", type=Path)
    parser.add_argument("--gains", type=Path)
    parser.add_argument("--runs", nargs="+", type=Path)
    options = parser.parse_args()
    ratings = {file.stem: Results.read(file) for file in options.ratings}
    if options.runs:
        print(json.dumps(gains_of(options.runs), indent=1, sort_keys=True))
    elif options.gains:
        print(predictions(next(iter(ratings.values())), json.loads(options.gains.read_text(encoding="utf-8"))))
    else:
        print(side_by_side(ratings), end="")


if __name__ == "__main__":
    main()
