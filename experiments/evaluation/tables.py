"""The tables that end a run: stages, evaluation sets, episodes, and paired comparisons."""

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from shlex import quote
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from turngrid.experiments.evaluation.ratings import ANCHOR, RATING, Rating
from turngrid.experiments.evaluation.result import EvaluationResult, PairedComparison, RunResult, StageResult
from turngrid.records.stages import stage_name
from turngrid.records.statistics import Interval

WIDTH = 110
SHOWN_HEX = 8  # shown digits of an evaluation set's hash
# columns of words, aligned left
WORDS = ("stage", "environment", "model", "models", "task", "episodes not won", "check", "", "what was seen")

T = TypeVar("T")
Column = Callable[[T], str]
OnSet = EvaluationResult | Rating | PairedComparison  # rows on one evaluation set


def summary_table(result: RunResult) -> str:
    """Return a run's tables as plain text, its paths, rollbacks, and steps without signal."""
    columns: dict[str, Column[StageResult]] = {
        "stage": lambda stage: stage_name(stage.name),
        "success %": lambda stage: _share(stage.interval.mean),
        "95 % interval": lambda stage: f"{_share(stage.low)} to {_share(stage.high)}",
        "games": lambda stage: str(stage.games),
        "turns to win": lambda stage: _number(stage.mean_turns_to_success),
        "units": lambda stage: f"{stage.units:g}",
        "tokens": lambda stage: f"{stage.tokens:,}",
        "seconds": lambda stage: f"{stage.seconds:.0f}",
    }
    table = filled(result.name, columns, result.stages)
    table.caption, table.caption_justify = _caption(result), "left"
    tables = [table, *matrix_tables(result.matrix), *ratings_table(result.ratings)]
    tables += comparisons_table(result.comparisons)
    below = {  # the tables, so that no line break falls into a path
        "run folder": result.folder,
        "curves": f"python -m turngrid.experiments.report {quote(result.folder)}",
        "rollbacks": "; ".join(result.notes.get("rollbacks", ())),
        "no signal": result.notes.get("no_signal"),
    }
    return plain_text(tables) + "".join(f"{name + ':':<16}{text}\n" for name, text in below.items() if text)


def plain_text(tables: Sequence[Any], width: int = WIDTH) -> str:
    console = Console(file=StringIO(), width=width, no_color=True, markup=False)
    for table in tables:
        console.print(table)
        console.print()
    return console.file.getvalue()  # type: ignore[attr-defined]


def filled(title: str, columns: Mapping[str, Column[T]], items: Sequence[T]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="left" if name in WORDS else "right", overflow="fold")
    for item in items:
        table.add_row(*(show(item) for show in columns.values()))
    return table


def _caption(result: RunResult) -> str:
    first = result.stages[0]
    times = "once" if first.samples_per_game == 1 else f"{first.samples_per_game} times"
    played = f"test games played {times} each, temperature {first.temperature:g}, at most {first.max_turns} turns"
    if first.optimal_turns:
        played += f", {first.max_turns / first.optimal_turns:.3g} x the expert plan"
    spent = f"{result.units:g} units spent, {result.units_left:g} left"
    if sums := result.notes.get("spent"):
        spent += f" ({sums['units_by_games']:g} counting games, {sums['units_by_rollouts']:g} counting rollouts)"
    return f"{played}\n{spent}; {result.seconds:.0f} s in all"


def matrix_tables(evaluations: Sequence[EvaluationResult]) -> list[Table]:
    """Return the success table, if there are several evaluation sets, and ``manner_table``."""
    matrix = [success_table(evaluations)] if len(_columns(evaluations)) > 1 else []
    return [*matrix, *matches_table(evaluations), manner_table(evaluations)] if evaluations else []


