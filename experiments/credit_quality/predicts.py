"""Does a method's rating tell what it gains in training?

    python -m experiments.credit_quality.predicts RESULTS RUN [RUN ...]
    python -m experiments.credit_quality.predicts docs/credit_quality.json runs/*-rl_only-*

RESULTS  results.json of python -m experiments.credit_quality
RUN      folders of finished runs with budget=rl_only, methods chosen by algo= (and algo.state) alone: several seeds of every method, on
         the model and task that were rated

Prints what each method gained in success on the test games, in points, and the rank correlation of every measure with it."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from experiments.credit_quality.intervals import LEVEL, Interval
from experiments.credit_quality.results import Results, shown, table
from experiments.evaluation.result import RunResult
from records.process.exit_codes import Refusal, answered, say

FEWEST = 4  # methods: fewer have no interval
Gains = Mapping[str, Mapping[int, float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every foreseen error is one line on stderr."""
    return answered(arguments, __doc__, _run, resumes=False)


def _run(arguments: list[str]) -> int:
    if len(arguments) < 2:
        raise Refusal("name the results of a rating, then run folders")
    ratings = _results(Path(arguments[0]))
    gains = gains_of(
        list(map(Path, arguments[1:])), (ratings.about["env"], ratings.about["task"], ratings.about["policy"])
    )
    rated = {name: own for name, own in gains.items() if name in ratings.methods["r"]}
    if left := sorted(gains.keys() - rated.keys()):
        say(f"not rated in {arguments[0]}, so left out: {', '.join(left)}")
    if len(rated) < FEWEST:
        raise Refusal(f"{len(rated)} rated methods have finished runs; a rank correlation takes {FEWEST} or more")
    print(markdown(ratings, rated))
    return 0


def _results(file: Path) -> Results:
    if not file.is_file():
        raise Refusal(f"{file} is no file: name the results.json of a rating")
    return Results.read(file)


def gains_of(runs: Sequence[Path], rated: tuple[str, str, str]) -> Gains:
    """{method: {seed: success of the RL stage less that of the base model, a share of the test games}}.

    Raises:
        Refusal: a run is not of the (environment, task, policy) that was ``rated``, has an SFT stage or no finished RL stage, or its
            method has another with that seed.
    """
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for run in runs:
        method, seed, gain = _gain(run, rated)
        if seed in found[method]:
            raise Refusal(f"{run}: algo={method} has another run with seed {seed}")
        found[method][seed] = gain
    return found


def _gain(run: Path, rated: tuple[str, str, str]) -> tuple[str, int, float]:
    result = RunResult.read(run)
    base, rl = (result.stage(name) if result else None for name in ("base", "rl"))
    if not (result and base and rl) or result.stage("sft"):
        raise Refusal(f"{run} is no finished run of RL alone")
    config = OmegaConf.load(run / "config.yaml")
    if (own := (config.env.name, config.env.task, f"base {config.model.name}")) != rated:
        raise Refusal(f"{run} is of {', '.join(own)}, and rated was {', '.join(rated)}")
    state = config.algo.get("state") or "observation"
    return (
        config.algo.name + (f":state={state}" if state != "observation" else ""),
        result.seed,
        rl.interval.mean - base.interval.mean,
    )


def of_mean(values: Sequence[float]) -> Interval:
    """The mean with Student's 95 % interval; without bounds for one value."""
    from scipy.stats import sem, t

    mean = float(np.mean(values))
    half = float(sem(values) * t.ppf((1 + LEVEL) / 2, len(values) - 1)) if len(values) > 1 else float("nan")
    return Interval(mean, mean - half, mean + half)


def rank_correlation(ratings: Sequence[float], gains: Sequence[float]) -> Interval:
    """Spearman's, with the 95 % interval of Bonett and Wright (2000), doi 10.1007/BF02294183: Fisher's z with the standard error
    sqrt((1 + r^2 / 2) / (n - 3)). It covers which methods were taken, as a sample of such methods. NaN where all ratings are alike."""
    from scipy.stats import norm, rankdata

    ranks = [rankdata(column) for column in (ratings, gains)]
    if min(np.ptp(column) for column in ranks) == 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    r = float(np.corrcoef(*ranks)[0, 1])
    half = norm.ppf((1 + LEVEL) / 2) * np.sqrt((1 + r**2 / 2) / (len(ratings) - 3))
    z = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    return Interval(r, float(np.tanh(z - half)), float(np.tanh(z + half)))


def predicted(ratings: Results, gains: Gains) -> dict[str, Interval]:
    """{measure: its rank correlation with the mean gain}, over the methods that the measure is defined for."""
    mean = {name: float(np.mean(list(seeds.values()))) for name, seeds in gains.items()}
    found = {}
    for measure, row in ratings.methods.items():
        known = [name for name in mean if np.isfinite(row[name].estimate)]
        if len(known) >= FEWEST:
            found[measure] = rank_correlation([row[name].estimate for name in known], [mean[name] for name in known])
    return found


def markdown(ratings: Results, gains: Gains) -> str:
    """Methods by gain, and measures."""
    against, rows = ratings.against, []
    for name, seeds in sorted(gains.items(), key=lambda item: -np.mean(list(item[1].values()))):
        less = [gain - gains[against][seed] for seed, gain in seeds.items() if seed in gains.get(against, {})]
        told = (points(list(seeds.values())), points(less), shown(ratings.methods["r"][name]))
        rows.append([f"`{name}`", str(len(seeds)), *told])
    measures = [[f"`{name}`", shown(found)] for name, found in predicted(ratings, gains).items()]
    head = ["method", "seeds", "gain, points", f"less that of {against}, same seeds", "r"]
    return table(head, rows) + "\n" + table(["measure", "rank correlation with the gain"], measures)


def points(shares: Sequence[float]) -> str:
    """``12.0 (8.1 to 15.9)``."""
    if not shares:
        return "-"
    found = of_mean(shares)
    bounds = f" ({100 * found.low:.1f} to {100 * found.high:.1f})" if len(shares) > 1 else ""
    return f"{100 * found.estimate:.1f}{bounds}"


if __name__ == "__main__":
    sys.exit(main())
