"""The report's page in a real browser without a network, and its Markdown."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_tab import Tab, launched, needs_browser
from playwright.sync_api import Page, expect
from report_sweep import BASE, GAMES, SweepMaker, claim, wins

from turngrid.experiments.report.__main__ import HTML, MARKDOWN, write
from turngrid.experiments.report.comparisons import Word
from turngrid.experiments.report.contents import TEMPLATES
from turngrid.experiments.report.gather import subjects

CHARTS = {"curves-steps", "curves-episodes"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms, two evaluation sets, three seeds; two runs of a third without a result."""
    maker = SweepMaker(tmp_path_factory.mktemp("report"))
    for seed in range(3):
        for algo, count in (("ppo", 15), ("grpo", 7)):
            curve = [0.1 * step for step in range(1, 7)]
            won = {"base": {"near": wins(4), "far": wins(1)}, "rl": {"near": wins(count), "far": wins(count - 4)}}
            maker.run(won, seed, curve, algo=algo)
    maker.failed(0, algo="rloo")
    maker.not_started(1, algo="rloo")
    columns = {"base": {"stage": "base"}, **{algo: {"algo": algo, "stage": "rl"} for algo in ("ppo", "grpo", "rloo")}}
    takeaways = [
        claim({"algo": "ppo", "stage": "rl"}, {"algo": "grpo", "stage": "rl"}),
        claim({"algo": "grpo", "stage": "rl"}, {"algo": "ppo", "stage": "rl"}),
        claim({"algo": "rloo", "stage": "rl"}, {"stage": "base"}),
    ]
    rows = {"w2-o3-q4": {"published": "w2-o3-q4/1.5B"}, "far": {"evaluation_set": "far", "published": "none"}}
    found = maker.write(rows, columns, takeaways, published="table10_algorithms")
    (subject,) = subjects([found])
    write(subject, found)
    return found


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    with launched() as browser:
        tab = Tab(browser, width=1280).open(folder / HTML)
        yield tab.page
        assert tab.complaints == []
        assert {url for url in tab.asked if not url.startswith("data:")} == {f"file://{folder / HTML}"}


@needs_browser
def test_the_table_stands_first_with_ours_beside_theirs(page: Page) -> None:
    expect(page.locator("h1")).to_have_text("Algorithms & rewards")
    expect(page.locator(".question")).to_have_text("Which <algorithm> learns?")
    expect(page.locator("main section").first.locator("h2")).to_have_text("Success on held-out games, beside table 10")
    cells = page.locator(".result tbody tr").first.locator("td")
    assert [" ".join(text.split()) for text in cells.all_inner_texts()] == [
        "20.0 8.1 to 41.6 1 measurement · 20 games table 10: 15.0",
        "75.0 55.0 to 90.0 3 seeds · 20 games table 10: 88.0",
        "35.0 15.0 to 55.0 3 seeds · 20 games table 10: 18.0",
        "1 failed, 1 not started table 10: 51.0",
    ]
    expect(page.locator(".result tbody tr").nth(1).locator("td").nth(1)).to_contain_text("not in table 10")
    expect(page.locator(".result tbody td svg.glyph")).to_have_count(8)


@needs_browser
def test_every_chart_is_drawn_and_curves_are_shown_by_step_or_by_episode(page: Page) -> None:
    charts = page.locator("svg.chart")
    assert set(charts.evaluate_all("nodes => nodes.map((node) => node.dataset.chart)")) == CHARTS
    assert charts.evaluate_all("nodes => nodes.every((node) => node.querySelectorAll('path').length >= 8)")
    assert all(charts.evaluate_all("nodes => nodes.map((node) => node.getAttribute('aria-label'))"))
    referred = page.evaluate("[...document.querySelectorAll('.chart defs [id]')].map((node) => node.id)")
    assert len(set(referred)) == len(referred) > 0  # a chart whose clip path is in a hidden chart is not drawn
    steps, episodes = (page.locator(f"[data-chart=curves-{by}]") for by in ("steps", "episodes"))
    expect(steps).to_be_visible()
    expect(episodes).to_be_hidden()
    page.get_by_text("by episodes", exact=True).click()
    expect(episodes).to_be_visible()
    expect(steps).to_be_hidden()


