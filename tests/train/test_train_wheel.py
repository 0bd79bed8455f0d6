"""The package as others get it: a wheel, in a fresh environment, run from an empty folder."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

from turngrid.config.base import ROOT

NOT_SOURCES = (".git", ".venv", "runs", "build", "*.egg-info", "__pycache__", ".*_cache", "multirun", "outputs")
READ = ("conf/**/*.yaml", "recipes/*.yaml", "sweeps/*.yaml", "assets/*/*.*", "assets/repair/*/*.py")
READ += ("experiments/*/templates/*", "experiments/viewer/assets/*")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves its traces in the source tree."""
    source, target = tmp_path_factory.mktemp("sources") / "copy", tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(source))
    (built,) = target.glob("turngrid-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, which borrows what that depends on."""
    home = tmp_path_factory.mktemp("fresh environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    fresh = home / "bin" / "python"
    pip("--python", str(fresh), "install", "--no-deps", str(wheel))
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return fresh


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_everything_a_run_reads_is_in_the_wheel(wheel: Path) -> None:
    with ZipFile(wheel) as content:
        names = content.namelist()
        (points,) = [content.read(name).decode() for name in names if name.endswith("/entry_points.txt")]
    sources = {f"turngrid/{path.relative_to(ROOT)}" for pattern in READ for path in ROOT.glob(pattern)}
    assert len(sources) > 100 and sources - set(names) == set()
    assert re.search(r"\[verl\.plugins\]\n\w+ = turngrid\.verl_plugin\n", points)


def test_the_console_script_runs_from_an_empty_folder(python: Path, tmp_path: Path) -> None:
    command = [str(python.parent / "turngrid-train"), "--cfg", "job", "algo=rloo", "--package", "algorithm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "adv_estimator: turngrid_rloo" in done.stdout
    assert list(tmp_path.iterdir()) == []
