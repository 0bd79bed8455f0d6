"""A page of ours in a real browser without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium")
READY_MS = 120_000
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")


@contextmanager
def launched() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Tab:
    """An open page; ``complaints``: what the browser's console said, ``asked``: what was loaded."""

    def __init__(self, browser: Browser, scheme: str = "light", width: int = 1400) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        self.page: Page = context.new_page()
        self.page.set_default_timeout(READY_MS)
        expect.set_options(timeout=READY_MS)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, file: Path, target: str = "") -> Tab:
        self.page.goto(f"file://{file}{target}")
        expect(self.page.locator(".turngrid-viewer[data-ready]").first).to_be_attached()
        return self

    def find(self, selector: str, **options: object) -> Locator:
        return self.page.locator(selector, **options)

    def shows(self, total: str, first: str | None = None) -> None:
        expect(self.find(".total span")).to_have_text(total)
        if first:
            expect(self.find("h2 em")).to_have_text(first)
