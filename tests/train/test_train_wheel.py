"""The package as others get it: a wheel, in a fresh environment, run from an empty folder."""

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from turngrid.config.base import ROOT

NOT_SOURCES = (".git", ".venv", "runs", "build", "*.egg-info", "__pycache__", ".*_cache", "multirun", "outputs")
PROBE = """
import json
from importlib.metadata import distribution
from importlib.resources import files
rooms = ("conf", "recipes", "sweeps", "assets")
found = {room: sorted(str(p.name) for p in files(f"turngrid.{room}").iterdir()) for room in rooms}
found["plugins"] = [e.value for e in distribution("turngrid").entry_points if e.group == "verl.plugins"]
found["root"] = str(files("turngrid.conf"))
print(json.dumps(found))
"""


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
    """A fresh environment with the wheel; what it depends on is borrowed from the one that runs the
    tests."""
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


def test_everything_a_run_reads_is_in_the_wheel(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(python), "-E", "-P", "-c", PROBE], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert not found["root"].startswith(str(ROOT))
    assert found["plugins"] == ["turngrid.verl_plugin"]
    for room in ("conf", "recipes", "sweeps", "assets"):
        sources = {path.name for path in (ROOT / room).iterdir() if path.name != "__pycache__"}
        assert sources - set(found[room]) == set()
    conf = Path(found["root"])
    assert {path.relative_to(ROOT / "conf") for path in (ROOT / "conf").rglob("*.yaml")} == {
        path.relative_to(conf) for path in conf.rglob("*.yaml")
    }
    files = [*(ROOT / "experiments").glob("*/templates/*"), *(ROOT / "assets" / "tiny").iterdir()]
    assert [file for file in files if not (conf.parent / file.relative_to(ROOT)).exists()] == []


def test_the_console_script_runs_from_an_empty_folder(python: Path, tmp_path: Path) -> None:
    command = [str(python.parent / "turngrid-train"), "--cfg", "job", "algo=rloo", "--package", "algorithm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "adv_estimator: turngrid_rloo" in done.stdout
    assert list(tmp_path.iterdir()) == []
