"""Folders that are removed while another process writes into them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from turngrid.envs.utils.files import remove_folder


def test_a_file_that_comes_while_the_folder_is_emptied_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, late = tmp_path / "000003", iter([True])
    folder.mkdir()
    (folder / "a.jsonl").touch()
    rmdir = os.rmdir

    def after_a_write(path: str, **where: int | None) -> None:
        if next(late, False):
            (folder / ".turns").write_text(".")
        rmdir(path, **where)

    monkeypatch.setattr(os, "rmdir", after_a_write)
    with pytest.raises(OSError, match="not empty"):
        shutil.rmtree(folder)
    late = iter([True])
    remove_folder(folder)
    assert not folder.exists()
    remove_folder(folder)  # one that is gone
