"""Find what went wrong first in a run, from its metrics.

    python -m experiments.doctor PATH...
    python -m experiments.doctor runs/NAME
    python -m experiments.doctor metrics.jsonl tensorboard/RUN history.csv

PATH  a run folder, or metrics of any run of verl: of its file logger (.jsonl), of TensorBoard, or a
      CSV with verl's names and a column of steps

Prints, for each PATH, the first alarm with its step, likely cause and the setting to change, the
other alarms (those of the same step with cause and setting, too), and the rules that could not be
applied. The exit code is 1 if there is an alarm or a run failed. docs/doctor.md lists which
illnesses it finds, and which it does not."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any

from turngrid.experiments.doctor.sources import Source, read
from turngrid.experiments.stages.rl import read_rollbacks
from turngrid.records.credit import read_credit
from turngrid.records.health.alarms import Alarm, alarms, number
from turngrid.records.health.conditions import FIRST, LAST
from turngrid.records.health.rules import LOST_UPDATE, RULES
from turngrid.records.process.exit_codes import Parser, command, exit_code
from turngrid.records.resume import RlFolder
from turngrid.records.step_metrics import repeated_share
from turngrid.rollouts.episode import Episode, Turn
from turngrid.rollouts.store import DamagedEpisodes, read_episodes

# Alarms of answers -> which turns have them; ``longest``: tokens of the step's longest answer
TURNS: dict[str, Callable[[Turn, int], bool]] = {
    "invalid_actions": lambda turn, longest: not turn.valid,
    "unparsed_actions": lambda turn, longest: not turn.parsed,
    "mostly_unparsed": lambda turn, longest: not turn.parsed,
    "answers_at_limit": lambda turn, longest: len(turn.action_ids) == longest,
    "repeated_tokens": lambda turn, longest: repeated_share(turn.action_ids) > 0.5,
}
NAMES = {rule.name for rule in RULES}
OF_SFT = ("sft/loss", "sft/grad_norm")
UPDATES = ("not_finite", "grad_norm")  # which large advantages may cause; no file tells where the policy moved


@command(__doc__, resumes=False)
def main(given: list[str]) -> int:
    parser = Parser(usage="python -m experiments.doctor PATH...", add_help=False, allow_abbrev=False)
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path)
    runs = [partial(diagnose, path) for path in parser.parse_args(given).paths]
    return max(exit_code(run, refused=(OSError,), resumes=False) for run in runs)  # each, even if one is refused


def diagnose(path: Path) -> int:
    """Print what went wrong in one run; return 1 if anything did."""
    source = read(path)
    raised = [*_of_sft(source.sft), *alarms(source.curves, source.limits)]
    print(text(str(path), source, raised), flush=True)
    return int(bool(raised or source.failure))


def _of_sft(lines: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    """Return the first loss or gradient that is not finite; nothing else is looked for in SFT."""
    ill = [(line["step"], name) for line in lines for name in OF_SFT if isnan(number(line.get(name, 0.0)))]
    seen, advice = "{}: it is NaN or infinite", "try a third of model.sft.lr"
    return [Alarm(at, "not_finite of SFT", seen.format(name), advice, LOST_UPDATE) for at, name in ill[:1]]


def _blind(source: Source) -> dict[str, str]:
    """Return the names under which no rule reads anything, each with a metric that is missing."""
    able = {rule.name for rule in RULES if any(source.curves.readings(rule))}
    able |= {"not_finite"} if source.sft else set()
    blind: dict[str, str] = {}
    for rule in RULES:
        if rule.name not in able:
            blind.setdefault(rule.name, rule.metrics[0])
    return blind


def text(path: str, source: Source, raised: Sequence[Alarm]) -> str:
    """Return the diagnosis of a run as lines for a terminal; ``raised``: its alarms in order."""
    steps, blind = source.curves.steps, _blind(source)
    span = f"{len(steps)} steps ({steps[0]} to {steps[-1]})" if steps else "no step of RL"
    lines = [f"{path}: {source.kind}, {span}"]
    lines += [f"  it failed: {source.failure}"] if source.failure else []
    lines += [f"  not read: {count} {what}" for what, count in source.skipped.items()]
    lines += [f"  {rollback}" for rollback in (read_rollbacks(source.rl) if source.rl else ())]
    if raised:
        lines += _diagnosis(source.rl, *raised)
    else:
        able = len(NAMES) - len(blind)
        lines += [f"no alarm: {able} of {len(NAMES)} rules have their metrics; none sees an illness"]
    lines += ["cannot tell:"]
    if not steps:
        return "\n".join([*lines, "  anything of RL: it has no step"])
    if len(steps) < FIRST + LAST:
        lines += [f"  trends: some rules need {FIRST + LAST} steps"]
    if blind:
        missing = ", ".join(f"{name} ({metric})" for name, metric in blind.items())
        lines += [f"  without their metrics: {missing}"]
    return "\n".join([*lines, "  what metrics do not show: docs/doctor.md#what-it-cannot-detect"])


def _diagnosis(rl: RlFolder | None, first: Alarm, *others: Alarm) -> list[str]:
    where = _where(rl, first) if rl and "SFT" not in first.name else ""
    facts = {"seen": first.seen, "where": where, "likely cause": first.cause, "change": first.advice}
    lines = [f"first, at step {first.step}: {first.name}"]
    lines += [f"  {name + ':':<14}{fact}" for name, fact in facts.items() if fact]
    # of the first step, any alarm may have the cause, so all are shown whole
    shown = [alarm if alarm.step == first.step else replace(alarm, cause="", advice="") for alarm in others]
    then = [f"  {alarm}" for alarm in shown]
    return [*lines, "then:", *then] if then else lines


# ---- where in the step's episodes


def _where(rl: RlFolder, alarm: Alarm) -> str:
    """Return turn and token that an alarm may come from if the run's files show it, else ""."""
    try:
        episodes = list(read_episodes(rl.step_episodes(alarm.step)))
        if matches := TURNS.get(alarm.name):
            return _most(episodes, matches)
        return _largest(rl, alarm.step, episodes) if alarm.name in UPDATES else ""
    except (OSError, ValueError, IndexError, DamagedEpisodes):  # a damaged or missing record
        return ""


