"""Find what went wrong first in a run, from its metrics.

    python -m experiments.doctor PATH...
    python -m experiments.doctor runs/NAME
    python -m experiments.doctor metrics.jsonl tensorboard/RUN history.csv

PATH  a run folder, or metrics of any run of verl: of its file logger (.jsonl), of TensorBoard, or a
      CSV with verl's names and a column of steps

Prints, for each PATH, the first alarm with its step, likely cause and the setting to change, the
alarms that followed, and the rules that could not be applied. The exit code is 1 if there is an
alarm. docs/doctor.md lists which illnesses it finds, and which it does not."""

import sys
from pathlib import Path

from turngrid.experiments.doctor.diagnosis import diagnose, text
from turngrid.experiments.doctor.sources import read
from turngrid.records.process.exit_codes import Parser, command

USAGE = "python -m experiments.doctor PATH..."


@command(__doc__, refused=(OSError,), resumes=False)
def main(given: list[str]) -> int:
    parser = Parser(usage=USAGE, add_help=False, allow_abbrev=False)
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path)
    ill = False
    for path in parser.parse_args(given).paths:
        source = read(path)
        diagnosis = diagnose(source)
        ill = ill or bool(diagnosis.alarms)
        print(text(str(path), source, diagnosis), flush=True)
    return int(ill)


if __name__ == "__main__":
    sys.exit(main())
