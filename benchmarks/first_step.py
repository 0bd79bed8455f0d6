"""Time from process start to the end of the first RL optimiser step, by its parts.

    python benchmarks/first_step.py [KEY=VALUE ...]

A fresh ``budget=rl_only`` run with its games cached; stopped once its first step is logged. Seconds
of wall time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POLL_SECONDS = 0.05
NO_PARTS = ("since_start", "turn_policy", "turn_environment")  # of a step


def first_line(path: Path, process: subprocess.Popen[bytes]) -> dict:
    """Wait for the first whole line of a metrics file."""
    while process.poll() is None:
        if path.exists() and "\n" in (text := path.read_text()):
            return json.loads(text.splitlines()[0])
        time.sleep(POLL_SECONDS)
    sys.exit(f"the run ended with exit code {process.returncode} before its first step")


def measure(overrides: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as output:
        start = time.perf_counter()
        command = [sys.executable, "-m", "turngrid.train", f"output_dir={output}", "budget=rl_only", *overrides]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            folder = _wait_for_folder(Path(output), process)
            line = first_line(folder / "rl" / "metrics.jsonl", process)
            total = time.perf_counter() - start
        finally:
            process.terminate()
            process.wait()
    step = line["timing/step"]
    parts = {key.removeprefix("timing/"): value for key, value in line.items() if key.startswith("timing/")}
    setup = total - parts["since_start"]
    return {
        "total": total,
        "front door, games, imports": setup,
        "Ray, models, servers": parts["since_start"] - step,
    } | {f"first step: {name}": parts[name] for name in parts if name not in NO_PARTS}


def _wait_for_folder(output: Path, process: subprocess.Popen[bytes]) -> Path:
    while process.poll() is None:
        folders = [path for path in output.iterdir() if path.is_dir() and not path.name.startswith(".")]
        if folders:
            return folders[0]
        time.sleep(POLL_SECONDS)
    sys.exit(f"the run ended with exit code {process.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    options, overrides = parser.parse_known_args()
    parts = measure(overrides)
    for name, seconds in parts.items():
        print(f"{seconds:7.2f} s  {name}")
    if options.out:
        options.out.write_text(json.dumps(parts, indent=2) + "\n")


if __name__ == "__main__":
    main()
