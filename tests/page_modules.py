"""Modules of the documentation's pages, where Python and the processes of games find them."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
MODULE = re.compile(r"```python\n# (\w+(?:/\w+)?)\.py\n(.*?)```", re.DOTALL)


@contextmanager
def page_modules(folder: Path, *pages: str) -> Iterator[Path]:
    """Write the named modules of the pages into ``folder``, which is importable until the end."""
    blocks = [block for page in pages for block in MODULE.findall((DOCS / page).read_text(encoding="utf-8"))]
    for name, code in blocks:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield folder
    for name, _ in blocks:
        for module in (name.replace("/", "."), name.partition("/")[0]):
            sys.modules.pop(module, None)
