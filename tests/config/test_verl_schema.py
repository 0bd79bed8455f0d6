"""The file of verl's keys and types is what the installed verl has."""

from __future__ import annotations

import json

from benchmarks.verl_schema import schema
from turngrid.config.values.verl_limits import FILE


def test_the_file_is_that_of_the_installed_verl() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema(), "run python -m benchmarks.verl_schema"