@needs_browser
def test_sections_have_what_the_runs_have(page: Page) -> None:
    section = page.locator("#takeaways")
    assert section.locator(".word").all_inner_texts() == ["✓ holds", "✗ does not hold", "? not enough data"]
    expect(section.locator(".lead")).to_contain_text("Measured at scale laptop and true of this scale only")
    expect(section.locator("li").first).to_contain_text("+40.0 points [")
    expect(section.locator("li").last).to_contain_text("1 failed, 1 not started.")
    rows = page.locator(".missing tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first.locator("pre")).to_contain_text("exit code 1; see logs/rl.log")
    expect(rows.first.locator("pre")).to_contain_text("MemoryError: <b>no room</b> | none")  # as text
    expect(page.locator("#result aside.warn")).to_contain_text("2 of 8 runs have no result")
    expect(page.locator("#episodes .total span")).to_have_text("28 episodes, 14 won")  # 2 + 2 of 6 runs and 1 base
    page.locator("#episodes .row", has_text="16").first.click()  # PPO won games 1 to 15
    expect(page.locator("#episodes .end .badge")).to_have_text("out of turns")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_in_light_and_dark(page: Page, scheme: str, tmp_path: Path) -> None:
    """Contrast of text and paper is 4.5 to 1 (WCAG 2.2, 1.4.3). The picture is kept."""
    page.emulate_media(color_scheme=scheme)
    for selector in ("body", ".caption", ".result .published", ".does_not_hold .word", "svg.chart text"):
        ink = page.locator(selector).first.evaluate(
            "node => getComputedStyle(node)[node.namespaceURI.includes('svg') ? 'fill' : 'color']"
        )
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 4.5, selector
    folder = Path(os.environ.get("TURNGRID_ARTEFACTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"report-{scheme}.png", full_page=True)
    page.emulate_media(color_scheme="light")


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@needs_browser
def test_a_narrow_window_does_not_scroll_sideways(page: Page) -> None:
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_page_holds_no_address_but_the_papers(folder: Path) -> None:
    html = (folder / HTML).read_text()
    assert set(re.findall(r"(?:src|href)=\"(https?://[^\"]+)\"", html)) == {"https://arxiv.org/abs/2510.01132"}
    assert str(folder.parent) not in html  # a page is sent round: where it was made is nobody's business


def test_markdown_has_the_same_figures(folder: Path) -> None:
    text = (folder / MARKDOWN).read_text()
    assert "| w2-o3-q4 | **20.0** [8.1, 41.6], 1 measurement, 20 games; table 10: 15.0 |" in text
    assert "| the first is better | holds | +40.0 [" in text
    assert "MemoryError: &lt;b>no room&lt;/b> \\| none |" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = table.replace("\\|", "").splitlines()
        assert len({line.count("|") for line in lines}) == 1, table
        assert set(lines[1]) <= set("|-")


def test_scores_are_called_scores_and_what_the_paper_measures_is_said(tmp_path: Path) -> None:
    maker = SweepMaker(tmp_path)
    maker.run({"base": [0.0] * GAMES, "rl": [0.5] * GAMES}, 0, reward="ratio")
    rows = {"verified_ratio": {"reward": "ratio", "measure": "score"}}
    published = "table12_swe_reward_source"
    subject = maker.subject(rows, {"base": {"stage": "base"}, "grpo": {"stage": "rl"}}, published=published)
    write(subject, tmp_path)
    text = (tmp_path / MARKDOWN).read_text()
    assert "## Score on held-out games, beside table 12\n" in text
    figures = ("| verified_ratio | **0.0** [", "table 12: 4.0 | **50.0** [", "table 12: 22.0 |")
    assert all(figure in text for figure in figures)
    assert "Its figures are mean shares of tests that pass, and the study does not say of which tests" in text
    write(maker.subject({**rows, "won": {"reward": "ratio"}}, {"grpo": {"stage": "rl"}}, published=published), tmp_path)
    text = (tmp_path / MARKDOWN).read_text()
    assert "## Score and success on held-out games" in text
    assert "], score, 1 seed, 20 games" in text and "], success, 1 seed, 20 games" in text


# ---- docs/report.md


DOCS = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)


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
    rows = re.findall(r"^\| ([^|]+) \|", DOCS, re.MULTILINE)
    assert {str(word) for word in Word} <= set(rows)
    template = (Path(TEMPLATES) / "page.html.j2").read_text(encoding="utf-8")
    links = re.findall(r'<a href="#\w+">([^<{]+)</a>', template)
    listed = {part for row in rows for part in row.split(", ")}
    assert [name for name in links if name not in listed] == ["How to read this"]
