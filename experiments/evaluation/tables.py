"""The tables that end a run: stages, evaluation sets, episodes, and paired comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turngrid.experiments.evaluation.matrix import EvaluationResult, PairedComparison
from turngrid.experiments.evaluation.result import RunResult, StageResult
from turngrid.records.stages import stage_name
from turngrid.records.statistics import Interval

WIDTH = 110
SHOWN_HEX = 8  # shown digits of an evaluation set's hash
MANY_POLICIES = 5  # if there are more, only neighbours are compared; result.json has all pairs


def summary_table(result: RunResult) -> str:
    """Return a run's tables as plain text, its paths, and a note on steps without signal."""
    table = Table(title=result.name, caption=_caption(result), title_justify="left", caption_justify="left")
    table.add_column("stage")
    for heading in ("success %", "95 % interval", "games", "turns to win", "units", "tokens", "seconds"):
        table.add_column(heading, justify="right")
    for stage in result.stages:
        table.add_row(*_row(stage))
    tables = [table, *matrix_tables(result.matrix), *comparisons_table(result.comparisons)]
    flat = result.notes.get("no_signal")
    places = f"run folder:     {result.folder}\n"  # outside the tables, so that no line break falls into a path
    places += f"learning curve: {Path(result.folder) / result.plot}\n" if result.plot else ""
    return plain_text(tables) + places + (f"no signal:      {flat}\n" if flat else "")


def plain_text(tables: list[Table], width: int = WIDTH) -> str:
    console = Console(file=StringIO(), width=width, no_color=True)
    for table in tables:
        console.print(table)
        console.print()
    return console.file.getvalue()  # type: ignore[attr-defined]


def _row(stage: StageResult) -> list[str]:
    interval = stage.interval
    turns = stage.mean_turns_to_success
    return [
        stage_name(stage.name),
        f"{100 * interval.mean:.1f}",
        f"{100 * interval.low:.1f} to {100 * interval.high:.1f}",
        str(stage.games),
        "-" if turns is None else f"{turns:.1f}",
        f"{stage.units:g}",
        f"{stage.tokens:,}",
        f"{stage.seconds:.0f}",
    ]


def _caption(result: RunResult) -> str:
    first = result.stages[0]
    times = "once" if first.samples_per_game == 1 else f"{first.samples_per_game} times"
    played = f"test games played {times} each, temperature {first.temperature:g}, at most {first.max_turns} turns"
    if first.optimal_turns:
        played += f", {first.max_turns / first.optimal_turns:.3g} x the expert plan"
    return f"{played}\n{_spent(result)}; {result.seconds:.0f} s in all"


def _spent(result: RunResult) -> str:
    """Return the charged units, then the units by both ways of counting."""
    words = f"{result.units:g} units spent, {result.units_left:g} left"
    sums = result.notes.get("spent")
    if not sums:
        return words
    return f"{words} ({sums['units_by_games']:g} counting games, {sums['units_by_rollouts']:g} counting rollouts)"


def matrix_tables(evaluations: Sequence[EvaluationResult]) -> list[Table]:
    """Return the success table, if there are several evaluation sets, and the table of manners."""
    matrix = [success_table(evaluations)] if len(_columns(evaluations)) > 1 else []
    return [*matrix, manner_table(evaluations)] if evaluations else []


def _columns(evaluations: Sequence[EvaluationResult]) -> list[tuple[str, str, float]]:
    return list(dict.fromkeys(evaluation.column for evaluation in evaluations))


def success_table(evaluations: Sequence[EvaluationResult]) -> Table:
    """Return success with its 95 % interval, by policy and evaluation set."""
    columns = _columns(evaluations)
    table = Table(title="success %, 95 % interval", title_justify="left", show_footer=True)
    table.add_column("model", footer="evaluation set\ngames x samples\nturns / plan", overflow="fold")
    for column in columns:
        first = next(evaluation for evaluation in evaluations if evaluation.column == column)
        games = f"{first.games_hash[:SHOWN_HEX]}\n{first.games} x {first.samples_per_game}"
        turns = f"{first.max_turns}" + (f" / {first.optimal_turns:.3g}" if first.optimal_turns else "")
        table.add_column(heading(first, evaluations), footer=f"{games}\n{turns}", justify="right")
    for policy in dict.fromkeys(evaluation.policy for evaluation in evaluations):
        own = {evaluation.column: evaluation for evaluation in evaluations if evaluation.policy == policy}
        table.add_row(
            stage_name(policy), *(own[column].interval.percent() if column in own else "" for column in columns)
        )
    return table


