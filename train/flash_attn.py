"""Install flash-attn: a prebuilt wheel for this Python, torch and CUDA, else compile it

    python -m turngrid.train.flash_attn

`make train-gpu` calls it. Compiling takes up to an hour, and `nvcc` of torch's CUDA version.
"""

import os
import subprocess
import sys

from turngrid.records.process.exit_codes import Failure, command, say

VERSION = "2.8.3"  # verl 0.9.1's pin
TORCH, CUDA = "2.11", "13.0"  # of the prebuilt wheels
BUILDING = ("wheel", "packaging", "ninja", "psutil")  # what its setup.py imports
INDEXES = {  # index -> requirement; pip knows for which Python and processor a wheel is
    # github.com/verl-project/verl-wheelhouse. Its index /simple/ has moved on to torch 2.13
    "https://verl-project.github.io/verl-wheelhouse/cu130/torch2.11/simple/": f"flash-attn=={VERSION}",
    # github.com/astral-sh-build/build-flash-attention
    "https://wheels.astral.sh/simple/cu130/": f"flash-attn=={VERSION}+cu.{CUDA}.torch.{TORCH}",
}


@command(__doc__, resumes=False)
def main(given: list[str]) -> int:
    """Install it unless it can be imported; raise Failure if it cannot be compiled either."""
    import torch

    if _imports():
        return 0
    cuda = torch.version.cuda or "none"
    fits = torch.__version__.startswith(f"{TORCH}.") and cuda == CUDA
    for index, requirement in INDEXES.items() if fits else ():
        say(f"flash-attn: a prebuilt wheel from {index}")
        if _installed("--only-binary", ":all:", "--index-url", index, requirement):
            return 0
    here = f"the prebuilt wheels are for torch {TORCH} with CUDA {CUDA}, and this is {torch.__version__} with {cuda}"
    reason = "no prebuilt wheel could be installed" if fits else here
    say(f"flash-attn: {reason}; compiling, which takes up to an hour")
    os.environ.setdefault("MAX_JOBS", "8")
    if _pip("install", *BUILDING) or not _installed("--no-build-isolation", f"flash-attn=={VERSION}"):
        raise Failure("flash-attn could not be installed; docs/cluster.md says how to train without it")
    return 0


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
