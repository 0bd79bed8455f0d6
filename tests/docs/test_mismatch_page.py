"""docs/mismatch.md: its tables are those of the results, and its commands are accepted."""

import re
from pathlib import Path

from turngrid.experiments.mismatch.__main__ import CHOSEN, Options, chosen
from turngrid.experiments.mismatch.results import advice, biases, cells, read, whole
from turngrid.experiments.mismatch.samplers import SAMPLERS
from turngrid.experiments.mismatch.study import Size
from turngrid.experiments.tables import listed
from turngrid.records.process.exit_codes import Refusal, own_words

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "mismatch.md").read_text(encoding="utf-8")
SIZE = Size(Options.seeds, Options.batches, Options.steps)
FOUND = cells(read(DOCS / "mismatch/results.jsonl"), SIZE)


def test_the_tables_are_those_of_the_results() -> None:
    assert advice(FOUND) in PAGE and biases(FOUND, 24) in PAGE
    assert (DOCS / "mismatch/tables.md").read_text(encoding="utf-8") == f"{advice(FOUND)}\n{whole(FOUND)}"


def test_every_cell_is_measured_with_every_option() -> None:
    asked = {(name, int(turns)) for name in SAMPLERS for turns in listed(Options.turns)}
    assert set(FOUND) == asked and all(set(own) == set(CHOSEN) for own in FOUND.values())


def test_its_commands_are_accepted_and_its_samplers_exist() -> None:
    commands = re.findall(r"^python -m experiments\.mismatch ([^#\n]+)", PAGE, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        options = Options()
        assert own_words(command.split(), options, Refusal) == ([], [])
        assert chosen(listed(options.samplers))
    assert all(f"`{name}`" in PAGE for name in SAMPLERS)
