"""Removal of folders that are written to."""

import os
from pathlib import Path

import pytest

from turngrid.envs.utils.files import remove_folder


def test_a_file_that_comes_while_the_folder_is_emptied_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, late = tmp_path / "000003", iter([True])  # shutil.rmtree would raise that it is not empty
    folder.mkdir()
    (folder / "a.jsonl").touch()
    rmdir = os.rmdir

    def after_a_write(path: str, **where: int | None) -> None:
        if next(late, False):
            (folder / ".turns").write_text(".")
        rmdir(path, **where)

    monkeypatch.setattr(os, "rmdir", after_a_write)
    remove_folder(folder)
    assert not folder.exists() and not list(late)
    remove_folder(folder)  # one that is gone
