"""docs/repo_repair.md: its tables say what the code does."""

from pathlib import Path

from turngrid.envs.registry import make_environment
from turngrid.envs.repair.bugs import LINES, SUITES, TESTS, UNSEEN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/repo_repair.md").read_text()


def test_the_tables_say_what_the_code_does() -> None:
    for size, (low, high) in LINES.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `lines-{size}`"))
        assert f"| {low}-{high} |" in row
        assert row.endswith(f"| {make_environment('repo_repair').max_turns(f'lines-{size}')} |")
    for name, tests in TESTS.items():
        size = next(size for size, (low, high) in SUITES.items() if low <= tests <= high)
        trained_on, held_out = next(line for line in PAGE.splitlines() if line.startswith(f"| {size} |")).split("|")[
            2:4
        ]
        assert f"`{name}` {tests}" in (held_out if name in UNSEEN else trained_on)
    defaults = make_environment("repo_repair").settings
    assert f"| {defaults.tests_deadline_s:g}, {defaults.memory_mib} |" in PAGE
    assert f"| {defaults.show_lines}, {defaults.show_chars} |" in PAGE