def _most(episodes: Sequence[Episode], matches: Callable[[Turn, int], bool]) -> str:
    """Return the turn at which it happens most often, with one example."""
    longest = max((len(turn.action_ids) for one in episodes for turn in one.turns), default=0)
    counts = Counter(number for one in episodes for number, turn in enumerate(one.turns, 1) if matches(turn, longest))
    if not counts:
        return ""
    number, count = counts.most_common(1)[0]
    example = next(one for one in episodes if len(one.turns) >= number and matches(one.turns[number - 1], longest))
    answer = example.turns[number - 1].response[:60]
    return f"most often in turn {number} ({count} of {len(episodes)} episodes), such as {answer!r} in {example.task}"


def _largest(rl: RlFolder, step: int, episodes: Sequence[Episode]) -> str:
    """Return the first token whose advantage is largest or not finite, by the credit log."""
    credits = read_credit(rl.credit / f"{step:06d}.jsonl")
    tokens = (
        (abs(advantage) if isfinite(advantage) else inf, line, token)
        for line, credit in enumerate(credits)
        for token, advantage in enumerate(credit.advantages if credit else ())
        if advantage is not None
    )
    size, line, token = max(tokens, key=lambda one: one[0], default=(0.0, 0, 0))
    if not size:
        return ""
    episode = episodes[line]
    turns = enumerate(episode.turns, 1)
    places = [(turn, place) for turn, own in turns for place in range(episode.muted(own), len(own.action_ids))]
    turn, place = places[token]
    what = f"perhaps the largest advantage, {size:.3g}:" if isfinite(size) else "an advantage that is not finite:"
    return f"{what} turn {turn}, token {place + 1} of episode {line + 1} ({episode.task})"


if __name__ == "__main__":
    sys.exit(main())
