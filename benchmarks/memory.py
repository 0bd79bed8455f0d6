"""Peak memory of a run: the proportional set size (PSS) summed over all of its processes, sampled
twice a second.

    python benchmarks/memory.py [KEY=VALUE ...]

PSS counts a page that k processes share as 1/k in each, so the sum is what the run takes from the
machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.5
GIB = 2**30


def pss(process: psutil.Process) -> int:
    """Return a process's PSS in bytes; 0 if it has just ended."""
    try:
        return process.memory_full_info().pss
    except psutil.Error:
        return 0


def family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def measure(overrides: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as output:
        command = [sys.executable, "-m", "turngrid.train", f"output_dir={output}", *overrides]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        root, peak, processes, samples = psutil.Process(child.pid), 0, 0, 0
        while child.poll() is None:
            members = family(root)
            total = sum(pss(member) for member in members)
            peak, processes = max((peak, processes), (total, len(members)))
            samples += 1
            time.sleep(SAMPLE_SECONDS)
    if child.returncode:
        sys.exit(f"the run ended with exit code {child.returncode}")
    return {"peak_gib": peak / GIB, "processes_at_peak": processes, "samples": samples}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    options, overrides = parser.parse_known_args()
    result = measure(overrides)
    print(
        f"{result['peak_gib']:.2f} GiB PSS over {result['processes_at_peak']} processes ({result['samples']} samples)"
    )
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