def matches_table(evaluations: Sequence[EvaluationResult]) -> list[Table]:
    """Return won, drawn and lost matches from each seat, and the score; [] without matches."""
    rows = [(one, seat, of_seat) for one in evaluations for seat, of_seat in one.matches.items()]
    columns: dict[str, Column[tuple[EvaluationResult, str, Mapping[str, float]]]] = {
        "model": lambda row: stage_name(row[0].policy),
        "task": lambda row: heading(row[0], evaluations),
        "seat": lambda row: row[1],
        "matches": lambda row: f"{row[2]['matches']:.0f}",
    }
    for name in ("won", "drawn", "lost"):
        columns[f"{name} %"] = lambda row, name=name: _share(row[2][name])
    columns["score % [95 %]"] = lambda row: Interval(*(row[2][name] for name in ("score", "low", "high"))).percent()
    return [filled("matches", columns, rows)] if rows else []


def ratings_table(ratings: Sequence[Rating]) -> list[Table]:
    """Return the ratings of policies and opponents, the best first; [] without ratings."""
    columns: dict[str, Column[Rating]] = {
        "model": lambda one: stage_name(one.policy),
        "task": lambda one: heading(one, ratings),
        "rating [95 %]": lambda one: f"{one.rating:.0f} [{one.low:.0f}, {one.high:.0f}]",
        "matches": lambda one: str(one.matches),
    }
    rows = sorted(ratings, key=lambda one: (heading(one, ratings), -one.rating))
    return [filled(f"ratings ({ANCHOR} = {RATING:.0f})", columns, rows)] if rows else []


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
        own = {evaluation.column: evaluation.interval for evaluation in evaluations if evaluation.policy == policy}
        table.add_row(stage_name(policy), *(own[column].percent() for column in columns))
    return table


def heading(row: OnSet, rows: Sequence[OnSet]) -> str:
    """Return a row's task, with environment and temperature if they vary over the rows."""
    env = f"{row.env}/" if len({other.env for other in rows}) > 1 else ""
    temperature = f" t={row.temperature:g}" if len({other.temperature for other in rows}) > 1 else ""
    return f"{env}{row.task}{temperature}"


def manner_table(evaluations: Sequence[EvaluationResult]) -> Table:
    """Return a row for each policy and evaluation set: turns, invalid actions, outcomes.

    Unparsed answers are shown if there are any, the mean score if it differs from success.
    """
    columns: dict[str, Column[EvaluationResult]] = {
        "model": lambda one: stage_name(one.policy),
        "task": lambda one: heading(one, evaluations),
        "turns to win": lambda one: _number(one.mean_turns_to_success),
        "invalid %": lambda one: _share(one.invalid_share),
        "tokens a turn": lambda one: _number(one.tokens_per_turn),
        "episodes not won": lambda one: (
            ", ".join(f"{count} {end.replace('_', ' ')}" for end, count in one.outcomes.items() if end != "won") or "-"
        ),
    }
    if any(one.unparsed_share for one in evaluations):
        columns["unparsed %"] = lambda one: _share(one.unparsed_share)
    if any(one.mean_score not in (None, one.interval.mean) for one in evaluations):
        columns["score, % of best"] = lambda one: _share(one.mean_score)
    if several := [one.samples_per_game for one in evaluations if one.pass_at]:  # result.json has it for fewer too
        columns[f"pass@{several[0]} %"] = lambda one: (
            Interval(*one.pass_at[str(one.samples_per_game)]).percent() if one.pass_at else "-"
        )
    return filled("how the episodes went", columns, evaluations)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def comparisons_table(comparisons: Sequence[PairedComparison]) -> list[Table]:
    """Compare each policy with each before it, game by game; [] for one policy."""
    columns: dict[str, Column[PairedComparison]] = {
        "models": lambda pair: f"{stage_name(pair.after)} - {stage_name(pair.before)}",
        "task": lambda pair: heading(pair, comparisons),
        "gain, points [95 %]": lambda pair: f"{100 * pair.gain:+.1f} [{_share(pair.low)}, {_share(pair.high)}]",
        "better in": lambda pair: f"{pair.gained} games",
        "worse in": lambda pair: f"{pair.lost} games",
        "p": lambda pair: p_value(pair.p),
    }
    return [filled("compared on the same games", columns, comparisons)] if comparisons else []


def p_value(p: float) -> str:
    """Return p with three or four digits, or ``< 0.0001``."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"
