"""docs/report.md: its example runs, its sections are those of the page, its verdicts are ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from report_sweep import BASE, SweepMaker, claim, wins

from turngrid.experiments.report.comparisons import Word
from turngrid.experiments.report.contents import TEMPLATES

PAGE = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maker = SweepMaker(tmp_path)
    for seed in range(2):
        maker.run({"base": BASE, "rl": wins(18)}, seed, algo="ppo")
    sweep = maker.write({"all": {}}, {"last": {}}, [claim({"algo": "ppo", "stage": "rl"}, {"stage": "base"})])
    names: dict = {}
    exec(EXAMPLE, names)  # noqa: S102 (the page's own example)
    names["show"](sweep)
    assert capsys.readouterr().out == "holds | the first is better | the 95 % interval lies wholly above zero.\n"


def test_verdicts_and_sections_are_named() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE)
    assert {str(word) for word in Word} <= set(rows)
    template = (Path(TEMPLATES) / "page.html.j2").read_text(encoding="utf-8")
    links = re.findall(r'<a href="#\w+">([^<{]+)</a>', template)
    listed = {part for row in rows for part in row.split(", ")}
    assert [name for name in links if name not in listed] == ["How to read this"]
