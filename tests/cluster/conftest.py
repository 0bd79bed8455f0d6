"""The tests' own SLURM, one a test file."""

import shutil
import tempfile
from collections.abc import Iterator

import pytest
from small_slurm import SmallSlurm, missing


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSlurm]:
    """Two nodes; ``SLURM_CONF`` points to it, for this process and what it starts."""
    if lacking := missing():
        pytest.skip(f"no SLURM on this machine (apt-get install slurm-wlm munge): no {', '.join(lacking)}")
    small = SmallSlurm(tmp_path_factory.mktemp("slurm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", small.environment["SLURM_CONF"])
        place = tempfile.mkdtemp(prefix="t", dir="/tmp")  # of the jobs; short, for Ray's sockets
        patch.setenv("TMPDIR", place)
        try:
            small.start()
            yield small
        finally:
            small.stop()
            shutil.rmtree(place)
