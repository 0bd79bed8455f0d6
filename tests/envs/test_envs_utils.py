"""Bars whose clock goes on while nothing gets done, and removal of folders that are written to."""

import io
import os
import threading
from pathlib import Path

import pytest
import small

from turngrid.envs.utils import bar
from turngrid.envs.utils.bar import ticking_bar
from turngrid.envs.utils.files import remove_folder


def test_a_bar_is_drawn_again_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bar, "LOG_SECONDS", 0.05)
    before, out, none = threading.active_count(), io.StringIO(), io.StringIO()
    with ticking_bar(total=3, desc="games", file=out), ticking_bar(total=3, file=none, disable=True):
        small.wait_for(lambda: out.getvalue().count("games:   0%") >= 3, 60)
    assert not none.getvalue()
    assert threading.active_count() <= before + 1  # tqdm's own stays


def test_a_file_that_comes_while_a_folder_is_emptied_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
