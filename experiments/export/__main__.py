"""A run's model as a folder that plain transformers and vLLM load, with a card of what it is and how often it wins.

    python -m experiments.export RUN --to FOLDER
    python -m experiments.export runs/NAME --to my-model
    python -m experiments.export runs/NAME/sft/model --to before-rl

RUN         a run folder (its last checkpoint), or one checkpoint in it (rl/checkpoints/global_step_N, sft/model)
--to FOLDER where it goes; a folder that is not there yet

docs/export.md says what is in it, how to serve it, and how to put it on a hub."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from experiments.export.folder import export
from experiments.export.found import ExportError
from records.process.exit_codes import answered


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ExportError(f"{message}: python -m experiments.export RUN --to FOLDER")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every foreseen error is one line on stderr."""
    return answered(arguments, __doc__, _run, refused=(OSError,), resumes=False)


def _run(given: Sequence[str]) -> int:
    parser = _Parser(add_help=False)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--to", metavar="FOLDER", required=True, type=Path)
    asked = parser.parse_args(given)
    print(export(asked.run, asked.to.expanduser()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
