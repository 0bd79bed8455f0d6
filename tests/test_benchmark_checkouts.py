"""A benchmark of another commit imports that commit, not the installed project."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.checkouts import import_variables, is_package


@pytest.mark.parametrize(("imports", "name"), [("turngrid.train", "turngrid.train"), ("train", "train")])
def test_a_checkout_is_imported_from_its_own_folder(tmp_path: Path, imports: str, name: str) -> None:
    checkout = tmp_path / "a checkout"
    (checkout / "train").mkdir(parents=True)
    (checkout / "train" / "__init__.py").touch()
    (checkout / "train" / "__main__.py").write_text(f"from {imports}.app import main\n")
    with import_variables(checkout) as variables:
        probe = f"import pathlib, {name} as found; print(pathlib.Path(found.__file__).resolve())"
        command = [sys.executable, "-P", "-c", probe]
        done = subprocess.run(command, cwd="/", env=os.environ | variables, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == checkout / "train" / "__init__.py"
    assert is_package(checkout) is (name == "turngrid.train")
    assert ("VERL_USE_EXTERNAL_PLUGINS" in variables) is (name == "train")