def heading(evaluation: EvaluationResult, evaluations: Sequence[EvaluationResult]) -> str:
    """Return the task, with environment and temperature if they vary."""
    env = f"{evaluation.env}/" if len({other.env for other in evaluations}) > 1 else ""
    temperature = f" t={evaluation.temperature:g}" if len({other.temperature for other in evaluations}) > 1 else ""
    return f"{env}{evaluation.task}{temperature}"


def manner_table(evaluations: Sequence[EvaluationResult]) -> Table:
    """Return a row for each policy and evaluation set: turns, invalid actions, outcomes.

    The share of unparsed answers is shown if it is not 0, the mean score if it differs from
    success.
    """
    several = [evaluation for evaluation in evaluations if evaluation.pass_at]
    scored = any(evaluation.mean_score not in (None, evaluation.interval.mean) for evaluation in evaluations)
    unparsed = any(evaluation.unparsed_share for evaluation in evaluations)
    table = Table(title="how the episodes went", title_justify="left")
    table.add_column("model", overflow="fold")
    table.add_column("task")
    for title in ("turns to win", "invalid %", "tokens a turn"):
        table.add_column(title, justify="right")
    table.add_column("episodes not won")
    if unparsed:
        table.add_column("unparsed %", justify="right")
    if scored:
        table.add_column("score, % of best", justify="right")
    if several:
        table.add_column(f"pass@{several[0].samples_per_game} %", justify="right")
    for evaluation in evaluations:
        more = [_share(evaluation.unparsed_share)] if unparsed else []
        more += [_share(evaluation.mean_score)] if scored else []
        table.add_row(*_manner(evaluation, evaluations), *more, *([_pass_at(evaluation)] if several else []))
    return table


def _manner(evaluation: EvaluationResult, evaluations: Sequence[EvaluationResult]) -> list[str]:
    ends = {end: count for end, count in evaluation.outcomes.items() if end != "won"}
    return [
        stage_name(evaluation.policy),
        heading(evaluation, evaluations),
        _number(evaluation.mean_turns_to_success),
        _share(evaluation.invalid_share),
        _number(evaluation.tokens_per_turn),
        ", ".join(f"{count} {end.replace('_', ' ')}" for end, count in ends.items()) or "-",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _share(share: float | None) -> str:
    """Return a share in percent."""
    return "-" if share is None else f"{100 * share:.1f}"


def _pass_at(evaluation: EvaluationResult) -> str:
    """Return pass@k of all samples; ``result.json`` has it for fewer samples too."""
    return Interval(*evaluation.pass_at[str(evaluation.samples_per_game)]).percent() if evaluation.pass_at else "-"


def comparisons_table(comparisons: Sequence[PairedComparison]) -> list[Table]:
    """Compare each policy with each before it, game by game; return nothing for one policy."""
    shown = _shown(comparisons)
    if not shown:
        return []
    table = Table(title="compared on the same games", title_justify="left")
    table.add_column("models", overflow="fold")
    for title in ("task", "gain, points [95 %]", "better in", "worse in", "p"):
        table.add_column(title, justify="left" if title == "task" else "right")
    several = len({comparison.temperature for comparison in comparisons}) > 1
    for comparison in shown:
        gain = f"{100 * comparison.gain:+.1f} [{100 * comparison.low:.1f}, {100 * comparison.high:.1f}]"
        games = (f"{count} games" for count in (comparison.gained, comparison.lost))
        names = f"{stage_name(comparison.after)} - {stage_name(comparison.before)}"
        where = comparison.task + f" t={comparison.temperature:g}" * several
        table.add_row(names, where, gain, *games, p_value(comparison.p))
    return [table]


def _shown(comparisons: Sequence[PairedComparison]) -> list[PairedComparison]:
    policies = list(dict.fromkeys(name for comparison in comparisons for name in (comparison.before, comparison.after)))
    if len(policies) <= MANY_POLICIES:
        return list(comparisons)
    neighbours = list(pairwise(policies))
    return [comparison for comparison in comparisons if (comparison.before, comparison.after) in neighbours]


def p_value(p: float) -> str:
    """Return p with three or four digits, or ``< 0.0001``."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"
