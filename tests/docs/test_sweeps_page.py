"""docs/sweeps.md: its table of sweeps is the folder's, its example can be launched."""

import re
from pathlib import Path

import pytest

from turngrid.experiments.sweep.definition import Definition, load, names, points
from turngrid.train.app import main

PAGE = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")
SCALES = ("laptop", "small", "paper")
HEX = re.compile(r"-s(\d)-[0-9a-f]{8}")


def _size(file: Definition, scale: str) -> str:
    if scale not in file.scales:
        return "-"
    chosen = file.scales[scale]
    return f"{len(points(chosen, [0], [], {}))} x {len(chosen.seeds)}"


def test_every_sweep_is_in_the_table() -> None:
    rows = [
        " | ".join([f"| `{name}`", (file := load(name)).question, *(_size(file, scale) for scale in SCALES)]) + " |"
        for name in names()
    ]
    assert re.findall(r"^\| `\w+` \| .*\?.* \|.*\|$", PAGE, re.MULTILINE) == sorted(rows, key=_number)


def _number(row: str) -> tuple[int, str]:
    """Tables in the paper's order, then the rest."""
    name = row.split("`")[1]
    number = re.match(r"table(\d+)_", name)
    return (int(number[1]) if number else 99, name)


def test_takeaways_of_the_study_are_judged() -> None:
    assert all(load(name).scales["paper"].takeaways for name in names() if name.startswith("table"))


def test_the_example_is_launched_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine that has measured nothing. And shares its runs without a penalty with a sweep
    that is shipped."""
    (example,) = re.findall(r"```yaml\n(# kl\.yaml.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path / "cache"))
    Path("kl.yaml").write_text(example, encoding="utf-8")

    def dry_run(*arguments: str) -> str:
        assert main(["-m", *arguments, "dry_run=true"]) == 0
        return capsys.readouterr().out.replace(str(tmp_path), "/home/me")

    (shown,) = re.findall(r"dry_run=true\n```\n\nprints\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    example = dry_run("sweep=kl.yaml")
    assert _lines(example) == _lines(shown)
    theirs = _folders(dry_run("sweep=table10_algorithms", "seed=1"))
    assert _folders(example)["kl=without seed=1"] == theirs["task=w2-o3-q4 algo=rloo seed=1"]
    assert len({*_folders(example).values(), *theirs.values()}) == 2 + 4 - 1


def _folders(printed: str) -> dict[str, str]:
    return dict(re.findall(r"│ (\S+=.*? seed=\d) .* │ (\S+-s\d-[0-9a-f]{8}) +│", printed))


def _lines(text: str) -> list[str]:
    """A folder's hash changes with any default."""
    return [HEX.sub(r"-s\1-########", line.rstrip()) for line in text.strip().splitlines()]
