"""Which charts a report has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.report import charts
from experiments.report.charts import Chart
from experiments.report.methods import Reliability
from experiments.report.runs import LAST, Run, grouped
from experiments.report.selection import BASE
from experiments.report.series import metric_subplots, same_lines, success_subplots
from records.statistics import WINDOW

FEW = 4  # scores: so few that no quarter of them can be dropped
Task = tuple[str, str]


def drawn(runs: Sequence[Run], found: Reliability | None) -> Mapping[str, Sequence[Chart]]:
    """Charts by section, each empty where there is nothing to draw."""
    whole = _reliability(found) if found else []
    return {"curves": _curves(runs), "training": _training(runs), "heat": _heat(runs), "reliability": whole}


def _training(runs: Sequence[Run]) -> list[Chart]:
    found = metric_subplots(runs)
    note = (
        "Each step of RL; docs/tracking.md says what each is. What no run has, or what was 0 throughout, is left out."
    )
    return [Chart("training", "While training", charts.training(found), note)] if found else []


def _curves(runs: Sequence[Run]) -> list[Chart]:
    found = success_subplots(runs)
    if not found:
        return []
    several = any(series.seeds > 1 for subplot in found for series in subplot.series)
    note = "Success of the policy while it trains, on training games, at the training temperature: not the test."
    if any(len(series.steps) > WINDOW for subplot in found for series in subplot.series):
        note += f" Thick: mean of the last {WINDOW} steps; thin: each step."
    note += " Line: mean over seeds; band: from the lowest to the highest seed." if several else ""
    if not all(run.result for run in runs if run.curve.steps):
        note += " Runs without a result are drawn as far as they got, where no other run of the setting has one."
    if same := same_lines(found):
        note += f" Equal in every step, so that one line covers the others: {'; '.join(same)}."
    counted = all(series.episodes[-1:] > 0 for subplot in found for series in subplot.series)
    ways = ["steps", "episodes"] if counted else ["steps"]
    return [Chart(f"curves-{by}", f"Learning curves by {by}", charts.curves(found, by), note) for by in ways]


def _heat(runs: Sequence[Run]) -> list[Chart]:
    finished = [run for run in runs if run.result]
    evaluation_sets = list(dict.fromkeys(evaluation_set for run in finished for evaluation_set in run.evaluation_sets))
    if not any(len(run.evaluation_sets) > 1 for run in finished):
        return []
    settings = grouped(finished, nameless="last model")
    rows = [("base model", BASE, finished), *((name, LAST, group) for name, group in settings.items())]
    values = np.array(
        [[_mean(group, stage, evaluation_set) for evaluation_set in evaluation_sets] for _, stage, group in rows]
    )
    environments = len({env for env, _ in evaluation_sets}) > 1
    names = [f"{env}/{task}" if environments else task for env, task in evaluation_sets]
    svg = charts.heat_map([name for name, _, _ in rows], names, values)
    note = "Last model of each setting, mean over seeds; the table has the intervals."
    return [Chart("heat", "Generalisation: success on every evaluation set", svg, note)]


def _mean(runs: Sequence[Run], stage: str, evaluation_set: Task) -> float:
    evaluations = [run.evaluation(stage, "/".join(evaluation_set)) for run in runs]
    values = [evaluation.interval.mean for evaluation in evaluations if evaluation]
    return float(np.mean(values)) if values else np.nan


def _reliability(found: Reliability) -> list[Chart]:
    seeds = sorted({len(method.seeds) for method in found.methods})
    size = f"{' or '.join(map(str, seeds))} seeds on {len(found.tasks)} task{'s' * (len(found.tasks) != 1)} a method"
    few = min(method.scores.size for method in found.methods) < FEW
    iqm_note = f"{size}. " + ("With so few scores no quarter can be dropped, so this is the plain mean." if few else "")
    made = [
        Chart("iqm", "Interquartile mean", charts.whiskers("iqm", found.iqm, "success, % of games"), iqm_note),
        Chart("profiles", "Performance profiles", charts.profiles(found), f"{size}; bands are 95 % intervals."),
    ]
    if found.improvements:
        pairs = {f"{item.first} > {item.second}": item.interval for item in found.improvements}
        label = "probability that the first does better, %"
        svg = charts.whiskers("improvement", pairs, label, middle=50)
        note = "That a run of the first beats one of the second; 50 %: no difference. A tie counts half."
        made.append(Chart("improvement", "Probability of improvement", svg, note))
    return made
