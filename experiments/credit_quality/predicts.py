"""Does a method's rating predict what it gains in training?

    python -m experiments.credit_quality.predicts RESULTS RUN [RUN ...] [keep=FILE]
    python -m experiments.credit_quality.predicts docs/credit_quality.json runs/*-rl_only-*
    python -m experiments.credit_quality.predicts docs/credit_quality.json gains.json

RESULTS  results.json of python -m experiments.credit_quality
RUN      folders of finished runs with budget=rl_only that differ in algo= (and algo.state) alone:
         several seeds of every method, on the model and task that were rated
         or one file that keep= wrote

Prints two outcomes of each method in points: the gain in success on the test games, and the mean
success of the training steps. For every measure it prints the rank correlation of each outcome with
how near a method is to the truth."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.credit_quality.intervals import BEST, LEVEL, Interval
from turngrid.experiments.credit_quality.results import Results, shown, table
from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.metrics import read_metrics
from turngrid.records.process.exit_codes import Refusal, command, own_words, say

FEWEST = 4  # methods: fewer have no interval
ABOUT = "about"  # in a kept file: the environment, the task and the policy
METRICS, TRAINED = "rl/metrics.jsonl", "success/train"
GAIN, MEAN = "gain", "mean success of the steps"
Gains = Mapping[str, Mapping[int, float]]  # by method and seed, shares
Outcomes = Mapping[str, Gains]


@dataclass
class Options:
    """``keep``: a file for the outcomes of the runs."""

    keep: str = ""


@command(__doc__, resumes=False)
def main(arguments: list[str]) -> int:
    options = Options()
    words, unknown = own_words(arguments, options, Refusal)
    if len(words) < 2 or unknown:
        raise Refusal(
            "name the results of a rating, then run folders or one file that keep= wrote; keep=FILE is optional"
        )
    ratings = _results(Path(words[0]))
    outcomes = _gains([Path(word) for word in words[1:]], _rated(ratings))
    if options.keep:
        kept = {ABOUT: _rated(ratings), **outcomes}
        write_whole(Path(options.keep), json.dumps(kept, indent=1, sort_keys=True) + "\n")
    known = ratings.methods["r"]
    if left := sorted(outcomes[GAIN].keys() - known.keys()):
        say(f"not rated in {words[0]}, so left out: {', '.join(left)}")
    rated = {
        outcome: {name: own for name, own in gains.items() if name in known} for outcome, gains in outcomes.items()
    }
    if len(rated[GAIN]) < FEWEST:
        raise Refusal(f"{len(rated[GAIN])} rated methods have finished runs; a rank correlation takes {FEWEST} or more")
    print(markdown(ratings, rated))
    return 0


def _results(file: Path) -> Results:
    if not file.is_file():
        raise Refusal(f"{file} is no file: name the results.json of a rating")
    try:
        return Results.read(file)
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{file} is no results.json of a rating") from error


def _rated(ratings: Results) -> tuple[str, str, str]:
    return ratings.about["env"], ratings.about["task"], ratings.about["policy"]


def _gains(paths: Sequence[Path], rated: tuple[str, str, str]) -> Outcomes:
    if not paths[0].is_file():
        return gains_of(paths, rated)
    if len(paths) > 1:
        raise Refusal(f"{paths[1]}: {paths[0]} has the outcomes of all runs; name it alone")
    about, outcomes = read_gains(paths[0])
    _refuse_others(paths[0], about, rated)
    return outcomes


def read_gains(file: Path) -> tuple[tuple[str, ...], Outcomes]:
    """Read (environment, task, policy) and the outcomes from a file of ``keep=``.

    Raises:
        Refusal: it is another file.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return tuple(data[ABOUT]), {
            outcome: {name: {int(seed): value for seed, value in own.items()} for name, own in data[outcome].items()}
            for outcome in (GAIN, MEAN)
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(f"{file} is no file that keep= has made: name it, or folders of runs") from error


def _refuse_others(what: Path, own: tuple[str, ...], rated: tuple[str, str, str]) -> None:
    if own != rated:
        raise Refusal(f"{what} is of {', '.join(own)}, and rated was {', '.join(rated)}")


def gains_of(runs: Sequence[Path], rated: tuple[str, str, str]) -> Outcomes:
    """Return each method's gain in success by RL on the test games, and its mean training success.

    Raises:
        Refusal: a run has another (environment, task, policy) than ``rated``, has SFT or no
            finished RL, or repeats a method's seed.
    """
    outcomes: dict[str, dict[str, dict[int, float]]] = {outcome: defaultdict(dict) for outcome in (GAIN, MEAN)}
    for run in runs:
        method, seed, gain = _gain(run, rated)
        if seed in outcomes[GAIN][method]:
            raise Refusal(f"{run}: algo={method} has another run with seed {seed}")
        outcomes[GAIN][method][seed] = round(gain, 4)
        steps = [step[TRAINED] for step in read_metrics(run / METRICS)]
        outcomes[MEAN][method][seed] = round(float(np.mean(steps)), 4)
    return outcomes


def _gain(run: Path, rated: tuple[str, str, str]) -> tuple[str, int, float]:
    result = RunResult.read(run)
    base, rl = (result.stage(name) if result else None for name in ("base", "rl"))
    if not (result and base and rl) or result.stage("sft"):
        raise Refusal(f"{run} is no finished run of RL alone")
    config = OmegaConf.load(run / "config.yaml")
    _refuse_others(run, (config.env.name, config.env.task, f"base {config.model.name}"), rated)
    state = config.algo.get("state") or "observation"
    return (
        config.algo.name + (f":state={state}" if state != "observation" else ""),
        result.seed,
        rl.interval.mean - base.interval.mean,
    )


def of_mean(values: Sequence[float]) -> Interval:
    """Return the mean with Student's 95 % interval; one value has no bounds."""
    from scipy.stats import sem, t

    mean = float(np.mean(values))
    half = float(sem(values) * t.ppf((1 + LEVEL) / 2, len(values) - 1)) if len(values) > 1 else float("nan")
    return Interval(mean, mean - half, mean + half)


def rank_correlation(ratings: Sequence[float], gains: Sequence[float]) -> Interval:
    """Return Spearman's rank correlation with the 95 % interval of Bonett and Wright (2000), doi
    10.1007/BF02294183.

    It is Fisher's z with standard error sqrt((1 + r^2 / 2) / (n - 3)). It treats the methods as a
    sample of such methods. NaN if all ratings are equal.
    """
    from scipy.stats import norm, rankdata

    ranks = [rankdata(column) for column in (ratings, gains)]
    if min(np.ptp(column) for column in ranks) == 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    r = float(np.corrcoef(*ranks)[0, 1])
    half = norm.ppf((1 + LEVEL) / 2) * np.sqrt((1 + r**2 / 2) / (len(ratings) - 3))
    z = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    return Interval(r, float(np.tanh(z - half)), float(np.tanh(z + half)))


def predicted(ratings: Results, gains: Gains) -> dict[str, Interval]:
    """Return, by measure, the rank correlation of closeness to the truth with the mean over
    seeds.
    """
    mean = {name: float(np.mean(list(seeds.values()))) for name, seeds in gains.items()}
    correlations = {}
    for measure, row in ratings.methods.items():
        known = [name for name in mean if np.isfinite(row[name].estimate)]
        if len(known) >= FEWEST:
            near = [-abs(row[name].estimate - BEST[measure]) for name in known]
            correlations[measure] = rank_correlation(near, [mean[name] for name in known])
    return correlations


def markdown(ratings: Results, outcomes: Outcomes) -> str:
    """Return a table of the methods, ordered by gain, and a table of the measures."""
    against, rows = ratings.against, []
    for name, seeds in sorted(outcomes[GAIN].items(), key=lambda item: -np.mean(list(item[1].values()))):
        cells = [cell for gains in outcomes.values() for cell in _cells(gains, name, against)]
        rows.append([f"`{name}`", str(len(seeds)), *cells, shown(ratings.methods["r"][name])])
    correlations = {outcome: predicted(ratings, gains) for outcome, gains in outcomes.items()}
    measures = [[f"`{name}`", *(shown(own[name]) for own in correlations.values())] for name in correlations[GAIN]]
    head = [cell for outcome in outcomes for cell in (f"{outcome}, points", f"less that of {against}, same seeds")]
    return (
        table(["method", "seeds", *head, "r"], rows)
        + "\n"
        + table(["measure", *(f"rank correlation with the {outcome}" for outcome in outcomes)], measures)
    )


def _cells(gains: Gains, name: str, against: str) -> tuple[str, str]:
    baseline = gains.get(against, {})
    less = [value - baseline[seed] for seed, value in gains[name].items() if seed in baseline]
    return points(list(gains[name].values())), points(less)


def points(shares: Sequence[float]) -> str:
    """Return ``12.0 (8.1 to 15.9)``."""
    if not shares:
        return "-"
    mean = of_mean(shares)
    bounds = f" ({100 * mean.low:.1f} to {100 * mean.high:.1f})" if len(shares) > 1 else ""
    return f"{100 * mean.estimate:.1f}{bounds}"


if __name__ == "__main__":
    sys.exit(main())
