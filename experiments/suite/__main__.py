"""Compare the environments: expert, random, and the runs of a suite's sweep, in one table.

    python -m experiments.suite [FOLDER] [KEY=VALUE ...]
    python -m experiments.suite                         # expert, random, and the sweep's runs
    python -m experiments.suite only=crafting,sokoban eval.games=20
    python -m train -m sweep=suite_laptop               # trains, and ends with these tables

FOLDER     of a launched sweep; by default that of sweep=suite_laptop with these KEY=VALUE
only=      environments, separated by commas
KEY=VALUE  as for `python -m train`: eval.games=, output_dir=, cluster=, fresh=true

Prints two tables and writes suite.json to FOLDER. Existing episodes are kept. An environment whose
extra is missing is skipped, with the line that installs it. docs/env.md explains the columns."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from turngrid.config.overrides import parse
from turngrid.envs.utils.files import write_whole
from turngrid.envs.utils.names import meant
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import lacking, load, of_identity, points, scale_of
from turngrid.experiments.sweep.record import Sweep
from turngrid.experiments.tables import listed
from turngrid.records.process.exit_codes import Refusal, command, own_words, say

NAME, SCALE, AXIS = "suite_laptop", "laptop", "env"
JSON = "suite.json"


@dataclass
class Options:
    only: str = ""


@command(__doc__)
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options)
    if len(words) > 1:
        raise Refusal(f"one folder, not {len(words)}: name a sweep's folder, or none")
    sweep, folder = _recorded(Path(words[0])) if words else _usual(overrides)
    chosen = _chosen(environments(sweep), options.only)
    print(_written(sweep, folder, chosen, overrides), flush=True)
    return 0


def _recorded(folder: Path) -> tuple[Sweep, Path]:
    folder = folder.expanduser().absolute()
    sweep = record.read(folder)
    if sweep is None or sweep.suite is None:
        raise Refusal(f"{folder} is no launched suite; use python -m train -m sweep={NAME}")
    return sweep, folder


def _usual(overrides: Sequence[str]) -> tuple[Sweep, Path]:
    """Return the sweep as it would be launched with these overrides, and its folder."""
    definition = load(NAME)
    scale = scale_of(definition, SCALE)
    given = dict(item.split("=", 1) for item in overrides)
    extra = of_identity([o for o in parse(overrides) if o.key_or_group != "seed"])
    about = (definition.title, definition.question, definition.published, scale.note, scale.layout, scale.takeaways)
    runs = points(scale, scale.seeds, extra, {})
    sweep = Sweep(NAME, SCALE, *about, extra, runs, suite=definition.suite)
    folder = record.folder_of(sweep, Path(given.get("output_dir", "runs")).expanduser().absolute())
    known = {run.label: run for run in launched.runs} if (launched := record.read(folder)) else {}
    runs = [*(known.pop(run.label, run) for run in runs), *known.values()]  # of other seeds
    return msgspec.structs.replace(sweep, runs=runs), folder


def environments(sweep: Sweep) -> dict[str, list[str]]:
    """Return the overrides by environment; the environments with training runs come first."""
    trained = {run.coordinates[AXIS]: run.overrides for run in reversed(sweep.runs)}
    return dict(reversed(trained.items())) | (sweep.suite or {})


def _chosen(all_of_them: Mapping[str, list[str]], only: str) -> dict[str, list[str]]:
    names = listed(only) or list(all_of_them)
    if unknown := next((name for name in names if name not in all_of_them), None):
        raise Refusal(f"only={unknown}: no such environment{meant(unknown, all_of_them)} ({', '.join(all_of_them)})")
    return {name: all_of_them[name] for name in names}


def _written(sweep: Sweep, folder: Path, chosen: Mapping[str, list[str]], overrides: Sequence[str]) -> str:
    from turngrid.experiments.suite.measures import measured, text  # imports torch, so only when needed

    rows, skipped = [], {}
    for name, own in chosen.items():
        if reason := lacking(own):
            skipped[name] = reason
            say(f"note: {name} is skipped: {reason}")
            continue
        say(f"suite: {name}")
        runs = [run for run in sweep.runs if run.coordinates[AXIS] == name and run.folder]
        rows.append(measured([*own, *overrides], runs, folder.parent.parent))
    write_whole(folder / JSON, msgspec.json.format(msgspec.json.encode({"rows": rows, "skipped": skipped}), indent=1))
    return f"{text(rows, skipped)}\nresult: {folder / JSON}"


if __name__ == "__main__":
    sys.exit(main())
