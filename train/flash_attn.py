"""Install flash-attn: a prebuilt wheel for this Python, torch and CUDA, else compile it

    python -m turngrid.train.flash_attn

`make train-gpu` calls it. Compiling takes up to an hour, and `nvcc` of torch's CUDA version.
"""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass

from turngrid.records.process.exit_codes import Failure, command, say

VERSION = "2.8.3"  # verl 0.9.1's pin
BUILDING = ("wheel", "packaging", "ninja", "psutil")  # what its setup.py imports


@dataclass(frozen=True)
class Wheels:
    """An index of prebuilt wheels."""

    index: str
    requirement: str
    pythons: tuple[str, ...]  # that it has wheels for, with these versions of torch and CUDA
    torch: str = "2.11"
    cuda: str = "13.0"
    machines: tuple[str, ...] = ("x86_64", "aarch64")

    def fits(self, python: str, torch: str, cuda: str, machine: str) -> bool:
        """Return whether there is a wheel for versions such as ``2.11.0+cu130``."""
        same = all(_minor(given) == _minor(own) for given, own in ((torch, self.torch), (cuda, self.cuda)))
        return same and _minor(python) in map(_minor, self.pythons) and machine in self.machines


HOUSE, ASTRAL = "https://verl-project.github.io/verl-wheelhouse", "https://wheels.astral.sh"
INDEXES = (
    # github.com/verl-project/verl-wheelhouse. Names of its wheels tell neither torch nor CUDA, and
    # its index /simple/ has moved on to torch 2.13, so the index of torch 2.11 is named.
    Wheels(f"{HOUSE}/cu130/torch2.11/simple/", f"flash-attn=={VERSION}", ("3.12",)),
    # github.com/astral-sh-build/build-flash-attention
    Wheels(f"{ASTRAL}/simple/cu130/", f"flash-attn=={VERSION}+cu.13.0.torch.2.11", ("3.10", "3.11", "3.12", "3.13")),
)


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.split("+")[0].split(".")[:2])


def fitting(python: str, torch: str, cuda: str, machine: str) -> list[Wheels]:
    """Return the indexes that have a wheel, in the order in which to try them."""
    return [wheels for wheels in INDEXES if wheels.fits(python, torch, cuda, machine)]


@command(__doc__, resumes=False)
def main(given: list[str]) -> int:
    """Install it unless it can be imported; raise Failure if it cannot be compiled either."""
    import torch

    if _imports():
        return 0
    here = (platform.python_version(), torch.__version__, torch.version.cuda or "", platform.machine())
    found = fitting(*here)
    for wheels in found:
        say(f"flash-attn: a prebuilt wheel from {wheels.index}")
        if _installed("--only-binary", ":all:", "--index-url", wheels.index, wheels.requirement):
            return 0
    say(f"flash-attn: {_why(here, found)}; compiling, which takes up to an hour")
    os.environ.setdefault("MAX_JOBS", "8")
    if _pip("install", *BUILDING) or not _installed("--no-build-isolation", f"flash-attn=={VERSION}"):
        raise Failure("flash-attn could not be installed; docs/cluster.md says how to train without it")
    return 0


def _why(here: tuple[str, ...], found: list[Wheels]) -> str:
    python, torch, cuda, machine = here
    if found:
        return "no prebuilt wheel could be installed"
    own = "; ".join(f"Python {', '.join(w.pythons)} with torch {w.torch}, CUDA {w.cuda}" for w in INDEXES)
    return f"no prebuilt wheel for Python {python}, torch {torch}, CUDA {cuda or 'none'}, {machine} (there are: {own})"


def _installed(*arguments: str) -> bool:
    """Install it, and remove it if it does not load."""
    if _pip("install", "--no-deps", *arguments) == 0 and _imports():
        return True
    _pip("uninstall", "--yes", "flash-attn")
    return False


def _pip(*arguments: str) -> int:
    return subprocess.call([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments])


def _imports() -> bool:
    """Return whether it loads: a wheel for another torch installs, but does not."""
    return subprocess.call([sys.executable, "-c", "import flash_attn"], stderr=subprocess.DEVNULL) == 0


if __name__ == "__main__":
    sys.exit(main())
