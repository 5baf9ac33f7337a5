"""The explorer's page in a real browser: opening it, waiting for it, and saving files from it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from .browser import PageMonitor

VIEWS = ("heads", "arcs", "heat", "neuron", "relations", "predict", "lens", "whatif", "attribute", "compare")
VIEWS += ("generate", "anatomy")


def opened(chromium, address: str, **settings) -> Iterator:
    context = chromium.new_context(viewport={"width": 1200, "height": 900}, **settings)
    page = context.new_page()
    page.set_default_timeout(60_000)
    monitor = PageMonitor(page, address.split("#")[0])
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    yield page
    context.close()
    assert not monitor.faults


def until(page, expression: str) -> None:
    """Wait until an expression is true; `wait_for_function` would need an eval that the page's policy forbids."""
    deadline = time.monotonic() + 20
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def show(page, view: str) -> None:
    page.click(f"#tab-{view}")
    page.wait_for_selector(f"[data-view={view}]")
    page.wait_for_selector("main[aria-busy=false]")
    assert page.inner_text(".error") == ""


def saved(page, name: str) -> bytes:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name, exact=True).click()
    return waiting.value.path().read_bytes()
