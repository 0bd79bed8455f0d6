"""Remake a model that ships with turngrid, from games to its README.

    python -m assets.make tiny [--out FOLDER] [--workers N]
    python -m assets.make tiny_alfworld [--out FOLDER]
    python -m assets.make tiny_all [--out FOLDER]

``tiny`` takes about half an hour on two idle cores, ten minutes of it for games, which stay in the
cache. ``tiny_alfworld`` and ``tiny_all`` start from the weights of ``tiny``; they take about ten
minutes on one.
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

import torch

from turngrid.assets.make import tiny, tiny_alfworld, tiny_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("tiny", "tiny_alfworld", "tiny_all"))
    parser.add_argument("--out", type=Path, help="folder of the model (the one in assets/)")
    parser.add_argument("--workers", type=int, help="processes that make games of tiny (all cores)")
    parser.add_argument("--measure-games", type=int, default=200, help="validation games played at the end")
    arguments = parser.parse_args()
    out = arguments.out or Path(str(files("turngrid.assets").joinpath(arguments.model)))
    torch.set_num_threads(1)  # two threads are slower on matrices this small; one is reproducible
    if arguments.model == "tiny":
        tiny.make(out, arguments.workers, arguments.measure_games)
    elif arguments.model == "tiny_all":
        tiny_all.make(out, arguments.measure_games)
    else:
        tiny_alfworld.make(out, arguments.measure_games)


if __name__ == "__main__":
    main()
