"""The report's page in a real browser, and its Markdown: everything is there, nothing asks for a
network, nothing is HTML that should be text."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from report_sweep import BASE, GAMES, SweepMaker, claim, wins

from turngrid.experiments.report.__main__ import HTML, MARKDOWN, write
from turngrid.experiments.report.comparisons import Word
from turngrid.experiments.report.contents import TEMPLATES
from turngrid.experiments.report.gather import subjects

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
CHARTS = {"curves-steps", "curves-episodes"}
READY_MS = 120_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms, two evaluation sets, three seeds; of a third algorithm one run failed and one
    never began."""
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
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
        opened.set_default_timeout(READY_MS)
        expect.set_options(timeout=READY_MS)
        said: list[str] = []
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on("request", lambda request: said.append(request.url))
        opened.goto(f"file://{folder / HTML}")
        expect(opened.locator(".turngrid-viewer[data-ready]")).to_be_attached()
        yield opened
        browser.close()
        asked = {text for text in said if not text.startswith("data:")}
        assert asked == {f"file://{folder / HTML}"}  # no word on the console, and nothing but the file was asked for


@needs_browser
def test_the_table_stands_first_with_ours_beside_theirs(page: Page) -> None:
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
def test_every_chart_is_there_and_is_drawn(page: Page) -> None:
    charts = page.locator("svg.chart")
    assert set(charts.evaluate_all("nodes => nodes.map((node) => node.dataset.chart)")) == CHARTS
    empty = charts.evaluate_all("nodes => nodes.filter((node) => node.querySelectorAll('path').length < 8).length")
    assert empty == 0
    names = charts.evaluate_all("nodes => nodes.map((node) => node.getAttribute('aria-label'))")
    assert all(names)
    referred = page.evaluate("[...document.querySelectorAll('.chart defs [id]')].map((node) => node.id)")
    assert len(set(referred)) == len(referred) > 0  # a chart whose clip path is in a hidden chart is not drawn


@needs_browser
def test_every_setting_stands_on_every_evaluation_set(page: Page) -> None:
    rows = [" ".join(text.split()) for text in page.locator("#generalisation tbody tr").all_inner_texts()]
    assert rows == ["base model 20.0 5.0", "ppo 75.0 55.0", "grpo 35.0 15.0"]


@needs_browser
def test_curves_are_shown_by_step_or_by_episode(page: Page) -> None:
    steps, episodes = (page.locator(f"[data-chart=curves-{by}]") for by in ("steps", "episodes"))
    expect(steps).to_be_visible()
    expect(episodes).to_be_hidden()
    page.get_by_text("by episodes", exact=True).click()
    expect(episodes).to_be_visible()
    expect(steps).to_be_hidden()
    expect(episodes).to_contain_text("training episodes")


@needs_browser
def test_each_claim_has_its_verdict_and_its_scale(page: Page) -> None:
    section = page.locator("#takeaways")
    assert section.locator(".word").all_inner_texts() == ["✓ holds", "✗ does not hold", "? not enough data"]
    expect(section.locator(".lead")).to_contain_text("Measured at scale laptop and true of this scale only")
    expect(section.locator("li").first).to_contain_text("+40.0 points [")
    expect(section.locator("li").first).to_contain_text("by seed: +40.0, +40.0, +40.0")
    expect(section.locator("li").last).to_contain_text("1 failed, 1 not started.")


@needs_browser
def test_runs_without_a_result_are_named_with_their_reason(page: Page) -> None:
    rows = page.locator(".missing tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("rloo seed 0")
    expect(rows.first.locator("pre")).to_contain_text("exit code 1; see logs/rl.log")
    expect(rows.first.locator("pre")).to_contain_text("MemoryError: <b>no room</b> | none")  # as text
    expect(rows.last).to_contain_text("rloo seed 1")
    expect(page.locator("#result aside.warn")).to_contain_text("2 of 8 runs have no result")


@needs_browser
def test_what_a_sweep_says_is_text(page: Page) -> None:
    expect(page.locator(".question")).to_have_text("Which <algorithm> learns?")
    expect(page.locator("h1")).to_have_text("Algorithms & rewards")


@needs_browser
def test_any_sampled_episode_opens(page: Page) -> None:
    expect(page.locator("#episodes .total span")).to_have_text(
        "28 episodes, 14 won"
    )  # 2 + 2 of 6 runs and 1 base model
    page.locator("#episodes .row", has_text="16").first.click()  # PPO won games 1 to 15
    expect(page.locator("#episodes h2 em")).to_have_text("16")
    expect(page.locator("#episodes .end .badge")).to_have_text("out of turns")
    expect(page.locator("#episodes .turn[data-turn] .seen").first).to_have_text(
        "You are in the kitchen. A <b>table</b>."
    )


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_in_light_and_dark(page: Page, scheme: str, tmp_path: Path) -> None:
    """Contrast of 4.5 to 1 (WCAG 2.2, 1.4.3) of text on paper, and of a chart's letters. The
    picture is kept."""
    page.emulate_media(color_scheme=scheme)
    for selector in ("body", ".caption", ".result .published", ".does_not_hold .word", "svg.chart text"):
        ink = page.locator(selector).first.evaluate(
            "node => getComputedStyle(node)[node.namespaceURI.includes('svg') ? 'fill' : 'color']"
        )
        assert contrast(ink, page.evaluate("getComputedStyle(document.body).backgroundColor")) > 4.5, selector
    folder = Path(os.environ.get("TURNGRID_ARTEFACTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"report-{scheme}.png", full_page=True)
    page.emulate_media(color_scheme="light")


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


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
    assert (
        "| verified_ratio | **0.0** [" in text and "table 12: 4.0 | **50.0** [" in text and "table 12: 22.0 |" in text
    )
    assert "Score in % of a game's best, mean over seeds [95 % interval" in text
    assert "Its figures are mean shares of tests that pass, and the study does not say of which tests" in text
    mixed = {**rows, "won": {"reward": "ratio"}}
    write(maker.subject(mixed, {"grpo": {"stage": "rl"}}, published=published), tmp_path)
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
