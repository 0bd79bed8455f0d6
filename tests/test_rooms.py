"""The rooms and the arrows between them: the contract of pyproject.toml (docs/architecture.md)."""

from pathlib import Path

import pytest
from importlinter.api import use_cases

ROOT = Path(__file__).parents[1]


def test_the_contract_of_rooms_is_kept(capsys: pytest.CaptureFixture) -> None:
    kept = use_cases.lint_imports(str(ROOT / "pyproject.toml"), cache_dir=None, no_logo=True)
    assert kept, capsys.readouterr().out
